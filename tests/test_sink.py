"""Writing to consoles that may be slow, stuck or closed, without ever waiting for them."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from typing import Iterator, Tuple

import pytest

from davincirun.sink import Sink

MUCH = b"x" * 3_000_000


@pytest.fixture(params=["pipe", "socket"])
def ends(request) -> Iterator[Tuple[int, int]]:
    """A reading and a writing end. A pipe can be opened anew without blocking, a socket can't."""
    if request.param == "pipe":
        reader, writer = os.pipe()
    else:
        one, other = socket.socketpair()
        reader, writer = one.detach(), other.detach()
    yield reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):  # the test has closed it
            os.close(fd)


def test_what_fits_is_written_at_once(ends: Tuple[int, int]) -> None:
    reader, writer = ends
    sink = Sink(writer)
    sink.write(b"one\n")
    assert os.read(reader, 100) == b"one\n"
    assert not sink.is_waiting and sink.stuck_seconds() == 0
    sink.close()


def test_what_does_not_fit_is_kept_and_nothing_is_lost(ends: Tuple[int, int]) -> None:
    reader, writer = ends
    sink = Sink(writer)
    sink.write(MUCH)
    sink.write(b"end")
    assert sink.is_waiting
    received = bytearray()
    while sink.is_waiting:
        received += os.read(reader, 1 << 20)
        sink.flush()
    os.close(writer)
    sink.close()
    while True:
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            break
        received += chunk
    assert received == MUCH + b"end"


def test_our_descriptor_stays_blocking_for_those_who_share_it(ends: Tuple[int, int]) -> None:
    _, writer = ends
    sink = Sink(writer)
    assert os.get_blocking(writer)
    sink.close()


def test_a_closed_reader_closes_the_sink_and_takes_everything_silently(ends: Tuple[int, int]) -> None:
    reader, writer = ends
    sink = Sink(writer)
    os.close(reader)
    sink.write(b"one\n")
    assert sink.is_closed and not sink.is_waiting
    sink.write(MUCH)
    assert not sink.is_waiting
    sink.close()


def test_a_stuck_sink_says_for_how_long(ends: Tuple[int, int]) -> None:
    sink = Sink(ends[1])
    sink.write(MUCH)
    select.select([], [], [], 0.01)
    first = sink.stuck_seconds()
    sink.flush()
    assert 0.01 <= first <= sink.stuck_seconds()
    sink.close()


def test_it_is_watched_exactly_while_something_waits(ends: Tuple[int, int]) -> None:
    reader, writer = ends
    sink = Sink(writer)
    with select.epoll() as poll:
        sink.watch(poll)
        assert poll.poll(0) == []
        sink.write(MUCH)
        sink.watch(poll)
        while sink.is_waiting:
            os.read(reader, 1 << 20)
            assert poll.poll(1000) == [(sink.fd, select.EPOLLOUT)]
            sink.flush()
        sink.watch(poll)
        os.set_blocking(reader, False)
        while select.select([reader], [], [], 0)[0]:
            os.read(reader, 1 << 20)
        assert poll.poll(0) == []
    sink.close()


def test_a_file_takes_everything(tmp_path) -> None:
    with open(tmp_path / "out", "wb") as file:
        sink = Sink(file.fileno())
        sink.write(MUCH)
        assert not sink.is_waiting and not sink.is_terminal
        sink.close()
    assert os.path.getsize(tmp_path / "out") == len(MUCH)


def test_a_full_disk_closes_the_sink() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        sink = Sink(full.fileno())
        sink.write(b"one\n")
        assert sink.is_closed
        sink.close()


@pytest.mark.parametrize(("text", "expected"), [(b"one\n", True), (b"10%\r", True), (b"one", False)])
def test_it_knows_whether_a_line_is_unfinished(tmp_path, text: bytes, expected: bool) -> None:
    with open(tmp_path / "out", "wb") as file:
        sink = Sink(file.fileno())
        assert sink.at_line_start
        sink.write(text)
        assert sink.at_line_start == expected
        sink.close()
