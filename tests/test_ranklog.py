"""One rank's output: from the pipe into the file, readable by offset, and what happens when the file fails."""

from __future__ import annotations

import errno
import os
import resource
import signal
from typing import Iterator

import pytest

from davincirun.ranklog import RankLog


class Rank:
    """A rank's pipe, file and log."""

    def __init__(self, path: str, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        pipe_fd, self.writer = os.pipe()
        os.set_blocking(pipe_fd, False)
        self.path = path
        self.log = RankLog(0, pipe_fd, os.open(path, flags))

    def say(self, text: bytes) -> None:
        os.write(self.writer, text)

    def close(self) -> None:
        os.close(self.writer)
        os.close(self.log.pipe_fd)
        self.log.close()


def read(log: RankLog, size: int) -> bytes:
    """At most `size` bytes of what has not been shown."""
    buffer = bytearray(size)
    return bytes(buffer[: log.read_into(buffer)])


@pytest.fixture(params=["kernel copies", "we copy"])
def rank(request, tmp_path) -> Iterator[Rank]:
    rank = Rank(str(tmp_path / "log"))
    rank.log._can_splice = rank.log._can_splice and request.param == "kernel copies"
    yield rank
    rank.close()


@pytest.fixture
def small_files() -> Iterator[int]:
    """A limit of file sizes for this process; Python ignores the signal that comes with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    yield 8192
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_what_comes_is_in_the_file_at_once(rank: Rank) -> None:
    rank.say(b"one\n\xff\0")
    assert rank.log.receive()
    with open(rank.path, "rb") as file:
        assert file.read() == b"one\n\xff\0"
    assert rank.log.received == 6


def test_nothing_now_is_not_the_end(rank: Rank) -> None:
    with pytest.raises(BlockingIOError):
        rank.log.receive()


def test_the_end_is_told(tmp_path) -> None:
    rank = Rank(str(tmp_path / "log"))
    os.close(rank.writer)
    assert not rank.log.receive()
    os.close(rank.log.pipe_fd)
    rank.log.close()


def test_what_has_not_been_shown_is_read_by_offset(rank: Rank) -> None:
    rank.say(b"abcdef")
    rank.log.receive()
    assert read(rank.log, 4) == b"abcd"
    rank.log.show(3)
    assert read(rank.log, 100) == b"def"
    assert rank.log.last(2) == b"ef"


def test_a_file_that_fails_is_told_once_and_its_rest_kept_in_memory(rank: Rank, small_files: int) -> None:
    said = bytes(range(256)) * 40  # 10 KiB
    rank.say(said)
    with pytest.raises(OSError) as error:
        while True:
            rank.log.receive()
    assert error.value.errno == errno.EFBIG
    rank.say(b"more")
    assert drained(rank) == said + b"more"
    assert os.path.getsize(rank.path) == small_files


def test_the_last_bytes_are_found_across_the_failure(rank: Rank, small_files: int) -> None:
    rank.say(b"a" * 8192 + b"b" * 10)
    with pytest.raises(OSError):
        while True:
            rank.log.receive()
    receive_all(rank)
    assert rank.log.last(15) == b"aaaaabbbbbbbbbb"
    rank.log.show(8192 + 5)
    assert rank.log.last(15) == b"aaaaabbbbbbbbbb"


def test_without_a_file_the_worker_has_to_wait_at_a_megabyte(tmp_path) -> None:
    pipe_fd, writer = os.pipe()
    os.set_blocking(pipe_fd, False)
    log = RankLog(0, pipe_fd, None)
    received = 0
    while not log.is_full:
        os.write(writer, b"x" * 65536)
        log.receive()
        received += 65536
    assert received == log.received == 1 << 20
    log.show(65536)
    assert not log.is_full
    assert len(read(log, 1 << 21)) == received - 65536
    os.close(writer)
    os.close(pipe_fd)
    log.close()


def test_a_file_truncated_by_others_loses_only_what_was_in_it(rank: Rank) -> None:
    rank.say(b"abcdef")
    rank.log.receive()
    os.truncate(rank.path, 0)
    assert read(rank.log, 100) == b""
    assert rank.log.shown == 6
    rank.say(b"ghi")
    rank.log.receive()
    assert read(rank.log, 100) == b"ghi"


def receive_all(rank: Rank) -> None:
    try:
        while rank.log.receive():
            pass
    except BlockingIOError:
        pass  # all there is


def drained(rank: Rank) -> bytes:
    """All that was said, as a console reads it: in pieces."""
    receive_all(rank)
    pieces = []
    while rank.log.shown < rank.log.received:
        piece = read(rank.log, 1000)
        pieces.append(piece)
        rank.log.show(len(piece))
    return b"".join(pieces)
