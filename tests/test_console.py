"""How the console shows what ranks say: whole lines, prefixes, colours, progress bars, in turn."""

from __future__ import annotations

import os
from typing import Iterator, List

import pytest

from davincirun.console import Console, Style
from davincirun.ranklog import RankLog
from davincirun.sink import Sink

PLAIN = Style()
PREFIXED = Style(prefix=True)
TERMINAL = Style(prefix=True, colour=True, terminal=True)
CYAN, GREEN = b"\x1b[36m[rank 0]\x1b[0m ", b"\x1b[32m[rank 1]\x1b[0m "


@pytest.mark.parametrize(
    ("style", "text", "shown"),
    [
        (PLAIN, b"one\ntwo\n", b"one\ntwo\n"),
        (PLAIN, b"\xff\0\n", b"\xff\0\n"),
        (PLAIN, b"10%\r20%\r30%\n", b"30%\n"),
        (PLAIN, b"dos\r\nunix\n", b"dos\r\nunix\n"),
        (PLAIN, b"10%\r20%\r\nnext\n", b"20%\r\nnext\n"),
        (PLAIN, b"a\n1\r2\nb\n", b"a\n2\nb\n"),
        (PLAIN, b"\r\n", b"\r\n"),
        (PREFIXED, b"one\ntwo\n", b"[rank 0] one\n[rank 0] two\n"),
        (PREFIXED, b"unfinished", b"[rank 0] unfinished"),
        (PREFIXED, b"\n", b"[rank 0] \n"),
        (PREFIXED, b"10%\r20%\n", b"[rank 0] 20%\n"),
        (PREFIXED, b"form\x0cfeed\x1cand\x85\n", b"[rank 0] form\x0cfeed\x1cand\x85\n"),
        (TERMINAL, b"one\n", CYAN + b"one\n"),
        (TERMINAL, b"10%\r100%\n", CYAN + b"10%\x1b[K\r" + CYAN + b"100%\n"),
    ],
)
def test_lines_are_dressed(style: Style, text: bytes, shown: bytes) -> None:
    assert style.dress(0, text, False) == shown


def test_a_line_that_was_begun_before_gets_no_second_prefix() -> None:
    assert PREFIXED.dress(0, b"rest\nnext\n", True) == b"rest\n[rank 0] next\n"
    assert TERMINAL.dress(0, b"rest\n", True) == b"rest\n"


def test_each_rank_has_a_colour_none_of_them_red() -> None:
    prefixes = [TERMINAL.dress(rank, b"x", False) for rank in range(16)]
    colours = [prefix[2:4] for prefix in prefixes]
    assert len(set(colours)) == 10 and colours[10] == colours[0]
    assert b"31" not in colours and b"91" not in colours


class Ranks:
    """Ranks that print into real pipes and files, and a console into a pipe."""

    def __init__(self, folder: str, style: Style, count: int) -> None:
        self._screen, out = os.pipe()
        sink = Sink(out)
        os.close(out)
        self._sink = sink
        self.console = Console(sink, style)
        self.console.ranks = count
        pipes = [os.pipe() for _ in range(count)]
        self._writers = [write_fd for _, write_fd in pipes]
        self._logs: List[RankLog] = []
        for rank, (read_fd, _) in enumerate(pipes):
            os.set_blocking(read_fd, False)
            file_fd = os.open(os.path.join(folder, str(rank)), os.O_RDWR | os.O_CREAT)
            self._logs.append(RankLog(rank, read_fd, file_fd))

    def say(self, rank: int, text: bytes) -> bytes:
        """A rank prints; what the console shows upon that."""
        os.write(self._writers[rank], text)
        self._logs[rank].receive()
        return self._shown(rank)

    def end(self, rank: int) -> bytes:
        self._logs[rank].is_ended = True
        return self._shown(rank)

    def close(self) -> None:
        self._sink.close()
        os.close(self._screen)
        for writer, log in zip(self._writers, self._logs):
            os.close(writer)
            os.close(log.pipe_fd)
            log.close()

    def _shown(self, rank: int) -> bytes:
        self.console.news(self._logs[rank])
        self.console.advance()
        os.set_blocking(self._screen, False)
        try:
            return os.read(self._screen, 1 << 20)
        except BlockingIOError:
            return b""


@pytest.fixture
def ranks(tmp_path) -> Iterator[Ranks]:
    ranks = Ranks(str(tmp_path), PLAIN, 2)
    yield ranks
    ranks.close()


def test_a_line_is_shown_when_it_is_whole(ranks: Ranks) -> None:
    assert ranks.say(0, b"hal") == b""
    assert ranks.say(1, b"other\n") == b"other\n"
    assert ranks.say(0, b"f\nnext") == b"half\n"
    assert ranks.end(0) == b"next"


def test_an_unfinished_last_line_is_parted_from_the_next_rank(ranks: Ranks) -> None:
    ranks.say(0, b"no end")
    assert ranks.end(0) == b"no end"
    assert ranks.say(1, b"other\n") == b"\nother\n"


def test_a_character_cut_in_two_is_shown_whole(ranks: Ranks) -> None:
    assert ranks.say(0, b"\xe4\xb8") == b""
    assert ranks.say(0, b"\xad\n") == "中\n".encode()


def test_what_has_been_looked_at_in_vain_is_not_behind(ranks: Ranks) -> None:
    ranks.say(0, b"unfinished")
    assert not ranks.console.is_behind


def test_a_lone_rank_is_shown_as_it_types(tmp_path) -> None:
    ranks = Ranks(str(tmp_path), PREFIXED, 1)
    assert ranks.say(0, b"name? ") == b"[rank 0] name? "
    assert ranks.say(0, b"Eve\n") == b"Eve\n"
    ranks.close()


def test_a_progress_bar_moves_on_a_terminal_and_not_elsewhere(tmp_path) -> None:
    for style, shown in ((TERMINAL, GREEN + b"10%\x1b[K\r"), (PREFIXED, b"")):
        ranks = Ranks(str(tmp_path), style, 2)
        assert ranks.say(1, b"10%\r") == shown
        ranks.close()
