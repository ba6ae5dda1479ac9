"""A real Slurm on this machine: munged, slurmctld and slurmd as children of the test, with a configuration of its own.

The nodes' names are Slurm's alone: all share this machine's host name and network. Needs root, and Debian's packages
slurm-wlm and munge.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Any, List, Optional, Type

from helpers.nodes import free_port

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "sinfo", "squeue")
_START_SECONDS = 60.0

_CONFIGURATION = """\
ClusterName={name}
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/save
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
KillWait=20
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName=fake{i} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=16 RealMemory=16000 State=UNKNOWN"


def missing() -> List[str]:
    """What isn't installed here, as Slurm's daemons often aren't on a user's PATH."""
    needs = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    return needs if os.geteuid() == 0 else ["root", *needs]


class Slurm:
    """A running cluster of `count` nodes."""

    def __init__(self, folder: str, count: int) -> None:
        self._folder = folder
        self._count = count
        self._stack = ExitStack()
        self.environ = {**os.environ, "PATH": _path(), "SLURM_CONF": os.path.join(folder, "slurm.conf")}

    def __enter__(self) -> Slurm:
        with self._stack as stack:
            self._configure()
            munge = os.path.join(self._folder, "munge.socket")
            key = os.path.join(self._folder, "munge.key")
            self._daemon("munged", "--foreground", "--force", f"--socket={munge}", f"--key-file={key}",
                         f"--pid-file={self._folder}/munge.pid", f"--seed-file={self._folder}/munge.seed",
                         f"--log-file={self._folder}/munge.log")  # fmt: skip
            self._wait_for(lambda: os.path.exists(munge), "munged")
            self._daemon("slurmctld", "-D", "-c")
            for index in range(self._count):
                self._daemon("slurmd", "-D", "-N", f"fake{index}")
            self._wait_for(self._is_idle, "idle nodes")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.call("scancel", "-u", "root")
        try:
            self._wait_for(lambda: not self.call("squeue", "-h").stdout, "the jobs' end")
        finally:
            self._stack.close()

    def start(self, *command: str, **how: Any) -> "subprocess.Popen[str]":
        """Start one of Slurm's commands; stdout and stderr together are the process's stdout."""
        env = {**self.environ, **how.pop("env", {})}
        return subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
            **how,
        )

    def call(self, *command: str, **how: Any) -> "subprocess.CompletedProcess[str]":
        """Run one of Slurm's commands to its end."""
        process = self.start(*command, **how)
        try:
            said, _ = process.communicate(timeout=_START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return subprocess.CompletedProcess(command, process.returncode, said)

    def log(self) -> str:
        """The last of what the daemons wrote."""
        texts = []
        for name in sorted(os.listdir(self._folder)):
            if name.endswith(".log"):
                with open(os.path.join(self._folder, name), errors="replace") as file:
                    texts.append(f"== {name}\n{file.read()[-2000:]}")
        return "\n".join(texts)

    def _configure(self) -> None:
        os.makedirs(os.path.join(self._folder, "save"))
        key = os.path.join(self._folder, "munge.key")
        with open(key, "wb") as file:
            file.write(os.urandom(1024))
        os.chmod(key, 0o600)
        nodes = "\n".join(_NODE.format(i=index, port=free_port()) for index in range(self._count))
        with open(self.environ["SLURM_CONF"], "w") as file:
            file.write(_CONFIGURATION.format(folder=self._folder, name="fake", port=free_port(), nodes=nodes))

    def _daemon(self, *command: str) -> None:
        log = self._stack_of(open(os.path.join(self._folder, f"{command[0]}.out.log"), "ab"))
        process = subprocess.Popen(command, env=self.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._stack.callback(_end, process)

    def _stack_of(self, resource: Any) -> Any:
        return self._stack.enter_context(resource)

    def _is_idle(self) -> bool:
        states = self.call("sinfo", "-h", "-N", "-o", "%T").stdout.split()
        return len(states) == self._count and set(states) == {"idle"}

    def _wait_for(self, is_so: Any, what: str) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, f"no {what}\n{self.log()}"
            time.sleep(0.1)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _path() -> str:
    return os.environ["PATH"] + ":/usr/sbin:/sbin"
