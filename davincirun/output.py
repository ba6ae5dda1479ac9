"""What the workers print: exact in each rank's file, in whole lines on the console.

Each worker writes into a pipe of its own, and whatever comes goes into the rank's file at once. The console only
follows the files by offset. So the file is the queue: a console that nobody reads delays no worker, costs no
memory and loses nothing. The worker doesn't get the file itself as its stdout, because then a full disk or a
file-size limit would be its own failure (ENOSPC, SIGXFSZ in its `print`); with the pipe in between it is ours,
said once, and the console's copy goes on. From Python 3.10 on the kernel moves the bytes (splice).
"""

from __future__ import annotations

import os
import select
from typing import Callable, Dict, List, Optional

from davincirun.console import Console
from davincirun.ranklog import RankLog
from davincirun.sink import enlarge_pipe


class Output:
    """The pipes and files of all workers of a launch, and their way to the console."""

    def __init__(self, poll: select.epoll, console: Console, warn: Callable[[str], None]) -> None:
        self._poll = poll
        self._console = console
        self._warn = warn
        self._by_pipe: Dict[int, RankLog] = {}
        self._by_rank: Dict[int, RankLog] = {}
        self._paused: List[RankLog] = []
        self._has_warned = False

    def open(self, rank: int, log_path: str) -> int:
        """Prepare a worker's pipe and file; the end that becomes its stdout and stderr, for the caller to close."""
        pipe_fd, worker_fd = os.pipe()
        enlarge_pipe(pipe_fd)
        os.set_blocking(pipe_fd, False)
        log = RankLog(rank, pipe_fd, self._open_file(rank, log_path))
        self._by_pipe[pipe_fd] = self._by_rank[rank] = log
        self._console.ranks = len(self._by_rank)
        self._poll.register(pipe_fd, select.EPOLLIN)
        return worker_fd

    def owns(self, fd: int) -> bool:
        return fd in self._by_pipe

    def receive(self, fd: int) -> None:
        """Take what a readable pipe has."""
        self._receive(self._by_pipe[fd])

    def drain(self, rank: int) -> None:
        """Take what a worker that has ended left in its pipe. A descendant may go on writing to it."""
        log = self._by_rank[rank]
        while log.pipe_fd in self._by_pipe and not log.is_full and self._receive(log):
            pass

    @property
    def is_behind(self) -> bool:
        """Something that a worker printed is neither in its file nor shown where it can be."""
        return bool(self._by_pipe) or self._console.is_behind

    def finish(self) -> None:
        """The job is over: take the rest, and let unfinished lines through. To be called until nothing is behind."""
        for rank, log in self._by_rank.items():
            self.drain(rank)
            if log.pipe_fd in self._by_pipe and not log.is_full:
                self._end(log)

    def advance(self) -> None:
        """Show what the console takes now; let those workers go on that had to wait for it."""
        self._console.advance()
        for log in [log for log in self._paused if not log.is_full]:
            self._paused.remove(log)
            self._poll.modify(log.pipe_fd, select.EPOLLIN)

    def tail(self, rank: int, lines: int) -> List[str]:
        """The last lines that a rank printed, as text; a progress bar counts as its last state."""
        if rank not in self._by_rank:
            return []
        text = self._by_rank[rank].last(lines * 400).decode("utf-8", "replace")
        return [line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.rstrip("\n").split("\n")][-lines:]

    def close(self) -> None:
        for log in self._by_rank.values():
            if log.pipe_fd in self._by_pipe:
                os.close(log.pipe_fd)
            log.close()

    def _receive(self, log: RankLog) -> bool:
        """Whether there may be more at once."""
        try:
            if not log.receive():
                self._end(log)
                return False
        except BlockingIOError:
            return False
        except OSError as error:  # the file's, not the pipe's: the next call goes on without it
            self._say_unwritable(log.rank, error)
        if log.is_full and log not in self._paused:
            self._paused.append(log)
            self._poll.modify(log.pipe_fd, 0)
        self._console.news(log)
        return True

    def _end(self, log: RankLog) -> None:
        if log in self._paused:
            self._paused.remove(log)
        self._poll.unregister(log.pipe_fd)
        del self._by_pipe[log.pipe_fd]
        os.close(log.pipe_fd)
        log.is_ended = True
        self._console.news(log)

    def _open_file(self, rank: int, path: str) -> Optional[int]:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        except OSError as error:
            self._say_unwritable(rank, error)
            return None

    def _say_unwritable(self, rank: int, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            reason = os.strerror(error.errno or 0)
            self._warn(
                f"rank {rank}: its log file can't be written ({reason}): its output goes on to the console alone."
                " The same for other ranks isn't reported"
            )
