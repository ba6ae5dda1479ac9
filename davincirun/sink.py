"""Writing to a descriptor that others share and that may be stuck, without ever waiting for it.

O_NONBLOCK belongs to the open file, which we share with whoever started us, so it must not be set on our stdout.
A pipe or a terminal is opened anew through /proc instead: the new open file is ours alone. Where that is refused
(a container's pipe that belongs to root, a socket), poll says when at least PIPE_BUF bytes fit, and no more are
written at a time. A regular file never makes anybody wait.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import stat
import time
from typing import Optional, Union

Buffer = Union[bytes, bytearray, memoryview]

_F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ since Python 3.10
_PIPE_BYTES = 1 << 20
_CAUTIOUS_BYTES = 4096  # PIPE_BUF: pipe(7) promises that so much fits once poll says writable


class Sink:
    """One output of the launcher: our stdout, our stderr, or both where they are the same."""

    def __init__(self, fd: int) -> None:
        mode = os.fstat(fd).st_mode
        reopened = _reopened(fd) if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) else None
        self.fd = fd if reopened is None else reopened
        self.is_terminal = os.isatty(fd)
        self.is_closed = False  # nobody will ever read it
        self.at_line_start = True
        self._is_ours = reopened is not None
        if stat.S_ISFIFO(mode):
            enlarge_pipe(self.fd)
        self._is_cautious = reopened is None and not stat.S_ISREG(mode)
        self._unsent = bytearray()
        self._stuck_since: Optional[float] = None  # time.monotonic()
        self._is_watched = False

    @property
    def is_waiting(self) -> bool:
        """Something is to be written that the descriptor doesn't take now."""
        return bool(self._unsent)

    def stuck_seconds(self) -> float:
        """For how long the descriptor has taken nothing although something was to be written."""
        return 0.0 if self._stuck_since is None else time.monotonic() - self._stuck_since

    def write(self, data: Buffer) -> None:
        """Write what the descriptor takes now, and keep the rest for `flush`."""
        if not data or self.is_closed:
            return
        self.at_line_start = data[-1] in b"\n\r"
        sent = 0 if self._unsent else self._push(data)
        self._unsent += data[sent:]
        self._note_progress(sent > 0)

    def flush(self) -> None:
        """Write as much of what was kept as the descriptor takes now."""
        sent = self._push(self._unsent)
        del self._unsent[:sent]
        self._note_progress(sent > 0)

    def watch(self, poll: select.epoll) -> None:
        """Have `poll` report `fd` as writable exactly while something waits for that."""
        wanted = self.is_waiting and not self.is_closed
        if wanted and not self._is_watched:
            poll.register(self.fd, select.EPOLLOUT)
        elif self._is_watched and not wanted:
            poll.unregister(self.fd)
        self._is_watched = wanted

    def close(self) -> None:
        if self._is_ours:
            os.close(self.fd)

    def _push(self, data: Buffer) -> int:
        sent = 0
        with memoryview(data) as view:
            while sent < len(view) and not self.is_closed:
                count = self._write_some(view[sent:])
                if count == 0:
                    break
                sent += count
        return len(data) if self.is_closed else sent

    def _write_some(self, data: memoryview) -> int:
        try:
            if not self._is_cautious:
                return os.write(self.fd, data)
            return os.write(self.fd, data[:_CAUTIOUS_BYTES]) if _is_writable(self.fd) else 0
        except BlockingIOError:
            return 0
        except OSError:  # EPIPE; EIO on a terminal that has gone; ENOSPC where it is a file
            self.is_closed = True
            return 0

    def _note_progress(self, was_some: bool) -> None:
        if not self._unsent:
            self._stuck_since = None
        elif was_some or self._stuck_since is None:
            self._stuck_since = time.monotonic()


def enlarge_pipe(fd: int) -> None:
    """Give a pipe the most that an unprivileged process may ask for (proc(5), pipe-max-size): fewer wake-ups."""
    with contextlib.suppress(OSError):  # the user's share of pipe memory is used up: 64 KiB work too
        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)


def _reopened(fd: int) -> Optional[int]:
    """The same pipe or terminal by an open file of our own that doesn't block, or None where that can't be."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None


def _is_writable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
