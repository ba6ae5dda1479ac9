"""The GPU engine on several nodes: real mpirun, real sshd, each node in namespaces of its own (`lab.cluster`)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Dict, Iterator, List, Mapping, Optional

import pytest
from helpers.launcher import ROOT
from lab.cluster import SSH_PORT, Cluster, ipv6_address, missing
from lab.open_mpi import OpenMpi, installed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not installed(), reason="no mpirun here"),
    pytest.mark.skipif(bool(missing()), reason=f"a cluster needs {', '.join(missing())}"),
]
DROP_IN = os.path.join(ROOT, "tools", "davincirun.py")
ENDS = os.path.join(ROOT, "tests", "lab", "workers", "ends.py")
SHOWS = os.path.join(ROOT, "tests", "lab", "workers", "shows.py")
EXAMPLES = os.path.join(ROOT, "tools", "examples")
START_SECONDS = 60
DEADLINE_SECONDS = 60
PROMPTLY_SECONDS = 3.0
NOTICED_SECONDS = 15.0
ODD_VALUES = {
    "MA_T_BLANKS": "  a b ",
    "MA_T_QUOTES": "'\"`$(x);,#=\\",
    "MA_T_LINES": "one\ntwo\n\n",
    "MA_T_TEXT": "日本é",
    "MA_T_BYTES": "\udcff\udc80",
    "MA_T_LONG": "x" * 20000,
    "CRED": '{"key": "a, b"}',
}


class Job:
    """The same command on all nodes of a cluster, two simulated GPUs each; every node starts its own sshd."""

    def __init__(self, cluster: Cluster, mpi: OpenMpi) -> None:
        self.cluster = cluster
        self.mpi = mpi
        self.nodes: Dict[int, "subprocess.Popen[bytes]"] = {}

    def start(
        self,
        *command: str,
        without: int = -1,
        options: "tuple[str, ...]" = (),
        everywhere: "Optional[Mapping[str, str]]" = None,
        **environ: str,
    ) -> None:
        """Start it on all nodes but one; `environ` is node 0's alone."""
        for index in range(self.cluster.count):
            if index != without:
                env = {**(everywhere or {}), **(environ if index == 0 else {})}
                self.nodes[index] = self._start(index, [*options, *command], env)

    def read_until(self, text: str, times: int) -> None:
        """Wait for what node 0 says."""
        deadline = time.monotonic() + START_SECONDS
        while self.output(0).count(text) < times:
            assert time.monotonic() < deadline and self.nodes[0].poll() is None, self.output(0)
            time.sleep(0.02)

    def wait(self, seconds: float = DEADLINE_SECONDS) -> "dict[int, Optional[int]]":
        """Each node's exit status; None: it hasn't ended in time."""
        deadline = time.monotonic() + seconds
        statuses: "dict[int, Optional[int]]" = {}
        for index, process in self.nodes.items():
            try:
                statuses[index] = process.wait(max(deadline - time.monotonic(), 0.05))
            except subprocess.TimeoutExpired:
                statuses[index] = None
        return statuses

    def output(self, index: int) -> str:
        with open(self._output_path(index), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def left(self, *but: int) -> List[str]:
        """What still runs on the nodes, save for `but`, whose container is dead."""
        nodes = [index for index in range(self.cluster.count) if index not in but]
        return [line for index in nodes for line in self.cluster.processes(index).values()]

    def _start(self, index: int, arguments: List[str], environ: Dict[str, str]) -> "subprocess.Popen[bytes]":
        env = {
            "PATH": self.mpi.path,
            "VC_WORKER_HOSTS": ",".join(self.cluster.names),
            "MA_NUM_HOSTS": str(self.cluster.count),
            "VC_TASK_INDEX": str(index),
            "SSHD_PORT": str(SSH_PORT),
            "DAVINCIRUN_SSHD_CONFIG": self.cluster.sshd_config,
            **environ,
        }
        options = ["--simulate", "gpu:2", "--log-dir", "/tmp/log"]
        argv = [self.mpi.python, DROP_IN, *options, *arguments]
        return self.cluster.start(index, argv, env, self._output_path(index))

    def _output_path(self, index: int) -> str:
        return os.path.join(self.cluster.folder, f"output{index}")


@pytest.fixture(params=installed(), ids=str)
def mpi(request) -> OpenMpi:
    return request.param


@pytest.fixture
def job(mpi: OpenMpi, request) -> Iterator[Job]:
    folder = tempfile.mkdtemp(prefix="davincirun-lab-")  # short: sshd's and Open MPI's sockets lie below /tmp
    shared = [mpi.root, os.path.dirname(os.path.dirname(mpi.python))]
    try:
        with Cluster(folder, getattr(request, "param", 3), shared) as cluster:
            yield Job(cluster, mpi)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_mpi_works_across_the_nodes(job: Job) -> None:
    if not job.mpi.has_mpi4py:
        pytest.skip("no mpi4py beside this mpirun")
    job.start(job.mpi.python, os.path.join(EXAMPLES, "mpi_allreduce.py"))
    assert job.wait() == {0: 0, 1: 0, 2: 0}, job.output(0)
    lines = re.findall(r"^rank (\d) of 6 on node(\d): the sum is 21$", job.output(0), re.MULTILINE)
    assert sorted(lines) == [(str(rank), str(rank // 2)) for rank in range(6)]
    assert job.left() == []


@pytest.mark.parametrize("name", ["{}.lab", "[{}]"], ids=["with a domain", "IPv6"])
def test_nodes_may_go_by_names_with_a_domain_and_by_ipv6_addresses(job: Job, name: str) -> None:
    called = job.cluster.names if "lab" in name else [ipv6_address(index) for index in range(job.cluster.count)]
    hosts = ",".join(map(name.format, called))
    job.start(job.mpi.python, SHOWS, options=("--hosts", hosts))
    assert job.wait() == {0: 0, 1: 0, 2: 0}, job.output(0)
    assert job.output(0).count(" has ") == 6


def test_a_host_file_of_ones_own_may_call_nodes_by_names_with_a_domain(job: Job) -> None:
    path = os.path.join(job.cluster.folder, "own-hosts")
    with open(path, "wb") as file:
        file.write(b"# caf\xe9\n")  # whatever the file's encoding
        file.writelines(f"{name}.lab slots=2\n".encode() for name in job.cluster.names)
    job.start(job.mpi.python, SHOWS, everywhere={"OPENMPI_HOST_FILE_PATH": path})
    assert job.wait() == {0: 0, 1: 0, 2: 0}, job.output(0)
    assert job.output(0).count(" has ") == 6


def test_values_and_arguments_arrive_byte_for_byte(job: Job) -> None:
    arguments = [":", "--", "--map-by", "x", "--bind-to", "y", "", "\udcff", *(f"argument{n}" for n in range(5000))]
    job.start(job.mpi.python, SHOWS, *arguments, options=("--workdir", "/tmp/new/folder"), **ODD_VALUES)
    assert job.wait() == {0: 0, 1: 0, 2: 0}, job.output(0)[-3000:]
    values = [os.fsencode(f"{name}={value}").hex() for name, value in sorted(ODD_VALUES.items(), key=lambda item: item)]
    shown = " ".join([*sorted(values, key=bytes.fromhex), *(os.fsencode(word).hex() or "-" for word in arguments)])
    lines = [line for line in job.output(0).splitlines() if line.startswith("rank ")]
    assert sorted(lines) == [f"rank {rank} in /tmp/new/folder has {shown}" for rank in range(6)]


@pytest.mark.parametrize("how, status", [("fails", 3), ("is_killed", 137)])
def test_a_failure_on_one_node_ends_all_with_its_status(job: Job, how: str, status: int) -> None:
    job.start(job.mpi.python, ENDS, "5", how)
    job.read_until("rank 5 is up", 1)
    started = time.monotonic()
    assert job.wait() == {0: status, 1: status, 2: status}, job.output(0)
    assert time.monotonic() - started < 0.5 + PROMPTLY_SECONDS
    assert "rank 5 failed first" in job.output(0) and "host node2" in job.output(0)
    assert job.left() == []


def test_a_failure_between_mpis_ranks_does_too(job: Job) -> None:
    if not job.mpi.has_mpi4py:
        pytest.skip("no mpi4py beside this mpirun")
    job.start(job.mpi.python, ENDS, "5", "fails", "mpi")
    job.read_until("rank 5 is up", 1)
    started = time.monotonic()
    assert job.wait() == {0: 3, 1: 3, 2: 3}, job.output(0)
    assert time.monotonic() - started < 0.5 + PROMPTLY_SECONDS
    assert job.left() == []


@pytest.mark.parametrize("node", [0, 1])
def test_term_on_any_node_ends_all_within_the_grace(job: Job, node: int) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits")
    job.read_until("is up", 6)
    job.cluster.signal(job.nodes[node], signal.SIGTERM)
    assert job.wait() == {0: 143, 1: 143, 2: 143}, job.output(0)
    assert job.output(0).count("was told to end") == 6
    assert job.left() == []


def test_a_node_whose_sshd_never_comes_is_named(job: Job) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits", without=1, options=("--hosts-timeout", "3"))
    assert job.wait() == {0: 1, 2: 1}
    assert re.search(r"no sshd on port 2222 of node1 \(connection refused\) after ", job.output(0))
    assert "waiting: no sshd on port 2222 of node1" in job.output(0)
    assert job.left() == []


def test_a_node_0_that_never_comes_is_waited_for_only_so_long(job: Job) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits", without=0, options=("--hosts-timeout", "3"))
    assert job.wait() == {1: 1, 2: 1}
    assert "node 0 has not come after" in job.output(1)
    assert job.left() == []


def test_the_end_of_node_0s_container_ends_the_others(job: Job) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits")
    job.read_until("is up", 6)
    job.cluster.kill(0)
    statuses = job.wait(30)
    assert (statuses[1], statuses[2]) == (1, 1)
    assert "node 0, node0, is gone" in job.output(1)
    assert job.left(0) == []


@pytest.mark.parametrize("event", ["kill", "cut"])
def test_a_node_that_goes_dark_is_noticed(job: Job, event: str) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits")
    job.read_until("is up", 6)
    getattr(job.cluster, event)(2)
    statuses = job.wait(NOTICED_SECONDS + 20)
    assert (statuses[0], statuses[1]) == (1, 1), job.output(0)
    assert "on node2: lost without a report" in job.output(0), job.output(0)  # also where mpirun was first to notice
    assert job.left(*([2] if event == "kill" else [])) == []


def test_a_process_in_another_session_that_holds_stdout_doesnt_keep_the_job(job: Job) -> None:
    job.start(job.mpi.python, ENDS, "5", "leaves")
    assert job.wait() == {0: 0, 1: 0, 2: 0}, job.output(0)
    assert job.left() == []


def test_nothing_is_left_anywhere_when_node_0s_launcher_is_killed(job: Job) -> None:
    job.start(job.mpi.python, ENDS, "0", "waits")
    job.read_until("is up", 6)
    job.cluster.signal(job.nodes[0], signal.SIGKILL)
    assert set(job.wait(30).values()) & {0, None} == set()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while job.left():
        assert time.monotonic() < deadline, job.left()
        time.sleep(0.05)


@pytest.mark.parametrize("job", [2], indirect=True)
def test_torch_trains_over_gloo_on_two_nodes(job: Job) -> None:
    python = os.environ.get("DAVINCIRUN_TEST_TORCH_PYTHON", job.mpi.python)
    if subprocess.call([python, "-c", "import torch"], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("no torch: DAVINCIRUN_TEST_TORCH_PYTHON may name a Python that has it")
    exported = {"GLOO_SOCKET_IFNAME": "eth0", "OPENMPI_X_ARGS": "-x GLOO_SOCKET_IFNAME"}
    job.start(python, os.path.join(EXAMPLES, "train.py"), **exported)
    assert job.wait(110) == {0: 0, 1: 0}, job.output(0)
    assert "DistributedDataParallel over gloo" in job.output(0)
    assert "4 workers trained together" in job.output(0)
