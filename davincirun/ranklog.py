"""One rank's output: taken from its pipe, kept in its file, readable by offset for whoever shows it.

When the file fails (disk full, size limit, gone), what comes after is held in memory until it has been shown,
and the worker has to wait once that is a megabyte.
"""

from __future__ import annotations

import errno
import os
from typing import Optional

_MOVE_BYTES = 1 << 20  # a whole pipe at once
_READ_BYTES = 1 << 18
_MEMORY_BYTES = 1 << 20
_RECENT_BYTES = 1 << 13  # of what has been shown, kept for the report once the file has failed

_splice = getattr(os, "splice", None)  # Python 3.10


class RankLog:
    """The queue between a worker and the console. `received`, `shown` and the like are offsets in bytes."""

    def __init__(self, rank: int, pipe_fd: int, file_fd: Optional[int]) -> None:
        self.rank = rank
        self.pipe_fd = pipe_fd
        self.received = 0  # so much has come through the pipe
        self.shown = 0  # so much of it the console has been given
        self.is_ended = False  # no more will come
        self._file_fd = file_fd
        self._takes_more = file_fd is not None  # the file has not failed
        self._in_file = 0  # so much of it is in the file; what follows is in memory
        self._memory = bytearray()
        self._memory_start = 0
        self._recent = b""  # what stood before the memory, or its end
        self._can_splice = _splice is not None

    @property
    def is_full(self) -> bool:
        """Held in memory is as much as may be; the worker has to wait."""
        return len(self._memory) >= _MEMORY_BYTES

    def receive(self) -> bool:
        """Take what the pipe has, up to a megabyte; False at its end. OSError, once, when the file fails.

        BlockingIOError says that there is nothing now.
        """
        if not self._takes_more:
            count = self._to_memory(os.read(self.pipe_fd, _READ_BYTES))
        elif self._can_splice:
            count = self._spliced()
        else:
            count = self._copied()
        return count > 0

    def read_into(self, buffer: bytearray) -> int:
        """Fill `buffer` with the first of what was received but not shown; how many bytes: all, if they fit."""
        count = 0
        if self._file_fd is not None and self.shown < self._in_file:
            wanted = min(len(buffer), self._in_file - self.shown)
            with memoryview(buffer) as view:
                count = os.preadv(self._file_fd, [view[:wanted]], self.shown)
            if count < wanted:  # somebody has truncated the file: what is gone can't be shown
                self.shown = self._in_file - count
        start = self.shown + count - self._memory_start
        held = self._memory[start : start + len(buffer) - count] if self._memory else b""
        buffer[count : count + len(held)] = held
        return count + len(held)

    def show(self, count: int) -> None:
        """The console has been given `count` more bytes."""
        self.shown += count
        if self.shown > self._memory_start and self._memory:
            gone = self.shown - self._memory_start
            self._recent = (self._recent + self._memory[:gone])[-_RECENT_BYTES:]
            del self._memory[:gone]
            self._memory_start = self.shown

    def last(self, size: int) -> bytes:
        """The last bytes received, at most 8 KiB of them, as far as they still exist."""
        kept = (self._recent + self._memory)[-size:]
        if len(kept) == size or self._file_fd is None:
            return kept
        size -= len(kept)
        return os.pread(self._file_fd, size, max(self._in_file - size, 0)) + kept

    def close(self) -> None:
        if self._file_fd is not None:
            os.close(self._file_fd)
            self._file_fd = None

    def _spliced(self) -> int:
        assert _splice is not None and self._file_fd is not None
        try:
            count: int = _splice(self.pipe_fd, self._file_fd, _MOVE_BYTES, offset_dst=self._in_file)
        except BlockingIOError:
            raise
        except OSError as error:
            if error.errno != errno.EINVAL:
                self._fail()
                raise
            self._can_splice = False  # not every file system takes it
            return self._copied()
        self._in_file += count
        self.received += count
        return count

    def _copied(self) -> int:
        assert self._file_fd is not None
        data = os.read(self.pipe_fd, _READ_BYTES)
        rest = memoryview(data)
        while rest:
            try:
                count = os.pwrite(self._file_fd, rest, self._in_file)
            except OSError:
                self._fail()
                self._to_memory(bytes(rest))
                raise
            self._in_file += count
            self.received += count
            rest = rest[count:]
        return len(data)

    def _to_memory(self, data: bytes) -> int:
        self._memory += data
        self.received += len(data)
        return len(data)

    def _fail(self) -> None:
        """From here on the file is only read."""
        self._takes_more = False
        self._memory_start = self._in_file
