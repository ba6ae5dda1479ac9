"""`davincirun --hosts` from one shell: real mpirun, real sshd, three nodes in namespaces of their own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Iterator, List, Optional, Sequence

import pytest
from helpers.launcher import ROOT, WORKERS
from helpers.nodes import wait_until
from lab.cluster import SSH_PORT, Cluster, missing
from lab.open_mpi import OpenMpi, installed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not installed(), reason="no mpirun here"),
    pytest.mark.skipif(bool(missing()), reason=f"a cluster needs {', '.join(missing())}"),
]
DROP_IN = os.path.join(ROOT, "tools", "davincirun.py")
SECONDS = 60.0
SOON = 5.0  # on a loaded machine; on an idle one, one second


class Shell:
    """One launch from a shell on node 0."""

    def __init__(self, cluster: Cluster, mpi: OpenMpi) -> None:
        self.cluster = cluster
        self.mpi = mpi
        self._output = os.path.join(cluster.folder, "output")
        self._process: "Optional[subprocess.Popen[bytes]]" = None
        for index in range(cluster.count):
            cluster.start_sshd(index)
        self._daemons = set(self._processes())

    def start(
        self, *command: str, options: "tuple[str, ...]" = ("--simulate", "2"), hosts: str = "", tools: str = ""
    ) -> None:
        """`tools` is a folder that comes first on PATH."""
        path = os.path.join(self.cluster.folder, "hostfile")
        with open(path, "w") as file:
            file.write(hosts or "".join(f"{name} slots=8\n" for name in self.cluster.names))
        argv = [self.mpi.python, DROP_IN, "--hosts", path, "--log-dir", "/tmp/log", "--no-prefix", *options, *command]
        path_variable = f"{tools}:{self.mpi.path}" if tools else self.mpi.path
        env = {"PATH": path_variable, "SSHD_PORT": str(SSH_PORT), "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = self.cluster.start(0, argv, env, self._output)

    @property
    def output(self) -> str:
        with open(self._output, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def fake_cards(self, counts: Sequence[int]) -> str:
        """A folder of fake tools, which tell of so many cards on each node."""
        folder = os.path.join(self.cluster.folder, "tools")
        os.mkdir(folder)
        cases = ""
        for index, count in enumerate(counts):
            addresses = ",".join(f"{card}:10.20.{index}.{card + 1}" for card in range(count))
            cases += f"{self.cluster.names[index]}) FAKE_ASCEND='910b:{count}; ip={addresses}' ;; "
        for name in ("npu-smi", "hccn_tool"):
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write(f"#!/bin/sh\ncase $(hostname) in {cases}esac\nexport FAKE_ASCEND\n")
                file.write(f'exec "{self.mpi.python}" -S "{ROOT}/tools/fake_ascend/{name}" "$@"\n')
            os.chmod(path, 0o755)
        return folder

    def read_until(self, text: str, times: int) -> None:
        assert wait_until(lambda: self.output.count(text) >= times, SECONDS), self.output

    def wait(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end\n{self.output}\n{self._processes()}") from None

    def signal(self, signum: int) -> None:
        assert self._process is not None
        self.cluster.signal(self._process, signum)

    def left(self) -> List[str]:
        """What is left on the nodes beside their sshds; those need a moment to see a connection's end."""
        wait_until(lambda: not set(self._processes()) - self._daemons, 5)
        return [line for pid, line in self._processes().items() if pid not in self._daemons]

    def _processes(self) -> "dict[int, str]":
        nodes = [self.cluster.processes(index) for index in range(self.cluster.count)]
        return {pid: line for found in nodes for pid, line in found.items()}


@pytest.fixture(params=installed(), ids=str)
def shell(request) -> Iterator[Shell]:
    mpi: OpenMpi = request.param
    folder = tempfile.mkdtemp(prefix="davincirun-lab-")  # short: sshd's and Open MPI's sockets lie below /tmp
    shared = [mpi.root, os.path.dirname(os.path.dirname(mpi.python))]
    try:
        with Cluster(folder, 3, shared) as cluster:
            yield Shell(cluster, mpi)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker(shell: Shell, name: str, *arguments: str) -> List[str]:
    return [shell.mpi.python, "-S", os.path.join(WORKERS, name), *arguments]


