"""Every process below us: found through the kernel's own family tree, signalled, never by name.

A child subreaper inherits the orphans of all its descendants (prctl(2), PR_SET_CHILD_SUBREAPER, Linux 3.4), so
as long as we live no process of the job can leave our tree, whatever sessions and process groups it makes.
Where there is no subreaper, the cookie variable that each worker's environment carries finds them instead.
"""

from __future__ import annotations

import ctypes
import os
from typing import Dict, List

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Make orphans among our descendants ours; False where the kernel or a sandbox refuses."""
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def descendants(root: int) -> List[int]:
    """The pids below `root`, parents before their children. Those that end meanwhile may be missing."""
    found: List[int] = []
    front = [root]
    children = _children_from_kernel if os.path.exists(f"/proc/{root}/task/{root}/children") else _children_by_scan()
    while front:
        front = [child for parent in front for child in children(parent)]
        found += front
    return found


def carriers(cookie: bytes) -> List[int]:
    """The pids, ourselves excepted, whose environment has the entry `cookie` (b"NAME=value")."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            if cookie in _read(f"/proc/{name}/environ").split(b"\0"):
                found.append(int(name))
        except OSError:
            continue  # it ended, or belongs to somebody else and so isn't ours
    return found


def signal_each(pids: List[int], *signums: int) -> None:
    """Send `signums` to each pid that still exists."""
    for pid in pids:
        try:
            for signum in signums:
                os.kill(pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # it ended by itself, or has changed its user and is out of our hands


def _children_from_kernel(pid: int) -> List[int]:
    """Children are listed by the thread that made them (proc(5), /proc/PID/task/TID/children)."""
    found: List[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, _read(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:
        pass  # it is ending
    return found


def _read(path: str) -> bytes:
    """A small file of /proc in three system calls, where `open` takes nine: a stopping job reads one per thread."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 20)
    finally:
        os.close(fd)


class _children_by_scan:
    """For kernels without CONFIG_PROC_CHILDREN: one pass over all processes' parents."""

    def __init__(self) -> None:
        self._children: Dict[int, List[int]] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                self._children.setdefault(_parent(name), []).append(int(name))

    def __call__(self, pid: int) -> List[int]:
        return self._children.get(pid, [])


def _parent(pid: str) -> int:
    try:
        return int(_read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[1])  # the name before ")" may hold anything
    except (OSError, IndexError):
        return -1
