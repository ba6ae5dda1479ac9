"""The launchers that are measured: how each starts N workers, and where it keeps their output."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import venv
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
DROP_IN = os.path.join(os.path.dirname(HERE), "davincirun.py")
SERVER_ID = "10.1.2.3"
BARE_ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
GRACE_SECONDS = 1.0  # where a launcher's can be chosen


class Start(NamedTuple):
    """How to start a launcher."""

    argv: list[str]
    environ: dict[str, str]


class Launcher:
    """One way to start N workers; `name` heads its column."""

    name = ""

    def start(self, workers: int, command: list[str], folder: str, keep_logs: bool) -> Start:
        """What starts `command` so many times; all that is written lies in `folder`."""
        raise NotImplementedError

    def rank_file(self, folder: str, rank: int) -> str:
        """Where that rank's output has been kept."""
        raise NotImplementedError


class Davincirun(Launcher):
    """Ours, by the drop-in file."""

    name = "davincirun"

    def __init__(self, python: str) -> None:
        self._words = [python, DROP_IN]

    def start(self, workers: int, command: list[str], folder: str, keep_logs: bool) -> Start:
        for name in ("log", "workspace"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        table_path = os.path.join(folder, "table.json")
        with open(table_path, "w", encoding="utf-8") as table:
            json.dump(rank_table(workers), table)
        environ = {
            "MA_HOME": folder,
            "MA_MOUNT_PATH": folder,
            "BATCH_JOB_ID": "bench",
            "MA_CURRENT_HOST_IP": SERVER_ID,
            "RANK_TABLE_FILE_V_1_0": table_path,
            "DAVINCIRUN_GRACE": str(GRACE_SECONDS),
        }
        return Start([*self._words, *command], {**BARE_ENVIRONMENT, **environ})

    def rank_file(self, folder: str, rank: int) -> str:
        return os.path.join(folder, "log", f"bench-proc-rank-{rank}-device-{rank}.txt")


class Original(Davincirun):
    """The platform's launcher as PyPI has it; its grace of 15 s can't be chosen."""

    name = "davincirunsdk"

    def __init__(self, folder: str) -> None:
        """`folder` is a virtual environment; where there is none, it is made."""
        program = os.path.join(folder, "bin", "davincirun")
        if not os.path.exists(program):
            make_venv(folder, "davincirunsdk==0.1.5", "tornado", "sh")
        self._words = [program]


class Floor(Launcher):
    """floor.py: the least that Python does."""

    name = "floor"

    def __init__(self, python: str) -> None:
        self._python = python

    def start(self, workers: int, command: list[str], folder: str, keep_logs: bool) -> Start:
        log_dir = os.path.join(folder, "log") if keep_logs else "-"
        if keep_logs:
            os.makedirs(log_dir)
        floor = os.path.join(HERE, "floor.py")
        return Start([self._python, floor, str(workers), log_dir, str(GRACE_SECONDS), *command], BARE_ENVIRONMENT)

    def rank_file(self, folder: str, rank: int) -> str:
        return os.path.join(folder, "log", f"rank.{rank}")


class OpenMpi(Launcher):
    """mpirun as it is found on PATH."""

    name = "mpirun"

    def __init__(self) -> None:
        version = subprocess.run(["mpirun", "--version"], stdout=subprocess.PIPE, universal_newlines=True).stdout
        self.name = f"mpirun {version.split()[3]}"

    def start(self, workers: int, command: list[str], folder: str, keep_logs: bool) -> Start:
        options = ["--oversubscribe", "--bind-to", "none", "-np", str(workers)]
        if os.getuid() == 0:
            options.append("--allow-run-as-root")
        if keep_logs:
            options += ["--output-filename", os.path.join(folder, "log")]
        return Start(["mpirun", *options, *command], BARE_ENVIRONMENT)

    def rank_file(self, folder: str, rank: int) -> str:
        files = glob.glob(os.path.join(folder, "log", "*", "rank.*", "stdout"))
        numbers = {int(os.path.basename(os.path.dirname(path)).rpartition(".")[2]): path for path in files}
        return numbers.get(rank, "")


def find_launchers(scratch: str, original: str | None) -> list[Launcher]:
    """Those that can be measured here. A bare virtual environment keeps the machine's own packages out of it."""
    bare = os.path.join(scratch, "python")
    venv.create(bare, symlinks=True)
    python = os.path.join(bare, "bin", "python")
    found: list[Launcher] = [Davincirun(python), Floor(python)]
    if original:
        found.append(Original(original))
    if shutil.which("mpirun"):
        found.append(OpenMpi())
    return found


def make_worker(scratch: str) -> list[str]:
    """The command of the benchmark's worker: compiled where gcc is, else in Python."""
    program = os.path.join(scratch, "worker")
    if shutil.which("gcc"):
        subprocess.check_call(["gcc", "-O2", "-static", "-o", program, os.path.join(HERE, "worker.c")])
        return [program]
    return [sys.executable, "-I", "-S", os.path.join(HERE, "worker.py")]


def make_venv(folder: str, *requirements: str) -> None:
    venv.create(folder, with_pip=True)
    subprocess.check_call([os.path.join(folder, "bin", "pip"), "install", "-q", *requirements])


def rank_table(devices: int) -> dict[str, object]:
    """A version 1.0 table of one server."""
    device = [{"device_id": f"{i}", "device_ip": f"192.168.0.{i + 1}", "rank_id": f"{i}"} for i in range(devices)]
    server = {"server_id": SERVER_ID, "device": device}
    return {"status": "completed", "version": "1.0", "server_count": "1", "server_list": [server]}