def test_one_command_starts_all_nodes_with_one_table(shell: Shell) -> None:
    shell.start("sh", "-c", "echo rank $RANK_ID of $RANK_SIZE on $(hostname): $(md5sum <$RANK_TABLE_FILE); sleep 0.5")
    assert shell.wait() == 0, shell.output
    said = sorted(re.findall(r"rank (\d) of 6 on node(\d): (\w+)", shell.output))
    assert [(rank, node) for rank, node, _ in said] == [(str(rank), str(rank // 2)) for rank in range(6)], shell.output
    assert len({table for _, _, table in said}) == 1
    assert shell.output.rstrip().endswith("davincirun: all nodes finished")
    assert shell.left() == []


def test_nodes_with_four_four_and_two_cards_make_one_job_of_ten_ranks(shell: Shell) -> None:
    """Each node finds its own cards; that of the last fails."""
    script = "echo rank $RANK_ID of $RANK_SIZE on $(hostname); [ $RANK_ID = 9 ] || exec sleep 100; sleep 1; exit 7"
    shell.start("sh", "-c", script, options=(), tools=shell.fake_cards([4, 4, 2]))
    assert shell.wait() == 7, shell.output
    said = sorted(set(re.findall(r"rank (\d) of 10 on node(\d)", shell.output)))  # the summary repeats the last
    assert said == [(str(rank), str(rank // 4)) for rank in range(10)], shell.output
    assert re.search(r"^davincirun: node 2 \(node2\): rank 9 .*; all nodes were stopped$", shell.output, re.M)
    assert shell.left() == []


@pytest.mark.parametrize("how, status", [("7", 7), ("SIGSEGV", 139)])
def test_one_rank_s_failure_ends_all_and_is_shown_here(shell: Shell, how: str, status: int) -> None:
    fails = f"[ $RANK_ID != 5 ] || {{ sleep 1; {'kill -SEGV $$' if how == 'SIGSEGV' else 'exit 7'}; }}; sleep 100"
    shell.start("sh", "-c", f"echo ready; {fails}")
    shell.read_until("ready", 6)
    began = time.monotonic()
    assert shell.wait() == status, shell.output
    assert time.monotonic() - began < 1 + SOON
    assert "rank 5 failed first" in shell.output
    assert re.search(r"^davincirun: node 2 \(node2\): rank 5 .*; all nodes were stopped$", shell.output, re.M)
    assert shell.left() == []


def test_workers_that_save_on_term_get_their_whole_grace(shell: Shell) -> None:
    saves = "trap 'sleep 3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    shell.start("sh", "-c", f"[ $RANK_ID != 5 ] || {{ echo ready; sleep 2; exit 4; }}; {saves}")
    assert shell.wait() == 4, shell.output
    assert shell.output.count("saved") == 5, shell.output


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_here_stops_all_nodes(shell: Shell, signum: int) -> None:
    shell.start(*worker(shell, "waits.py"))
    shell.read_until("ready", 6)
    shell.signal(signum)
    assert shell.wait() == 128 + signum, shell.output
    assert shell.left() == []


def test_a_killed_shell_leaves_nothing_on_any_node(shell: Shell) -> None:
    shell.start(*worker(shell, "waits.py"), options=("--simulate", "2", "--node-timeout", "3"))
    shell.read_until("ready", 6)
    shell.signal(signal.SIGKILL)
    shell.wait()
    assert wait_until(lambda: shell.left() == [], 20), shell.left()


@pytest.mark.parametrize("way", ["cut", "kill"])
def test_a_lost_node_is_named_and_ends_all(shell: Shell, way: str) -> None:
    shell.start(*worker(shell, "waits.py"), options=("--simulate", "2", "--node-timeout", "6"))
    shell.read_until("ready", 6)
    began = time.monotonic()
    getattr(shell.cluster, way)(2)
    assert shell.wait() == 1, shell.output
    assert time.monotonic() - began < 6 + 5 + 10 + SOON
    # Open MPI 5 may have left a NUL there, without a line end.
    assert re.search(r"^\0?davincirun: node 2 \(node2\): vanished", shell.output, re.M), shell.output


def test_a_host_that_can_t_be_reached_is_said(shell: Shell) -> None:
    shell.start("true", hosts="node0\nnode1\nnowhere\n")
    assert shell.wait() != 0
    assert "davincirun: mpirun ended with status" in shell.output
    assert shell.left() == []
