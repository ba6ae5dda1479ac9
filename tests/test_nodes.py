"""Several real launchers on this machine, each a node of one job: they agree, fail together, and name who failed."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import uuid
from typing import Callable, Dict, List, Sequence

import pytest
from helpers.launcher import Ended, Launcher
from helpers.nodes import Job, free_port, table_of, wait_until

Start = Callable[..., Job]
SOON = 5.0  # on a loaded machine; on an idle one it takes milliseconds


@pytest.fixture
def job(where_to_meet: str, launch: Launcher) -> Start:
    """Makes the job's launches meet each way."""

    def start(*command: str, nodes: int = 3, options: Sequence[str] = ()) -> Job:
        return Job(launch, command, ["--nodes", str(nodes), "--rendezvous", where_to_meet, *options])

    return start


def rank_of(line: str) -> int:
    return int(line.split()[1])


def tables(ended: List[Ended]) -> List[bytes]:
    """The bytes of each node's rank table, by what the launchers say of it."""
    paths = [re.search(r"rank table (\S+)", one.stderr) for one in ended]
    found = []
    for path in paths:
        assert path is not None
        with open(path.group(1), "rb") as file:
            found.append(file.read())
    return found


def test_all_nodes_get_the_same_table_ordered_by_rank(job: Start) -> None:
    with job("sh", "-c", "echo $RANK_ID of $RANK_SIZE: $LOCAL_RANK on $NODE_RANK, $MASTER_ADDR:$MASTER_PORT") as nodes:
        for rank in (2, 0, 1):
            nodes.start(rank)
        ended = nodes.end()
    assert [one.status for one in ended] == [0, 0, 0], ended
    assert len(set(tables(ended))) == 1
    servers = json.loads(tables(ended)[0].decode())["server_list"]
    assert [[device["rank_id"] for device in server["device"]] for server in servers] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
    ]
    said = sorted(line for one in ended for line in one.stdout.splitlines())
    assert [line.split(", ")[0] for line in said] == [f"{rank} of 6: {rank % 2} on {rank // 2}" for rank in range(6)]
    assert len({line.split(", ")[1] for line in said}) == 1
    for rank, one in enumerate(ended):
        assert f"ranks {2 * rank}-{2 * rank + 1} of 6" in one.stderr


def test_nodes_may_have_different_numbers_of_cards(job: Start) -> None:
    with job("true", nodes=2) as nodes:
        nodes.start(0, workers=3)
        nodes.start(1, workers=1)
        ended = nodes.end()
    assert [one.status for one in ended] == [0, 0], ended
    assert "ranks 0-2 of 4" in ended[0].stderr and "rank 3 of 4" in ended[1].stderr


@pytest.mark.parametrize(("how", "status", "text"), [("7", 7, "ended with exit status 7"), ("SIGSEGV", 139, "SIGSEGV")])
def test_one_rank_s_failure_ends_all_nodes_with_its_status(job: Start, how: str, status: int, text: str) -> None:
    with job("fails_when_told.py", "3", how) as nodes:
        for running in nodes.start_all(3):
            running.read_until("ready", times=2)
        began = time.monotonic()
        nodes.nodes[1].send_signal(signal.SIGUSR1)
        ended = nodes.end()
        took = time.monotonic() - began
    assert [one.status for one in ended] == [status] * 3, ended
    assert took < SOON
    for one in ended:
        assert re.search(rf"node 1 \(\S+\): rank 3 .*{text}.* after", one.stderr), one
    assert "rank 3 failed first" in ended[1].stderr


def test_a_signal_to_one_node_ends_all(job: Start) -> None:
    with job("waits.py") as nodes:
        for running in nodes.start_all(3):
            running.read_until("ready", times=2)
        nodes.nodes[2].send_signal(signal.SIGTERM)
        ended = nodes.end()
    assert [one.status for one in ended] == [143] * 3, ended
    assert re.search(r"node 2 \(\S+\): stopped by SIGTERM", ended[0].stderr)


@pytest.mark.parametrize("victim", [0, 2])
def test_a_killed_launcher_is_noticed_and_named(job: Start, victim: int) -> None:
    with job("waits.py", options=["--node-timeout", "2"]) as nodes:
        for running in nodes.start_all(3):
            running.read_until("ready", times=2)
        began = time.monotonic()
        os.kill(nodes.nodes[victim].supervisor, signal.SIGKILL)
        ended = nodes.end()
        took = time.monotonic() - began
    assert ended[victim].status == 137
    assert [one.status for rank, one in enumerate(ended) if rank != victim] == [1, 1], ended
    assert took < 2 + SOON
    for rank, one in enumerate(ended):
        assert rank == victim or re.search(rf"node {victim} \(\S+\): vanished", one.stderr), one


def test_a_node_that_never_comes_is_named_by_all(job: Start) -> None:
    with job("true", options=["--rendezvous-timeout", "2"]) as nodes:
        nodes.start(0)
        nodes.start(2)
        ended = nodes.end()
    assert [one.status for one in ended] == [1, 1], ended
    for one in ended:
        assert "davincirun: after 2 s there is nothing of node 1" in one.stderr, one
        assert "waiting for node 1; " in one.stderr, one


