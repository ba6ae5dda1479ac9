"""Signals as data: a handler only hands its number over; whoever waits on `fd` reads the numbers and acts.

The technique is Python's own `signal.set_wakeup_fd`: the interpreter's C-level handler writes the number into a
pipe, so nothing of ours runs at an arbitrary place in the program and nothing is ever raised from a handler.
"""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any, Dict, Iterable, List, Optional, Type

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)


class Wakeup:
    """Routes signals to `fd` while it is entered; puts the former handlers back after.

    A signal that was ignored when we were started stays ignored, as nohup and a shell's background jobs want
    it. SIGCHLD is the exception: with it ignored, the kernel would throw our children's exit statuses away.
    A blocked one is let through: a mask comes from a thread of whoever started us, and says nothing about us.
    """

    def __init__(self, signums: Iterable[int] = (*STOPPING, *PASSED_ON, signal.SIGCHLD)) -> None:
        self._signums = tuple(signums)
        self._before: Dict[int, Any] = {}
        self._write_fd = -1
        self.fd = -1

    def __enter__(self) -> Wakeup:
        self.fd, self._write_fd = os.pipe()
        for fd in (self.fd, self._write_fd):
            os.set_blocking(fd, False)
        self._former_wakeup_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for signum in self._signums:
            if signum == signal.SIGCHLD or signal.getsignal(signum) != signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, _hand_over)
        self._former_mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signums)
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._former_mask)
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()
        signal.set_wakeup_fd(self._former_wakeup_fd)
        os.close(self.fd)
        os.close(self._write_fd)

    def take(self) -> List[int]:
        """The signals that have arrived since the last call, in order; empty when there are none."""
        try:
            return list(os.read(self.fd, 4096))
        except BlockingIOError:
            return []


def _hand_over(signum: int, frame: Optional[FrameType]) -> None:
    """Exists so that the signal isn't fatal; its number goes through the wake-up descriptor."""
