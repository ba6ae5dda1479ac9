"""The least that a launcher in Python does, to measure others against: nothing is promised, nothing looked nice.

usage: floor.py N LOG_DIR|- GRACE_SECONDS COMMAND [ARG...]

Starts N workers with RANK_ID set. With a LOG_DIR, each one's output goes through a pipe into LOG_DIR/rank.R, and in
whole lines to stdout. The first failure, or TERM, sends TERM to all and after the grace KILL. Only modules that are
built into the interpreter are imported.
"""

from __future__ import annotations

import _signal
import os
import select
import sys
import time

TERM, KILL = 15, 9


def main(arguments: list[str]) -> int:
    count, log_dir, grace, *command = arguments
    wakeup_fd, write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    _signal.set_wakeup_fd(write_fd)
    _signal.signal(TERM, lambda signum, frame: None)
    poll = select.epoll()
    poll.register(wakeup_fd, select.EPOLLIN)
    workers, outputs = {}, {}
    for rank in range(int(count)):
        pid, output = start(rank, None if log_dir == "-" else log_dir, command)
        pidfd = os.pidfd_open(pid)
        workers[pidfd] = pid
        poll.register(pidfd, select.EPOLLIN)
        if output:
            outputs[output.pipe] = output
            poll.register(output.pipe, select.EPOLLIN)
    return wait(poll, wakeup_fd, workers, outputs, float(grace))


class Output:
    """One worker's pipe, its file, and the line that it has begun."""

    def __init__(self, pipe: int, path: str) -> None:
        self.pipe = pipe
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self.begun = b""

    def relay(self) -> bool:
        """Whether there was anything."""
        text = os.read(self.pipe, 1 << 18)
        write_all(self.file, text)
        whole = text.rfind(b"\n") + 1
        if whole:
            write_all(1, self.begun + text[:whole])
            self.begun = text[whole:]
        else:
            self.begun += text
        return bool(text)


def start(rank: int, log_dir: str | None, command: list[str]) -> tuple[int, Output | None]:
    environ = {**os.environ, "RANK_ID": str(rank)}
    if log_dir is None:
        return os.posix_spawnp(command[0], command, environ, setsid=True, setsigdef=[TERM]), None
    pipe, write_end = os.pipe2(os.O_CLOEXEC)
    actions = [(os.POSIX_SPAWN_DUP2, write_end, 1), (os.POSIX_SPAWN_DUP2, write_end, 2)]
    pid = os.posix_spawnp(command[0], command, environ, file_actions=actions, setsid=True, setsigdef=[TERM])
    os.close(write_end)
    return pid, Output(pipe, f"{log_dir}/rank.{rank}")


def wait(
    poll: select.epoll, wakeup_fd: int, workers: dict[int, int], outputs: dict[int, Output], grace_seconds: float
) -> int:
    status = 0
    deadline = None
    while workers or outputs:
        for fd, _ in poll.poll(None if deadline is None else max(deadline - time.monotonic(), 0)):
            failed = 0
            if fd in outputs:
                if not outputs[fd].relay():
                    forget(poll, fd, outputs)
            elif fd in workers:
                failed = status_of(os.waitpid(workers[fd], 0)[1])
                forget(poll, fd, workers)
            elif fd == wakeup_fd:
                failed = 128 + os.read(wakeup_fd, 1)[0]
            if failed and not status:
                status = failed
                deadline = time.monotonic() + grace_seconds
                signal_groups(workers, TERM)
        if deadline is not None and time.monotonic() >= deadline:
            signal_groups(workers, KILL)
            deadline = None
    return status


def status_of(wait_status: int) -> int:
    return 128 + os.WTERMSIG(wait_status) if os.WIFSIGNALED(wait_status) else os.WEXITSTATUS(wait_status)


def forget(poll: select.epoll, fd: int, table: dict[int, object]) -> None:
    poll.unregister(fd)
    os.close(fd)
    del table[fd]


def signal_groups(workers: dict[int, int], signum: int) -> None:
    for pid in workers.values():
        os.killpg(pid, signum)


def write_all(fd: int, text: bytes) -> None:
    while text:
        text = text[os.write(fd, text) :]


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
