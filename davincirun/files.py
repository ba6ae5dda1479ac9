"""Files: read whole, written so that nobody sees half of one, and waited for."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import time
from typing import Callable, Optional, Sequence, TypeVar

T = TypeVar("T")

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x8, 0x80, 0x100
_SHORTEST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0


def read(path: str) -> bytes:
    """The whole file. OSError when it can't be read: at once too for what isn't a file, where `open` might block."""
    if stat.S_ISFIFO(os.stat(path).st_mode):
        raise OSError(errno.EINVAL, "a pipe, not a file", path)
    with open(path, "rb") as file:
        return file.read()


def write_atomically(path: str, data: bytes, mode: int = 0o644) -> None:
    """Write a regular file that is complete before it is visible: temporary name, then rename. OSError as it comes."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)  # whatever the umask: other users' workers read it too
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def wait_until(
    path: str,
    look: Callable[[], Optional[T]],
    deadline: float,
    pause: Callable[[Sequence[int], float], None],
) -> Optional[T]:
    """What `look()` gives once it isn't None; None when `deadline` (time.monotonic()) has passed.

    Looks again whenever something happens in the folder of `path` (inotify), and, since network file systems
    and folders that don't exist yet report nothing, after ever longer pauses of up to a second. `pause(fds,
    seconds)` waits for one of `fds` to become readable; it may raise to end the waiting.
    """
    pause_seconds = _SHORTEST_PAUSE_SECONDS
    watch_fd: Optional[int] = None
    try:
        while True:
            found = look()
            left = deadline - time.monotonic()
            if found is not None or left <= 0:
                return found
            if watch_fd is None:  # not before the first look: closing it costs up to 16 ms
                watch_fd = watch(os.path.dirname(os.path.abspath(path)))
            pause([] if watch_fd is None else [watch_fd], min(pause_seconds, left))
            if watch_fd is not None and forget_events(watch_fd):
                pause_seconds = _SHORTEST_PAUSE_SECONDS
            else:
                pause_seconds = min(pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)
    finally:
        if watch_fd is not None:
            os.close(watch_fd)


def watch(folder: str) -> Optional[int]:
    """An inotify descriptor that becomes readable when a file in `folder` changes, or None where that can't be."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if fd < 0:
        return None
    interesting = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE
    if libc.inotify_add_watch(fd, os.fsencode(folder), interesting) < 0:
        os.close(fd)
        return None
    return fd


def forget_events(watch_fd: int) -> bool:
    try:
        return bool(os.read(watch_fd, 65536))
    except BlockingIOError:
        return False
