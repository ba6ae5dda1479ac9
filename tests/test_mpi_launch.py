"""The GPU engine on one node, with a real mpirun."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import time

import pytest
from helpers.launcher import DROP_IN, ROOT
from helpers.processes import carriers
from lab.open_mpi import OpenMpi, installed

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not installed(), reason="no mpirun here")]
ENDS = os.path.join(ROOT, "tests", "lab", "workers", "ends.py")
SHOWS = os.path.join(ROOT, "tests", "lab", "workers", "shows.py")
DEADLINE_SECONDS = 60


@pytest.fixture(params=installed(), ids=str)
def mpi(request) -> OpenMpi:
    return request.param


class Launched:
    """A launch on four simulated GPUs, and a mark by which its processes are known."""

    def __init__(self, mpi: OpenMpi, tmp_path, *arguments: str, **environ: str) -> None:
        self.log_dir = str(tmp_path)
        self._mark = f"MA_T_MARK={tmp_path}"
        name, _, value = self._mark.partition("=")
        env = {"PATH": mpi.path, "HOME": "/root", name: value, **environ}
        options = ["--simulate", "gpu:4", "--log-dir", self.log_dir, "--job-id", "job"]
        self._output_path = os.path.join(self.log_dir, "output")
        with open(self._output_path, "wb") as output:
            self.process = subprocess.Popen(
                [*DROP_IN, *options, *arguments], env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def output(self) -> str:
        with open(self._output_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def read_until(self, text: str, times: int) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while self.output.count(text) < times:
            assert time.monotonic() < deadline and self.process.poll() is None, self.output
            time.sleep(0.02)

    def wait(self) -> int:
        try:
            return self.process.wait(DEADLINE_SECONDS)
        finally:
            self.process.kill()

    def left(self) -> "list[int]":
        return carriers(self._mark)


def test_all_ranks_run_and_are_known_to_every_framework(mpi: OpenMpi, tmp_path) -> None:
    script = "import os, time; print(*(os.environ[n] for n in %r.split())); time.sleep(0.5)"
    names = "RANK RANK_ID DEVICE_ID LOCAL_RANK WORLD_SIZE RANK_SIZE OMPI_COMM_WORLD_RANK NODE_RANK MASTER_ADDR"
    launch = Launched(mpi, tmp_path, "--quiet", mpi.python, "-c", script % names)
    assert launch.wait() == 0, launch.output
    expected = [f"{rank} {rank} {rank} {rank} 4 4 {rank} 0 127.0.0.1" for rank in range(4)]
    assert sorted(line for line in launch.output.splitlines() if line[:1].isdigit()) == expected
    for rank, line in enumerate(expected):
        with open(os.path.join(launch.log_dir, f"job-proc-rank-{rank}-device-{rank}.txt")) as log:
            assert log.read() == line + "\n"


@pytest.mark.parametrize("how, status", [("fails", 3), ("is_killed", 137)])
def test_the_first_failure_is_the_status_and_is_explained(mpi: OpenMpi, tmp_path, how: str, status: int) -> None:
    launch = Launched(mpi, tmp_path, mpi.python, ENDS, "2", how)
    assert launch.wait() == status, launch.output
    assert re.search(r"rank 2 failed first: .*\n(.*\n)?.*host \S+, pid \d+; log: \S*rank-2-device-2.txt", launch.output)
    assert launch.left() == []


def test_term_gives_the_workers_our_grace_and_is_the_status(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, mpi.python, ENDS, "0", "waits")
    launch.read_until("is up", 4)
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait() == 143
    assert launch.output.count("was told to end") == 4
    assert launch.left() == []


def test_who_is_deaf_to_term_is_killed_after_the_grace(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, "--grace", "2", mpi.python, ENDS, "0", "is_deaf")
    launch.read_until("is up", 4)
    started = time.monotonic()
    launch.process.send_signal(signal.SIGTERM)
    assert launch.wait() == 143
    assert time.monotonic() - started > 1.9
    assert launch.left() == []


def test_a_process_in_another_session_doesnt_keep_the_job(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, mpi.python, ENDS, "1", "leaves")
    assert launch.wait() == 0, launch.output
    assert launch.left() == []


def test_nothing_is_left_when_the_launcher_is_killed(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, mpi.python, ENDS, "1", "waits")
    launch.read_until("is up", 4)
    launch.process.kill()
    deadline = time.monotonic() + DEADLINE_SECONDS
    while launch.left():
        assert time.monotonic() < deadline, launch.left()
        time.sleep(0.05)
    assert launch.wait() == -signal.SIGKILL


def test_a_command_that_isnt_there_is_127(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, "no-such-command")
    assert launch.wait() == 127
    assert "no-such-command: command not found" in launch.output


def test_the_working_directory_is_made(mpi: OpenMpi, tmp_path) -> None:
    place = str(tmp_path / "new" / "folder")
    launch = Launched(mpi, tmp_path, "--workdir", place, mpi.python, SHOWS)
    assert launch.wait() == 0, launch.output
    assert launch.output.count(f"in {place} has") == 4


@pytest.mark.parametrize("arguments", [[":", "--", "--map-by", "x", "--bind-to", "y", ""], ["a" * 8] * 5000])
def test_arguments_arrive_unharmed(mpi: OpenMpi, tmp_path, arguments: "list[str]") -> None:
    launch = Launched(mpi, tmp_path, mpi.python, SHOWS, *arguments)
    assert launch.wait() == 0, launch.output
    shown = " ".join(argument.encode().hex() or "-" for argument in arguments)
    assert launch.output.count(f" {shown}\n") == 4


def test_the_line_of_a_dry_run_can_be_pasted_into_a_shell(mpi: OpenMpi, tmp_path) -> None:
    launch = Launched(mpi, tmp_path, "--dry-run", mpi.python, SHOWS, "a b", ":")
    assert launch.wait() == 0
    lines = launch.output.split("\n\n", 1)[1]
    assert shlex.split(lines.splitlines()[-1])[0] == "env"
    env = {"PATH": mpi.path, "HOME": "/root"}
    ended = subprocess.run(["sh", "-c", lines], env=env, stdout=subprocess.PIPE, timeout=DEADLINE_SECONDS)
    assert ended.returncode == 0
    assert ended.stdout.decode().count(f"{'a b'.encode().hex()} 3a\n") == 4


def test_a_dry_run_creates_nothing_and_can_be_read_by_programs(mpi: OpenMpi, tmp_path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    options = ["--simulate", "gpu:2", "--log-dir", str(folder), "--dry-run", "--json"]
    env = {"PATH": mpi.path, "OPENMPI_NP": "6", "OPENMPI_X_ARGS": "-x API_TOKEN=xyz"}
    text = subprocess.check_output([*DROP_IN, *options, "train"], env=env)
    plan = json.loads(text)
    assert (plan["engine"], plan["world_size"], plan["worker_argv"]) == ("mpi", 6, ["train"])
    assert plan["argv"][1:3] == ["-np", "6"] and b"xyz" not in text
    assert list(folder.iterdir()) == []


def test_variables_that_are_broadcast_lie_in_a_file_of_ours_alone(mpi: OpenMpi, tmp_path) -> None:
    path = str(tmp_path / "tune")
    launch = Launched(mpi, tmp_path, mpi.python, SHOWS, TUNE_ENV_FILE=path, CRED_X="secret")
    assert launch.wait() == 0, launch.output
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path) as file:
        assert "CRED_X=secret\n" in file.read()


def test_mpi_itself_works_between_the_ranks(mpi: OpenMpi, tmp_path) -> None:
    if not mpi.has_mpi4py:
        pytest.skip("no mpi4py beside this mpirun")
    launch = Launched(mpi, tmp_path, mpi.python, os.path.join(ROOT, "tools", "examples", "mpi_allreduce.py"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("of 4 on ") == 4 and launch.output.count("the sum is 10") == 4
