"""Processes as /proc shows them, and waiting for their end without polling."""

from __future__ import annotations

import ctypes
import os
import select
import time
from typing import List

_SYS_PIDFD_OPEN = 434  # os.pidfd_open since Python 3.9


def carriers(marker: str) -> List[int]:
    """The live processes, ourselves excepted, whose environment has the entry `marker` (NAME=value)."""
    wanted = marker.encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if wanted in file.read().split(b"\0") and state(int(name)) not in "ZX":
                        found.append(int(name))
            except OSError:
                continue  # it has ended, or isn't ours
    return found


def carriers_after(marker: str, seconds: float) -> List[int]:
    """The carriers that are left once all have ended, or when `seconds` are over."""
    deadline = time.monotonic() + seconds
    while True:
        left = carriers(marker)
        if not left or not has_ended(left[0], deadline - time.monotonic()):
            return left


def has_ended(pid: int, seconds: float) -> bool:
    """Wait for the end of a process that needn't be our child; it may be a zombie then. False: it hasn't ended."""
    fd = _pidfd_open(pid)
    if fd < 0:
        return True
    try:
        return bool(select.select([fd], [], [], max(seconds, 0))[0])
    finally:
        os.close(fd)


def children(pid: int) -> List[int]:
    """The pids of a single-threaded process's children."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def newest_pid() -> bytes:
    """The pid that was given last: while it is the same, nothing has been started on this machine."""
    with open("/proc/loadavg", "rb") as file:
        return file.read().split()[-1]


def state(pid: int) -> str:
    """The state's letter: R, S, D, T, Z and so on; X when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return "X"


def _pidfd_open(pid: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.syscall(_SYS_PIDFD_OPEN, pid, 0)
    return fd
