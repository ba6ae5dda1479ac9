"""Starting, signalling and reaping the workers, and whatever they start.

Each worker leads a session of its own. Its exit is first only looked at (WNOWAIT), so that its process group
can still be signalled safely, and reaped after. Every process of the job is a descendant of ours (see
`descendants`), so "nothing is left" is what the kernel says: no children (ECHILD).
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import select
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from davincirun.descendants import carriers, descendants, signal_each
from davincirun.lifecycle import Exit
from davincirun.values import Value

_SYS_PIDFD_OPEN = 434  # the same on every architecture
_DESCRIPTORS_PER_WORKER = 4  # pipe, log, pidfd, and one to spare
_OUR_DESCRIPTORS = 64


class StartError(Exception):
    """A command can't be run: `status` as a shell has it (127 not found, 126 not executable, else 1)."""

    def __init__(self, status: int, problem: str) -> None:
        super().__init__(problem)
        self.status = status
        self.problem = problem


class _Worker(Value):
    rank: int
    process: "subprocess.Popen[bytes]"
    pidfd: int  # -1 where the kernel has none
    started: float  # time.monotonic()


class Processes:
    """The workers of one launch, and their descendants."""

    def __init__(self, poll: select.epoll, cookie: bytes, subreaper: bool) -> None:
        self._poll = poll
        self._cookie = cookie
        self._subreaper = subreaper
        self.pids: Dict[int, int] = {}  # of all workers ever started, by rank: for reports, not for signals
        self._by_rank: Dict[int, _Worker] = {}
        self._rank_by_pid: Dict[int, int] = {}
        self._rank_by_pidfd: Dict[int, int] = {}
        self._told: Dict[int, int] = {}  # pid -> signal: who has been told to end
        self._limit = _RaisedLimit()

    def make_room(self, workers: int) -> None:
        """Raise our own limit of open files, if so many workers need it; workers keep the one we were given."""
        self._limit.raise_to(workers * _DESCRIPTORS_PER_WORKER + _OUR_DESCRIPTORS)

    def start(
        self, rank: int, argv: Sequence[str], env: Mapping[str, str], cwd: Optional[str], stdin: Optional[int], out: int
    ) -> None:
        """Start one worker with `out` as its stdout and stderr; `stdin` None inherits ours. StartError if it can't be.

        Popen forks without running Python code in the child (no preexec_fn), so threads do no harm.
        """
        try:
            with self._limit.as_given():
                process = subprocess.Popen(
                    argv, env=env, cwd=cwd, stdin=stdin, stdout=out, stderr=out, start_new_session=True
                )
        except OSError as error:
            raise _start_error(argv[0], cwd, error) from None
        self.pids[rank] = process.pid
        worker = _Worker(rank, process, _pidfd_open(process.pid), time.monotonic())
        self._by_rank[rank] = worker
        self._rank_by_pid[process.pid] = rank
        if worker.pidfd >= 0:
            self._rank_by_pidfd[worker.pidfd] = rank
            self._poll.register(worker.pidfd, select.EPOLLIN)

    @property
    def reports_ends(self) -> bool:
        """Each worker's end is reported by a descriptor of its own (see `rank_of`)."""
        return len(self._rank_by_pidfd) == len(self._rank_by_pid)

    def rank_of(self, fd: int) -> Optional[int]:
        """The rank whose end this readable descriptor reports, if it does."""
        return self._rank_by_pidfd.get(fd)

    def look_at(self, rank: int) -> Optional[Tuple[Exit, float]]:
        """How the worker has ended and how long it ran, without reaping it; None while it runs."""
        worker = self._by_rank.get(rank)
        if worker is None:
            return None
        state = os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return _exit_of(state), time.monotonic() - worker.started

    def reap(self, rank: int) -> None:
        """Take a worker that has ended off the kernel's list; its pid must not be used after."""
        worker = self._by_rank.pop(rank)
        del self._rank_by_pid[worker.process.pid]
        if worker.pidfd >= 0:
            del self._rank_by_pidfd[worker.pidfd]
            self._poll.unregister(worker.pidfd)
            os.close(worker.pidfd)
        _, status = os.waitpid(worker.process.pid, 0)
        worker.process.returncode = status  # so that Popen doesn't wait for it again

    def reap_strangers(self) -> Tuple[Optional[int], bool]:
        """Reap ended orphans of the job; the rank of an ended worker met first, and whether nobody is left.

        Workers are left alone: without pidfds the caller handles the one that is returned and calls again.
        """
        while True:
            try:
                state = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return None, not self._hidden()
            if state is None:
                return None, False
            rank = self._rank_by_pid.get(state.si_pid)
            if rank is not None:
                return rank, False
            os.waitpid(state.si_pid, 0)
            self._told.pop(state.si_pid, None)

    def signal_workers(self, signum: int) -> None:
        """Send `signum` to each worker, not to its children."""
        signal_each(list(self._rank_by_pid), signum)

    def signal_groups(self, *signums: int) -> None:
        """Send `signums` to the process group of each worker; a worker that has ended counts until it is reaped."""
        for pid in self._rank_by_pid:
            try:
                for signum in signums:
                    os.killpg(pid, signum)
            except (ProcessLookupError, PermissionError):
                pass  # the whole group has ended

    def stop(self, signum: int) -> None:
        """Tell everything that is left to end, groups first; whoever was told the same before isn't told again."""
        self.signal_groups(signum, signal.SIGCONT)
        groups = set(self._rank_by_pid)
        for pid in self.left():
            if self._told.get(pid) == signum:
                continue
            self._told[pid] = signum
            if _group_of(pid) not in groups:
                signal_each([pid], signum, signal.SIGCONT)

    def stop_strays(self, signum: int) -> None:
        """Tell those that have appeared since the last `stop`."""
        for pid in self.left():
            if pid not in self._told and pid not in self._rank_by_pid:
                self._told[pid] = signum
                signal_each([pid], signum, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL everything that is left. A process forked meanwhile takes another call."""
        self.signal_groups(signal.SIGKILL)
        signal_each(self.left(), signal.SIGKILL)

    def left(self) -> List[int]:
        """The pids of the job that are there now, zombies included."""
        return descendants(os.getpid()) + self._hidden()

    def close(self) -> None:
        for pidfd in self._rank_by_pidfd:
            os.close(pidfd)
        self._limit.restore()

    def _hidden(self) -> List[int]:
        """Where orphans don't become ours, the cookie finds them."""
        return [] if self._subreaper else carriers(self._cookie)


class _RaisedLimit:
    """Our soft limit of open files, raised for ourselves and lowered again around each start of a worker.

    The limit is inherited through fork, and only a preexec_fn could set it in between. So a few low descriptors
    are kept aside: freed under the lowered limit, they are what Popen's own pipe gets.
    """

    _ASIDE = 4

    def __init__(self) -> None:
        self._given = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._raised = self._given
        self._aside: List[int] = []

    def raise_to(self, wanted: int) -> None:
        soft, hard = self._given
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        self._aside = self._keep_aside()
        self._raised = (hard if hard != resource.RLIM_INFINITY else max(soft, wanted), hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)

    @contextmanager
    def as_given(self) -> Iterator[None]:
        if self._raised == self._given:
            yield
            return
        for fd in self._aside:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, self._given)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, self._raised)
            self._aside = self._keep_aside()

    def restore(self) -> None:
        for fd in self._aside:
            os.close(fd)
        self._aside = []
        resource.setrlimit(resource.RLIMIT_NOFILE, self._given)

    def _keep_aside(self) -> List[int]:
        return [os.open(os.devnull, os.O_RDONLY) for _ in range(self._ASIDE)]


