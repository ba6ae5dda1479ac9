"""One run of one launcher: started, watched, and cleared away with all that it left behind.

This process is a child subreaper, so whatever a launcher orphans becomes ours and is found. Only our own descendants
are ever signalled. Exits are seen through pidfds; workers stamp what happens to them into a shared file.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from typing import Iterable, NamedTuple

import launchers

RECORD_BYTES = 64
RECORDS = 1024
_PR_SET_CHILD_SUBREAPER = 36


class Record(NamedTuple):
    """What a worker says of itself; 0 where it has not come to that. Times are time.monotonic_ns()."""

    started: int  # its first instruction
    pid: int
    child: int  # pid of its plain child
    session_child: int  # pid of its child in a session of its own
    ended: int  # it failed, or has printed everything
    cpu: int  # nanoseconds it used for printing


class Scene:
    """A launcher that is running `workers` workers in the given role. To be closed."""

    def __init__(
        self, launcher: launchers.Launcher, worker: list[str], workers: int, role: list[str], console: str = "none"
    ) -> None:
        """`console` says where stdout goes: "none", "read" (through a pipe into a file) or "stuck" (a full pipe)."""
        become_subreaper()
        self.launcher = launcher
        self.workers = workers
        self._cpu_before = cpu_of_children()
        self.folder = tempfile.mkdtemp(prefix="bench-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.console_path = os.path.join(self.folder, "console")
        self._state_path = os.path.join(self.folder, "state")
        with open(self._state_path, "wb") as state:
            state.truncate(RECORD_BYTES * RECORDS)
        self.drain: subprocess.Popen[bytes] | None = None
        self._unread = -1
        stdout = self._console(console, worker)
        command = [*worker, self._state_path, *role]
        start = launcher.start(workers, command, self.folder, keep_logs=console != "none")
        with open(os.path.join(self.folder, "stderr"), "wb") as stderr:
            self.started = time.monotonic_ns()
            self._process = subprocess.Popen(
                start.argv,
                env=start.environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        os.close(stdout)
        self.pid = self._process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.exited = 0  # time.monotonic_ns(), once it has
        self.status: int | None = None

    def _console(self, kind: str, worker: list[str]) -> int:
        if kind == "none":
            return os.open(os.devnull, os.O_WRONLY)
        read_end, write_end = os.pipe()
        if kind == "read":
            self.drain = subprocess.Popen([*worker, "drain", self.console_path], stdin=read_end)
            os.close(read_end)
        else:
            self._unread = read_end
        return write_end

    def records(self) -> list[Record]:
        """Of all workers, by rank."""
        with open(self._state_path, "rb") as state:
            content = state.read(RECORD_BYTES * self.workers)
        return [Record(*struct.unpack_from("<6q", content, rank * RECORD_BYTES)) for rank in range(self.workers)]

    def wait_started(self, seconds: float = 60.0) -> bool:
        """Whether all workers run."""
        return self._wait_records(lambda record: record.started != 0, seconds)

    def wait_ended(self, seconds: float) -> bool:
        """Whether all workers have noted their end."""
        return self._wait_records(lambda record: record.ended != 0, seconds)

    def _wait_records(self, wanted, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(map(wanted, self.records())):
                return True
            if self.wait_exit(0.005):
                return all(map(wanted, self.records()))
        return False

    def wait_exit(self, seconds: float) -> bool:
        """Whether the launcher exits within that time; `exited` and `status` are known then."""
        if not self.exited:
            if not select.select([self._pidfd], [], [], seconds)[0]:
                return False
            self.exited = time.monotonic_ns()
            self.status = self._process.wait()
        return True

    def wait_read(self) -> None:
        """Wait until the console has been read to its end."""
        if self.drain:
            _, status, usage = os.wait4(self.drain.pid, 0)
            self.drain.returncode = os.waitstatus_to_exitcode(status)
            self._cpu_before += usage.ru_utime + usage.ru_stime

    def cpu_seconds(self) -> float:
        """CPU time of the launcher, its helpers and the workers, all of which have ended."""
        reap_all_but(set())
        return cpu_of_children() - self._cpu_before

    def own_processes(self) -> list[int]:
        """The launcher and what belongs to it: no worker, no worker's child."""
        jobs = {pid for record in self.records() for pid in (record.pid, record.child, record.session_child)}
        if self.drain:
            jobs.add(self.drain.pid)
        return [pid for pid in descendants(os.getpid()) if pid not in jobs]

    def close(self) -> None:
        """Kill and reap everything that is left, remove the files."""
        if self._unread >= 0:
            os.close(self._unread)
        spared = {self.drain.pid} if self.drain else set()
        while set(descendants(os.getpid())) - spared:
            for pid in set(descendants(os.getpid())) - spared:
                kill(pid)
            self.wait_exit(0.01)
            reap_all_but({self.pid, *spared})
        if self.drain:
            self.drain.wait()
        reap_all_but(set())
        os.close(self._pidfd)
        shutil.rmtree(self.folder)


def cpu_of_children() -> float:
    """Seconds, of all children waited for so far and what they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def become_subreaper() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """The pids below `root` that run."""
    children: dict[int, list[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        state, parent = state_and_parent(int(pid))
        if state not in "ZX":
            children.setdefault(parent, []).append(int(pid))
    found, front = [], [root]
    while front:
        front = [child for parent in front for child in children.get(parent, ())]
        found += front
    return found


def state_and_parent(pid: int) -> tuple[str, int]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, parent = stat.read().rpartition(b")")[2].split()[:2]
        return state.decode(), int(parent)
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0


def running(pids: Iterable[int]) -> int:
    """How many of them run."""
    return sum(pid > 0 and state_and_parent(pid)[0] not in "ZX" for pid in pids)


def wait_gone(pids: Iterable[int], seconds: float) -> int | None:
    """When the last of them was gone (time.monotonic_ns()), or None if some are there after that time."""
    poll = select.poll()
    waiting = set()
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        waiting.add(pidfd)
        poll.register(pidfd, select.POLLIN)
    deadline = time.monotonic() + seconds
    while waiting and time.monotonic() < deadline:
        for pidfd, _ in poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            poll.unregister(pidfd)
            os.close(pidfd)
            waiting.remove(pidfd)
    gone = None if waiting else time.monotonic_ns()
    for pidfd in waiting:
        os.close(pidfd)
    return gone


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
        os.kill(pid, signal.SIGKILL)


def reap_all_but(spared: set[int]) -> None:
    """Reap ended orphans; those whose status somebody else reads are spared."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) not in spared and state_and_parent(int(pid)) == ("Z", os.getpid()):
            os.waitpid(int(pid), os.WNOHANG)
