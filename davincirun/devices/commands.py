"""Runs the hardware tools side by side, each for a limited time, and leaves none of them behind.

A driver in trouble makes its tools hang, now and then beyond SIGKILL. So every command has its own session, its
group is killed when its time is over, and one that doesn't die of that is left to the kernel, not waited for.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from contextlib import suppress
from types import TracebackType
from typing import Callable, List, Mapping, Optional, Tuple, Type

from davincirun.values import Value

Wait = Callable[[int, str], None]  # returns when the descriptor is readable, or earlier; told what is waited for
_AT_ONCE = 18  # sixteen dies and two tables; a machine with more cards waits a little
_REAP_SECONDS = 0.5


class Answer(Value):
    """How a command ended and what it printed."""

    argv: Tuple[str, ...]
    status: Optional[int] = None  # None: it could not be run, or not to its end, and `failure` says why
    stdout: str = ""
    stderr: str = ""
    failure: str = ""


class Commands:
    """Starts commands and collects their answers; on leaving the block those still running are killed."""

    def __init__(self, environ: Mapping[str, str], timeout_seconds: float, wait: Optional[Wait] = None) -> None:
        self._environ = dict(environ)
        self._timeout_seconds = timeout_seconds
        self._wait = wait or _wait
        self._ended_fd, self._end_fd = os.pipe()
        self._slots = threading.BoundedSemaphore(_AT_ONCE)
        self._calls: List[Call] = []

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        for call in self._calls:
            call.stop()
        joined = [call.join(_REAP_SECONDS) for call in self._calls]
        if all(joined):
            os.close(self._end_fd)
            os.close(self._ended_fd)

    def start(self, *argv: str) -> Call:
        """Runs `argv` beside the others; `Call.answer` waits for it."""
        call = Call(argv, self._environ, self._timeout_seconds, self._slots, self._end_fd, self._wait_for)
        self._calls.append(call)
        return call

    def _wait_for(self, what: str) -> None:
        """Returns when a call has ended, or earlier."""
        self._wait(self._ended_fd, what)
        if select.select([self._ended_fd], [], [], 0)[0]:
            os.read(self._ended_fd, 4096)


class Call:
    """One command on its way."""

    def __init__(
        self,
        argv: Tuple[str, ...],
        environ: Mapping[str, str],
        timeout_seconds: float,
        slots: threading.BoundedSemaphore,
        end_fd: int,
        wait_for: Callable[[str], None],
    ) -> None:
        self._argv = argv
        self._environ = environ
        self._timeout_seconds = timeout_seconds
        self._slots = slots
        self._end_fd = end_fd
        self._wait_for = wait_for
        self._is_done = False
        self._stopped = False
        self._child: Optional[subprocess.Popen[bytes]] = None
        self._answer = Answer(argv)
        self._thread = threading.Thread(target=self._run, name=" ".join(argv), daemon=True)
        self._thread.start()

    def answer(self) -> Answer:
        """What came of the command; waits for its end, or for the end of its time."""
        while not self._is_done:
            self._wait_for(" ".join([os.path.basename(self._argv[0]), *self._argv[1:]]))
        return self._answer

    def stop(self) -> None:
        """Kills the command if it still runs."""
        self._stopped = True
        if self._child is not None and self._child.returncode is None:
            _kill_group(self._child)

    def join(self, seconds: float) -> bool:
        """Whether a stopped command has ended within `seconds`; one stuck in the driver doesn't."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._run_in_turn()
        finally:
            self._is_done = True
            os.write(self._end_fd, b".")

    def _run_in_turn(self) -> None:
        with self._slots:
            if self._stopped:
                return
            try:
                self._child = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=self._environ,
                    start_new_session=True,
                )
            except OSError as error:
                self._answer = Answer(self._argv, failure=f"can't be run: {error.strerror}")
                return
            if self._stopped:  # `stop` came before there was a child to kill
                _kill_group(self._child)
            self._answer = self._outcome(self._child)

    def _outcome(self, child: subprocess.Popen[bytes]) -> Answer:
        try:
            stdout, stderr = child.communicate(timeout=self._timeout_seconds)
            return Answer(self._argv, child.returncode, _text(stdout), _text(stderr))
        except subprocess.TimeoutExpired:
            pass
        _kill_group(child)
        failure = f"no answer in {self._timeout_seconds:g} s"
        try:
            stdout, stderr = child.communicate(timeout=_REAP_SECONDS)
        except subprocess.TimeoutExpired:  # stuck inside the driver, or a descendant holds the pipes
            return Answer(self._argv, failure=f"{failure}, and SIGKILL doesn't end it: the driver hangs")
        return Answer(self._argv, None, _text(stdout), _text(stderr), failure)


def _wait(fd: int, what: str) -> None:
    select.select([fd], [], [])


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kills the group that `child`, which is not reaped yet, leads."""
    with suppress(ProcessLookupError, PermissionError):  # it ended by itself
        os.killpg(child.pid, signal.SIGKILL)


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