def _exit_of(state: os.waitid_result) -> Exit:
    if state.si_code == os.CLD_EXITED:
        return Exit(code=state.si_status)
    return Exit(signum=state.si_status, core_dumped=state.si_code == os.CLD_DUMPED)


def _start_error(command: str, cwd: Optional[str], error: OSError) -> StartError:
    """Popen says by `filename` whether the command or the working directory was the trouble."""
    reason = os.strerror(error.errno or 0)
    if cwd is not None and error.filename == cwd and error.filename != command:
        return StartError(1, f"{cwd}: can't be the working directory: {reason}")
    if error.errno == errno.ENOENT:
        if os.path.exists(command) and os.sep in command:
            return StartError(127, f"{command}: its interpreter (the #! line) is not there")
        return StartError(127, f"{command}: command not found")
    if error.errno == errno.ENOEXEC:
        return StartError(126, f"{command}: not a program: a script needs a #! line, or its interpreter before it")
    if error.errno in (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR):
        return StartError(126, f"{command}: can't be executed: {reason}")
    return StartError(1, f"{command}: can't be started: {reason}")


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def _pidfd_open(pid: int) -> int:
    """A descriptor that becomes readable when `pid` ends (Linux 5.3; os.pidfd_open since Python 3.9), or -1."""
    if hasattr(os, "pidfd_open"):
        try:
            fd: int = os.pidfd_open(pid)
        except OSError:
            return -1
        return fd
    fd = ctypes.CDLL(None, use_errno=True).syscall(_SYS_PIDFD_OPEN, pid, 0)
    return fd if isinstance(fd, int) and fd >= 0 else -1
