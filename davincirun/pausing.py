"""Waiting before there are workers: everything that takes time ends at once when the launcher is told to stop."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from typing import Mapping, Optional, Sequence

from davincirun.descendants import descendants, signal_each
from davincirun.errors import DavincirunError, PlatformError
from davincirun.lifecycle import signal_name
from davincirun.wakeup import STOPPING, Wakeup

_DUE_SECONDS = (1, 10, 60, 300)  # and every five minutes after


class Interrupted(DavincirunError):
    """The launcher was told to stop before it had started any worker."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal_name(signum)} before any worker was started")
        self.exit_status = 128 + signum


class Pause:
    """Waits for descriptors; a stopping signal, or the guardian's end, raises Interrupted instead."""

    def __init__(self, wakeup: Wakeup, lifeline_fd: Optional[int]) -> None:
        self._wakeup = wakeup
        self._lifeline = [] if lifeline_fd is None else [lifeline_fd]

    def __call__(self, fds: Sequence[int], seconds: Optional[float]) -> None:
        """Return when one of `fds` is readable, a child has ended, or `seconds` have passed (None: never)."""
        ready, _, _ = select.select([self._wakeup.fd, *self._lifeline, *fds], [], [], seconds)
        for signum in self._wakeup.take():
            if signum in STOPPING:
                raise Interrupted(signum)
        if any(fd in ready for fd in self._lifeline):
            raise Interrupted(signal.SIGKILL)

    def run(self, argv: Sequence[str], environ: Mapping[str, str]) -> int:
        """Run a command to its end; its exit status, 128+n after signal n. PlatformError when it can't be started.

        When we are told to stop meanwhile, it is killed with all that it started.
        """
        try:
            process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as error:
            raise PlatformError(f"{argv[0]}: can't be run: {os.strerror(error.errno or 0)}") from None
        try:
            while process.poll() is None:
                self([], None)
        finally:
            if process.returncode is None:
                signal_each(descendants(os.getpid()), signal.SIGKILL)
                process.wait()
        return process.returncode if process.returncode >= 0 else 128 - process.returncode


class Schedule:
    """When a wait says that it goes on, and when it is over."""

    def __init__(self, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._started = time.monotonic()
        self._said = 0

    @property
    def waited_seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return self.waited_seconds >= self.timeout_seconds

    @property
    def pause_seconds(self) -> float:
        """Until something is due."""
        return max(min(self._due(), self.timeout_seconds) - self.waited_seconds, 0.0)

    def is_due(self) -> bool:
        """Whether a line is due; then the next one is due later."""
        if self.waited_seconds < self._due():
            return False
        self._said += 1
        return True

    def _due(self) -> float:
        return _DUE_SECONDS[self._said] if self._said < len(_DUE_SECONDS) else _DUE_SECONDS[-1] * (self._said - 2)
