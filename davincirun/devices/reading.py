"""What the readers share: errors that show the line, and the few ways in which a line is taken apart.

Nothing here knows column numbers: the tools pad with minimum widths, so a long value pushes everything after it
to the right. Nothing raises on odd text, and nothing backtracks: the readers take any text in linear time.
"""

from __future__ import annotations

from typing import Iterator, List, Optional, Tuple

from davincirun.errors import DeviceError
from davincirun.values import Value

_MAXIMUM_DIGITS = 18  # what 64 bits hold; more is damage, and int() takes quadratic time over it
_SHOWN_CHARACTERS = 120


class Problem(Value):
    """A line that a reader could not understand, and left out."""

    line_number: int  # from 1
    line: str
    reason: str

    def __str__(self) -> str:
        shown = self.line.strip()
        if len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "…"
        return f"line {self.line_number}: {self.reason}: {shown!r}"


class ReaderError(DeviceError):
    """The text isn't what `tool` prints, or says that the tool failed."""

    def __init__(self, tool: str, problem: str) -> None:
        super().__init__(f"{tool}: {problem}")
        self.tool = tool
        self.problem = problem


def numbered_lines(text: str) -> Iterator[Tuple[int, str]]:
    """The lines of `text` that say something, counted from 1 over all of them.

    The tools print warnings above and below what they were asked for, `[WARNING]The driver package may not be
    completely installed, …`: these and blank lines are left out, and so is a byte order mark.
    """
    for number, line in _lines(text):
        if not line.lstrip().startswith("[WARNING]"):
            yield number, line


def first_line(text: str) -> Tuple[int, str]:
    """The first line that isn't blank, with its number; (1, "") when there is none."""
    return next(_lines(text), (1, ""))


def _lines(text: str) -> Iterator[Tuple[int, str]]:
    for number, line in enumerate(text.lstrip("\ufeff").split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip()


def unreadable(tool: str, text: str, wanted: str) -> ReaderError:
    """The error for a text in which nothing of `wanted` was found; it quotes the first line."""
    number, line = first_line(text)
    if not line:
        return ReaderError(tool, f"printed nothing, wanted {wanted}")
    return ReaderError(tool, str(Problem(number, line, f"no {wanted} here")))


def whole_number(text: str) -> Optional[int]:
    """The number that `text` spells in ASCII digits, or None."""
    if text.isdigit() and text.isascii() and len(text) <= _MAXIMUM_DIGITS:
        return int(text)
    return None


def decimal(text: str) -> Optional[float]:
    """The number that `text` spells with digits and at most one point, or None (`NA`, `-`)."""
    whole, point, fraction = text.partition(".")
    if whole_number(whole) is None or (point and whole_number(fraction) is None):
        return None
    return float(text)


def cells(line: str) -> Optional[Tuple[str, ...]]:
    """The cells of a `| a | b |` row, trimmed; None for borders and every other line."""
    line = line.strip()
    if not line.startswith("|"):
        return None
    if not line.strip("|+-= ") and line.strip("| "):
        return None  # a border between bars
    inner = line[1:-1] if line.endswith("|") and len(line) > 1 else line[1:]
    return tuple(cell.strip() for cell in inner.split("|"))


def columns(line: str) -> List[str]:
    """The columns of a header-and-rows list, which two or more blanks or a TAB part; a single blank is text."""
    return [piece.strip() for piece in line.replace("\t", "  ").split("  ") if piece.strip()]


def key_value(line: str) -> Optional[Tuple[str, str]]:
    """The key and the value of a `key : value` line, parted at the first colon; None without a colon."""
    key, colon, value = line.partition(":")
    return (key.strip(), value.strip()) if colon else None


def is_address(text: str) -> bool:
    """Whether `text` is an IPv4 or IPv6 address, with or without a zone."""
    import ipaddress  # only where cards have addresses: 3 ms

    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True
