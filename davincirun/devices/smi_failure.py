"""Explains why npu-smi failed. Its errors come on standard output as well as on standard error.

None of them says how many cards there are: the tool fails in containers whose cards work.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from davincirun.devices.reading import numbered_lines
from davincirun.values import Value

_MEANINGS = (  # a part of the line, what it means and what to do
    ("ret is -8005", "the driver can't be opened: no /dev/davinci_manager here, or the user isn't in group HwHiAiUser"),
    ("ret is -8020", "another container uses one of the cards: share none, or start the container with --privileged"),
    ("ret is -9005", "the board query is refused, which is usual under docker's Ascend runtime"),
    ("libdrvdsmi_host.so", "the driver's lib64/driver is not in LD_LIBRARY_PATH, or the driver is not mounted"),
    ("libc_sec.so", "the driver's lib64/common is not in LD_LIBRARY_PATH, or the driver is not mounted"),
    ("cannot open shared object file", "a library of the driver is missing: mount /usr/local/Ascend/driver"),
    ("Invalid card id", "the card is lost: it has dropped off the PCIe bus"),
    ("There is no NPU card", "the driver sees no card"),
    ("Failed to get card number", "the driver can't count its cards"),
    ("does not support querying", "this kind of card has no such query"),
    ("Error parameter of", "this driver's npu-smi doesn't know the query"),
    ("command not found", "npu-smi is not on PATH"),
    ("No such file or directory", "npu-smi is not there"),
    ("drvRetCode=87", "the container lacks a mount of the driver"),
    ("can be executed only by the root user", "the query is root's"),
    ("cannot be executed on", "the query is refused here"),
)


class SmiFailure(Value):
    """What went wrong, from the tool's own words."""

    codes: Tuple[int, ...]  # the driver's, as -8005; most failures have none
    text: str  # the line that says it
    meaning: str  # plain words; empty for a line that is not known


def read_failure(text: str) -> Optional[SmiFailure]:
    """The failure that `text` reports, or None if no line of it is one we know."""
    codes: List[int] = []
    known: Optional[Tuple[str, str]] = None
    for _, line in numbered_lines(text):
        codes += _codes(line)
        meaning = next((meaning for part, meaning in _MEANINGS if part in line), None)
        if meaning is not None and known is None:
            known = line.strip(), meaning
    return SmiFailure(tuple(codes), *known) if known else None


def _codes(line: str) -> Tuple[int, ...]:
    _, found, rest = line.partition("ret is -")
    digits = rest.split(None, 1)[0].rstrip(".") if rest.strip() else ""
    return (-int(digits),) if found and digits.isdigit() and digits.isascii() and len(digits) <= 6 else ()
