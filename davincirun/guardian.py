"""Two processes watch over each other, so that a SIGKILL of either leaves nothing of the job behind.

The process that the platform started becomes the guardian: it forks once, passes every signal on and waits. Its
child, the supervisor, does all the rest. Both are child subreapers, and a pipe is the supervisor's life line:

- the guardian is killed: the life line reads end-of-file, and the supervisor kills the job at once;
- the supervisor is killed: its workers become the guardian's children, and the guardian kills them.

The supervisor has a session of its own: `kill -9 -PGID` and a terminal's Ctrl-C hit the guardian alone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from typing import Callable, FrozenSet, Iterable, List, Optional

from davincirun.descendants import become_subreaper, descendants, signal_each
from davincirun.wakeup import Wakeup

KILL_PATIENCE_SECONDS = 5.0  # a process in an uninterruptible system call can't be waited for for ever


def guarded(supervise: Callable[[int], int], spared: Iterable[int] = ()) -> int:
    """Run `supervise(lifeline_fd)` in a child under our eyes; return the exit status of the whole launch.

    `spared` are children of ours that don't belong to the job.
    """
    become_subreaper()
    lifeline_fd, our_end = os.pipe()
    with Wakeup() as wakeup:
        supervisor = os.fork()
        if supervisor == 0:
            os.close(our_end)
            os._exit(_supervisor_main(supervise, lifeline_fd))
        os.close(lifeline_fd)
        _name_process("davincirun-guardian")
        return _watch(supervisor, wakeup, frozenset(spared))


def _supervisor_main(supervise: Callable[[int], int], lifeline_fd: int) -> int:
    """The child's whole life; an error of ours is shown as Python shows it, and is status 1."""
    try:
        os.setsid()
        become_subreaper()  # isn't inherited over fork
        return supervise(lifeline_fd)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None when we were started with it closed
                stream.flush()


def _watch(supervisor: int, wakeup: Wakeup, spared: FrozenSet[int]) -> int:
    while True:
        select.select([wakeup.fd], [], [])
        for signum in wakeup.take():
            if signum == signal.SIGCHLD:
                status = _reap(supervisor)
                if status is not None:
                    return _ended(status, wakeup, spared)
                continue
            os.kill(supervisor, signum)
            if signum == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)  # the shell gets its terminal back


def _reap(supervisor: int) -> Optional[int]:
    """Reap whatever has ended (strangers too, should we be PID 1); the supervisor's wait status if it has."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return found
            if pid == supervisor:
                found = status
    except ChildProcessError:
        return found


def _ended(status: int, wakeup: Wakeup, spared: FrozenSet[int]) -> int:
    """The launch's exit status. However the supervisor ended, what it has left behind is killed."""
    left = _kill_everything(wakeup, spared)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    signum = os.WTERMSIG(status)
    say(f"the supervisor was killed by {signal.Signals(signum).name}: job killed, {left} processes left")
    return 128 + signum


def say(text: str) -> None:
    """A line on stderr, unless that is stuck: nothing may hold the guardian."""
    if select.select([], [2], [], 0)[1]:
        with contextlib.suppress(OSError):
            os.write(2, f"davincirun: {text}\n".encode("utf-8", "surrogateescape"))


def _kill_everything(wakeup: Wakeup, spared: FrozenSet[int]) -> int:
    """SIGKILL what the dead supervisor has left us, until nothing is left; the number that wouldn't die."""
    deadline = time.monotonic() + KILL_PATIENCE_SECONDS
    left = _left(spared)
    while left and time.monotonic() < deadline:
        signal_each(left, signal.SIGKILL)
        select.select([wakeup.fd], [], [], 0.1)  # the next SIGCHLD, or an orphan that has just become ours
        wakeup.take()
        _reap(-1)
        left = _left(spared)
    return len(left)


def _left(spared: FrozenSet[int]) -> List[int]:
    return [pid for pid in descendants(os.getpid()) if pid not in spared]


def _name_process(title: str) -> None:
    """Tell the guardian from the launcher proper in `ps`, and from `pkill -9 -f davincirun.py`.

    Overwrites our own argument area in place; where /proc doesn't let us, the old name stays.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rsplit(b")", 1)[1].split()[45:47])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(title.encode()[: end - start - 1].ljust(end - start, b"\0"))
    except (OSError, ValueError):
        pass
