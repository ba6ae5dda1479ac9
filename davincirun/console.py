"""What the launcher's stdout shows of the ranks: whole lines, in turn, each said by one rank.

Not on a terminal, a progress bar (text overwritten with "\\r") is shown in its last state alone. On a terminal each
state is shown, with the rank's prefix. A line longer than a chunk is passed on in pieces.
"""

from __future__ import annotations

from typing import List, Optional

from davincirun.ranklog import RankLog
from davincirun.sink import Sink
from davincirun.values import Value

_CHUNK_BYTES = 1 << 18
_COLOURS = (36, 32, 33, 35, 34, 96, 92, 93, 95, 94)  # no red: that is for failures
_ERASE_REST = b"\x1b[K"  # of the line, which a longer state of a progress bar may have left


class Style(Value):
    """How lines look."""

    prefix: bool = False  # "[rank 3] " before each line
    colour: bool = False  # the prefix in a colour per rank
    terminal: bool = False  # "\r" moves a cursor that somebody sees

    @property
    def changes_nothing(self) -> bool:
        """Lines without a "\\r" are shown as they are."""
        return not self.prefix

    def dress(self, rank: int, text: bytes, continues: bool) -> bytes:
        """The text of one rank as it is shown; `continues` when its first line has been begun before."""
        if not self.terminal and b"\r" in text:
            text = b"\n".join(_last_state(line) for line in text.split(b"\n"))
        if not self.prefix:
            return text
        lines = text.splitlines(keepends=True) if self.terminal else text.split(b"\n")
        prefix = self._prefix(rank)
        if self.terminal:
            dressed = [
                prefix + line[:-1] + _ERASE_REST + line[-1:] if line.endswith(b"\r") else prefix + line
                for line in lines
            ]
            return b"".join(dressed)[len(prefix) if continues else 0 :]
        ending = lines.pop() if lines and not lines[-1] else None
        dressed_text = b"\n".join(prefix + line for line in lines) + (b"\n" if ending is not None else b"")
        return dressed_text[len(prefix) if continues else 0 :]

    def _prefix(self, rank: int) -> bytes:
        if not self.colour:
            return b"[rank %d] " % rank
        return b"\x1b[%dm[rank %d]\x1b[0m " % (_COLOURS[rank % len(_COLOURS)], rank)


class Console:
    """Follows the ranks' logs and sends what they say to `sink`, as far as it takes it."""

    def __init__(self, sink: Sink, style: Style) -> None:
        self._sink = sink
        self._style = style
        self._turns: List[RankLog] = []  # those with news, next turn first
        self._looked_at: dict[int, int] = {}  # rank -> what it had received when no whole line was there
        self._speaker: Optional[RankLog] = None
        self._buffer = bytearray(_CHUNK_BYTES)
        self.ranks = 0

    @property
    def is_closed(self) -> bool:
        return self._sink.is_closed

    @property
    def is_behind(self) -> bool:
        """Something that was said has not been shown yet."""
        return not self._sink.is_closed and (bool(self._turns) or self._sink.is_waiting)

    def news(self, log: RankLog) -> None:
        """A rank has said something, or has ended."""
        is_worth_a_look = log.is_ended or self._looked_at.get(log.rank) != log.received
        if log.received > log.shown and is_worth_a_look and log not in self._turns:
            self._turns.append(log)

    def advance(self) -> None:
        """Show as much as the sink takes now, a chunk of each rank in turn."""
        while self._turns and not self._sink.is_waiting:
            log = self._turns.pop(0)
            count = self._next(log)
            if count:
                self._say(log, count)
                log.show(count)
            self.news(log)

    def _next(self, log: RankLog) -> int:
        """Load the buffer; how much of it may be shown: whole lines, or nothing when a line's end is awaited."""
        count = log.read_into(self._buffer)
        cut = self._buffer.rfind(b"\n", 0, count) + 1
        if self._style.terminal:
            cut = max(cut, self._buffer.rfind(b"\r", 0, count) + 1)
        if cut:
            return cut
        if log.is_ended or self._sink.is_closed or count == _CHUNK_BYTES:
            return count
        if self.ranks == 1 and self._buffer.find(b"\r", 0, count) < 0:
            return count  # alone, even a prompt without a line end can be shown
        self._looked_at[log.rank] = log.received
        return 0

    def _say(self, log: RankLog, count: int) -> None:
        """Show the first `count` bytes of the buffer, without a copy where they stay as they are."""
        continues = not self._sink.at_line_start and self._speaker is log
        if not self._sink.at_line_start and not continues and self._speaker is not None:
            self._sink.write(b"\n")
        self._speaker = log
        with memoryview(self._buffer) as view:
            if self._style.changes_nothing and self._buffer.find(b"\r", 0, count) < 0:
                self._sink.write(view[:count])
            else:
                self._sink.write(self._style.dress(log.rank, bytes(view[:count]), continues))


def _last_state(line: bytes) -> bytes:
    """What stands of a line when all its overwriting is done; a "\\r" at its end belongs to the line end."""
    body = line.rstrip(b"\r")
    return body[body.rfind(b"\r") + 1 :] + (b"\r" if line.endswith(b"\r") else b"")
