"""The real launcher as a child process of the test: started, listened to, signalled, waited for."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, Union

from helpers.processes import carriers, children
from helpers.streams import Stream, gather_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORKERS = os.path.join(ROOT, "tests", "workers")
MODULE = (sys.executable, "-m", "davincirun")
DROP_IN = (sys.executable, os.path.join(ROOT, "tools", "davincirun.py"))
WITHOUT_PIDFDS = (sys.executable, os.path.join(ROOT, "tests", "helpers", "without_pidfds.py"))
DEADLINE_SECONDS = 30.0
JOB = "job"

Argument = Union[str, bytes]


class Ended:
    """What is left of a launch: its status and what it and its ranks said."""

    def __init__(self, status: int, stdout: bytes, stderr: bytes, log_dir: str) -> None:
        self.status = status
        self.output = stdout
        self.stdout = stdout.decode("utf-8", "backslashreplace")
        self.stderr = stderr.decode("utf-8", "backslashreplace")
        self._log_dir = log_dir

    def log(self, rank: int) -> bytes:
        """The rank's file."""
        return read_log(self._log_dir, rank)

    def __repr__(self) -> str:
        return f"status {self.status}\nstdout: {self.stdout[-4000:]}\nstderr: {self.stderr[-4000:]}"


class Running:
    """A launch that has been started. Leaving its `with` block kills what is still there."""

    def __init__(self, process: "subprocess.Popen[bytes]", streams: Sequence[Stream], log_dir: str) -> None:
        self._process = process
        self._stdout, self._stderr = streams
        self._log_dir = log_dir
        self.pid = process.pid

    @property
    def stdout(self) -> str:
        return bytes(self._stdout.data).decode("utf-8", "backslashreplace")

    @property
    def stderr(self) -> str:
        return bytes(self._stderr.data).decode("utf-8", "backslashreplace")

    @property
    def supervisor(self) -> int:
        """The pid of the process that the workers are children of."""
        return children(self.pid)[0]

    def log(self, rank: int) -> bytes:
        """The rank's file as it is now."""
        return read_log(self._log_dir, rank)

    def read_until(self, text: str, times: int = 1, deadline: float = DEADLINE_SECONDS, among: str = "") -> None:
        """Wait until `text` has come `times` times: on stdout, or where `among` names it on stderr."""
        stream = self._stderr if among == "stderr" else self._stdout
        wanted = text.encode()
        streams = (self._stdout, self._stderr)
        assert gather_until(lambda: stream.data.count(wanted) >= times, streams, time.monotonic() + deadline), (
            f"waited for {times} times {text!r}\nstdout: {self.stdout}\nstderr: {self.stderr}"
        )

    def pids(self, word: str = "ready") -> Dict[int, int]:
        """The workers' pids by rank, from lines `ready RANK PID`."""
        lines = [line.split() for line in self.stdout.splitlines()]
        return {int(line[1]): int(line[2]) for line in lines if line[:1] == [word]}

    def type(self, text: bytes) -> None:
        """Write to the launcher's stdin, which has to be a pipe, and close it."""
        assert self._process.stdin is not None
        with self._process.stdin as stdin:
            stdin.write(text)

    def close_stdout(self) -> None:
        """Stop reading, as a pipe's reader does that has seen enough."""
        self._stdout.close()
        self._stdout.is_ended = True

    def send_signal(self, signum: int) -> None:
        self._process.send_signal(signum)

    def wait(self, deadline: float = DEADLINE_SECONDS) -> int:
        """Gather what is said until the launcher has ended; its status as a shell has it."""
        until = time.monotonic() + deadline
        gather_until(lambda: False, (self._stdout, self._stderr), until)
        try:
            status = self._process.wait(timeout=max(until - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end\nstdout: {self.stdout[-4000:]}\nstderr: {self.stderr[-4000:]}") from None
        return status if status >= 0 else 128 - status

    def end(self, deadline: float = DEADLINE_SECONDS) -> Ended:
        """Wait for the end and take all that is left of it."""
        status = self.wait(deadline)
        return Ended(status, bytes(self._stdout.data), bytes(self._stderr.data), self._log_dir)

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()  # its guardian's end takes everything along
            self._process.wait()
        for stream in (self._stdout, self._stderr):
            stream.close()


class Launcher:
    """Starts launches for one test, with a clean environment and everything below the test's own folder."""

    def __init__(self, folder: str, marker: str, way: Sequence[str] = MODULE) -> None:
        self.folder = folder
        self.log_dir = os.path.join(folder, "log")
        self.way = tuple(way)
        self.marker = marker
        name, _, value = marker.partition("=")
        self.environ = {"PATH": os.environ["PATH"], "HOME": folder, "PYTHONPATH": ROOT, name: value}

    def __call__(
        self,
        *command: Argument,
        workers: Optional[int] = 2,
        options: Sequence[Argument] = (),
        env: Mapping[str, str] = {},
        wrap: Sequence[Argument] = (),
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        **popen: Any,
    ) -> Running:
        """Start `command`, whose first word may name a file of tests/workers, on so many simulated cards.

        `workers` None leaves the cards to `options` and `env`. `wrap` is a command that ends in running ours.
        """
        cards = [] if workers is None else ["--simulate", str(workers)]
        argv = [*wrap, *self.way, "--log-dir", self.log_dir, "--job-id", JOB, *cards, *options, *worker(*command)]
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("cwd", self.folder)
        process = subprocess.Popen(argv, env={**self.environ, **env}, stdout=stdout, stderr=stderr, **popen)
        return Running(process, [_stream(process.stdout), _stream(process.stderr)], self.log_dir)

    def run(self, *command: Argument, deadline: float = DEADLINE_SECONDS, **how: Any) -> Ended:
        """Start `command` and wait for its end."""
        with self(*command, **how) as running:
            return running.end(deadline)

    def carriers(self) -> List[int]:
        """The live processes of this test."""
        return carriers(self.marker)


def worker(*command: Argument) -> List[Argument]:
    """The command, a file of tests/workers being run by this Python."""
    first = command[0] if command else ""
    if isinstance(first, str) and os.path.exists(os.path.join(WORKERS, first)) and first.endswith(".py"):
        return [sys.executable, "-S", os.path.join(WORKERS, first), *command[1:]]
    return list(command)


def read_log(log_dir: str, rank: int) -> bytes:
    (path,) = glob.glob(os.path.join(glob.escape(log_dir), f"{JOB}-proc-rank-{rank}-device-*.txt"))
    with open(path, "rb") as file:
        return file.read()


def kill_all(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)


def _stream(pipe: Any) -> Stream:
    if pipe is None:
        stream = Stream(-1)
        stream.is_ended = True
        return stream
    fd = os.dup(pipe.fileno())
    pipe.close()
    return Stream(fd)