def test_without_node_0_the_others_say_so(job: Start) -> None:
    with job("true", options=["--rendezvous-timeout", "1"]) as nodes:
        nodes.start(1)
        (ended,) = nodes.end()
    assert ended.status == 1
    assert "there is nothing of node 0" in ended.stderr


def test_a_node_that_comes_twice_is_refused_and_the_job_goes_on(job: Start, launch: Launcher) -> None:
    with job("waits.py") as nodes:
        for running in nodes.start_all(3):
            running.read_until("ready", times=2)
        first = nodes.nodes[1]
        again = nodes.start(1)
        assert again.end().status == 1
        assert "node 1 (" in again.stderr and "has come already (pid" in again.stderr
        nodes.nodes[1] = first
        first.send_signal(signal.SIGTERM)
        assert [one.status for one in nodes.end()] == [143] * 3


def test_an_interrupt_while_waiting_ends_the_wait_and_the_place_is_free_again(job: Start) -> None:
    with job("true", nodes=2) as nodes:
        waiting = nodes.start(1)
        waiting.read_until("waiting for node 0", among="stderr")
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait() == 143
        nodes.start(0)
        nodes.start(1)
        assert [one.status for one in nodes.end()] == [0, 0]


def test_different_commands_are_noticed(job: Start) -> None:
    with job("true", nodes=2) as nodes:
        nodes.start(0)
        nodes._command = ("prints.py", "RANK_ID")
        nodes.start(1)
        ended = nodes.end()
    assert all("the nodes start different commands" in one.stderr for one in ended), ended


def test_a_file_that_can_t_be_started_on_one_node_ends_all(job: Start, tmp_path) -> None:
    with job("waits.py", nodes=2) as nodes:
        first = nodes.start(0)
        nodes._command = (str(tmp_path / "nothing"),)
        nodes.start(1)
        ended = nodes.end()
    assert [one.status for one in ended] == [127, 127], ended
    assert re.search(r"node 1 \(\S+\): rank 2 can't be started", first.stderr)


def test_a_node_of_another_job_is_kept_out(launch: Launcher) -> None:
    where = f"tcp://127.0.0.1:{free_port()}"
    options = ["--nodes", "2", "--rendezvous", where, "--rendezvous-timeout", "3"]
    with Job(launch, ("true",), options) as nodes:
        nodes.start(0)
        stranger = nodes.start(1, env={"DAVINCIRUN_RENDEZVOUS_KEY": "another"})
        stranger.read_until("it belongs to another job", among="stderr")
        server, client = nodes.end()
    assert (server.status, client.status) == (1, 1)
    assert "its key is another job's" in server.stderr
    assert "nothing of node 1" in server.stderr


def test_what_a_crashed_run_left_in_the_directory_is_recognised(launch: Launcher, tmp_path) -> None:
    options = ["--nodes", "2", "--rendezvous", str(tmp_path / "shared")]
    with Job(launch, ("waits.py",), options) as nodes:
        for running in nodes.start_all(2):
            running.read_until("ready", times=2)
        for running in nodes.nodes.values():
            os.kill(running.supervisor, signal.SIGKILL)
        nodes.end()
    assert wait_until((tmp_path / "shared" / "job" / "leader").exists)
    with Job(launch, ("true",), options) as nodes:
        nodes.start(1)
        nodes.start(0)
        ended = nodes.end()
    assert [one.status for one in ended] == [0, 0], ended
    assert not (tmp_path / "shared" / "job").exists()


def test_nodes_without_ranks_meet_in_a_directory(launch: Launcher, tmp_path) -> None:
    options = ["--nodes", "3", "--rendezvous", str(tmp_path / "shared")]
    running = [launch("true", options=options) for _ in range(3)]
    try:
        ended = [one.end() for one in running]
    finally:
        for one in running:
            one.__exit__(None, None, None)
    assert [one.status for one in ended] == [0, 0, 0], ended
    assert len(set(tables(ended))) == 1
    assert sorted(re.findall(r"ranks (\d)-", "".join(one.stderr for one in ended))) == ["0", "2", "4"]


def test_a_directory_that_can_t_be_used_is_said_at_once(launch: Launcher, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    ended = launch.run("true", options=["--nodes", "2", "--node-rank", "0", "--rendezvous", str(tmp_path / "file")])
    assert ended.status == 1
    assert "davincirun: the shared directory" in ended.stderr


def in_touch(launch: Launcher, tmp_path, *command: str) -> Job:
    """Two launches with nothing but a table in common."""
    table = tmp_path / "table.json"
    table.write_text(table_of(["127.0.0.1", "127.0.0.2"]))
    return Job(launch, command, ["--rank-table", str(table)])


def start_in_touch(nodes: Job, rank: int, *options: str) -> None:
    running = nodes.start(rank, *options, workers=None, env={"MA_CURRENT_HOST_IP": f"127.0.0.{rank + 1}"})
    running.read_until("ready")


def test_with_only_a_table_a_failure_on_one_node_ends_the_other(launch: Launcher, tmp_path) -> None:
    with in_touch(launch, tmp_path, "fails_when_told.py", "1", "6") as nodes:
        for rank in (1, 0):
            start_in_touch(nodes, rank)
        nodes.nodes[1].send_signal(signal.SIGUSR1)
        ended = nodes.end()
    assert [one.status for one in ended] == [6, 6], ended
    assert re.search(r"node 1 \(\S+\): rank 1 ended with exit status 6", ended[0].stderr)


def test_with_only_a_table_a_node_alone_ends_as_it_would_anyway(launch: Launcher, tmp_path) -> None:
    with in_touch(launch, tmp_path, "true") as nodes:
        began = time.monotonic()
        nodes.start(1, workers=None, env={"MA_CURRENT_HOST_IP": "127.0.0.2"})
        (ended,) = nodes.end()
    assert ended.status == 0
    assert "WARNING" not in ended.stderr
    assert time.monotonic() - began < SOON


def test_with_only_a_table_a_node_that_is_done_does_not_hold_the_other(launch: Launcher, tmp_path) -> None:
    with in_touch(launch, tmp_path, "prints_signals.py") as nodes:
        for rank in (0, 1):
            start_in_touch(nodes, rank)
        os.kill(nodes.nodes[0].pids()[0], signal.SIGTERM)
        assert nodes.nodes[0].wait() == 0
        os.kill(nodes.nodes[1].pids()[1], signal.SIGTERM)
        assert nodes.nodes[1].wait() == 0


def volcano(index: int, hosts: List[str], address: str) -> Dict[str, str]:
    names = ",".join(f"{host}.bert" for host in hosts)
    return {"VC_TASK_INDEX": str(index), "VC_WORKER_NUM": str(len(hosts)), "VC_WORKER_HOSTS": names}


def modelarts(index: int, hosts: List[str], address: str) -> Dict[str, str]:
    own = {"MA_VJ_NAME": "ma-job-77", "MA_CURRENT_INSTANCE_NAME": hosts[index], "MA_CURRENT_HOST_IP": address}
    return {**volcano(index, hosts, address), **own, "MA_NUM_HOSTS": str(len(hosts))}


def modelarts_1(index: int, hosts: List[str], address: str) -> Dict[str, str]:
    """The first generation, whose pods know neither Volcano nor their own address."""
    names = {f"BATCH_CUSTOM{number}_HOSTS": f"{host}.ns:6666" for number, host in enumerate(hosts)}
    own = {"BATCH_JOB_ID": "job77", "BATCH_TASK_CURRENT_INSTANCE": hosts[index], "DLS_TASK_INDEX": str(index)}
    return {**names, **own, "DLS_TASK_NUMBER": str(len(hosts))}


@pytest.mark.parametrize("form", ["1.0", "1.2", "group_list"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("platform", [volcano, modelarts, modelarts_1])
def test_each_node_of_a_platform_s_job_starts_its_own_cards(
    launch: Launcher, tmp_path, platform: Callable[..., Dict[str, str]], form: str, count: int
) -> None:
    addresses = [f"127.0.0.{index + 1}" for index in range(count)]
    hosts = [f"bert-worker-{index}" for index in range(count)]
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "jobstart_hccl.json").write_text(platform_s_table(form, addresses, hosts))
    command = ["sh", "-c", "echo rank $RANK_ID of $RANK_SIZE on node $NODE_RANK"]
    with Job(launch, command, ["--job-id", uuid.uuid4().hex]) as nodes:
        for index, address in enumerate(addresses):
            env = {**platform(index, hosts, address), "RANK_TABLE_FILE": str(folder)}
            nodes.start_as_told(index, workers=None, env=env)
        ended = nodes.end()
    assert [one.status for one in ended] == [0] * count, ended
    for index, one in enumerate(ended):
        own = [f"rank {rank} of {2 * count} on node {index}" for rank in (2 * index, 2 * index + 1)]
        assert sorted(one.stdout.splitlines()) == own, one


def platform_s_table(form: str, addresses: List[str], hosts: List[str]) -> str:
    """A table of servers with two cards each."""
    document = json.loads(table_of(addresses, cards=2))
    servers = document["server_list"]
    if form == "group_list":
        instances = [
            {"pod_name": host, "server_id": server["server_id"], "devices": server["device"]}
            for host, server in zip(hosts, servers)
        ]
        group = {"group_name": "g", "device_count": str(2 * len(hosts)), "instance_count": str(len(hosts))}
        return json.dumps(
            {"status": "completed", "group_count": "1", "group_list": [{**group, "instance_list": instances}]}
        )
    if form == "1.2":
        for server in servers:
            for device in server["device"]:
                device["super_device_id"] = device["rank_id"]
    return json.dumps({**document, "version": form})
