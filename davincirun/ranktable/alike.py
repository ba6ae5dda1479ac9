"""Big tables: most of the text is lists of devices that are all spelled alike, so one pattern, made of one, reads them.

That takes half the time of a JSON decoder, which has to make an object of each device. What is left is the skeleton:
the table's JSON, with a string, the list's mark, for the devices in each list. In JSON without escapes a string can
stand there exactly if objects can, so the table is valid if its skeleton is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional

from davincirun.ranktable.columns import ListReader
from davincirun.ranktable.document import RankTable, collector_paused, inspect
from davincirun.values import Value

_SEARCHED = 1 << 16  # characters from the middle of the text on, where a list is likely to be like the others
_LIST = re.compile(r'"devices?"[ \t\n\r]*:[ \t\n\r]*\[([^\[\]]+)\]')
_MARK = "\x7f"  # and the list's number
_VALUE = r'([^"\x00-\x1f]*)'


class Spelling(Value):
    """How a list of devices is written."""

    pattern: str  # with a group for each value but the device ids, which are the same on most servers
    device_ids: List[str]
    keys: List[str]  # of each device's other values

    @property
    def stride(self) -> int:
        """From a gap in the text that was split by the pattern to the next one."""
        return len(self.device_ids) * len(self.keys) + 1


class Folded(Value):
    """A table's text, taken apart."""

    skeleton: bytes
    spelling: Spelling
    parts: List[str]  # a gap, the values of a list device by device, and so on, and the last gap


def read(data: bytes) -> Optional[RankTable]:
    """The table in `data`, with columns for its lists of devices; None where it can't be read so, whyever."""
    with collector_paused(len(data)):
        folded = fold(data)
    if folded is None:
        return None
    unfold = _Unfolder(folded)
    try:
        table = inspect(folded.skeleton, unfold)
    except (KeyError, TypeError, AttributeError):
        return None
    if not isinstance(table, RankTable) or not unfold.is_done:
        return None
    return RankTable(table.form, table.document, data)


def fold(data: bytes) -> Optional[Folded]:
    """`data` taken apart; None where that can't be."""
    if b"\\" in data or _MARK.encode() in data:
        return None  # a quote might not be one, a mark not ours
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    middle = len(text) // 2
    sample = _LIST.search(text, middle, middle + _SEARCHED)
    spelling = spelling_of(sample.group(1)) if sample else None
    if spelling is None:
        return None
    parts = re.split(spelling.pattern, text)
    gaps = parts[:: spelling.stride]
    skeleton = "".join([f'{gap}"{_MARK}{number}"' for number, gap in enumerate(gaps[:-1])]) + gaps[-1]
    return Folded(skeleton.encode("utf-8"), spelling, parts)


def spelling_of(devices: str) -> Optional[Spelling]:
    """How `devices`, what stands in a list's brackets, is written; None if not all have the same keys, and strings."""
    try:
        decoded = json.loads(f"[{devices}]")
        keys = list(decoded[0])
        are_alike = all(list(device) == keys and set(map(type, device.values())) == {str} for device in decoded)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    pieces = devices.split('"')  # what is before a key, the key, what is before its value, the value, and so on
    if not are_alike or "device_id" not in keys or len(pieces) != 4 * len(keys) * len(decoded) + 1:
        return None
    spelled = [re.escape(piece) for piece in pieces]
    for position in range(3, len(pieces), 4):
        if pieces[position - 2] != "device_id":
            spelled[position] = _VALUE
    keys.remove("device_id")
    return Spelling('"'.join(spelled), [device["device_id"] for device in decoded], keys)


class _Unfolder:
    """The `object_hook` with which json's decoder makes a table of its skeleton; raises as `ListReader.read`."""

    def __init__(self, folded: Folded) -> None:
        self._parts = folded.parts
        self._spelling = folded.spelling
        self._number = 0  # of the next list
        self._readers = (("device", ListReader(ranked=True)), ("devices", ListReader(ranked=False)))

    def __call__(self, entry: Dict[str, Any]) -> Dict[str, Any]:
        for key, reader in self._readers:
            devices = entry.get(key)
            if devices == [f"{_MARK}{self._number}"]:
                entry[key] = reader.read_values(self._next_values())
            elif devices:
                entry[key] = reader.read(devices)
        return entry

    @property
    def is_done(self) -> bool:
        """Whether each list has been found where devices belong."""
        return self._number == (len(self._parts) - 1) // self._spelling.stride

    def _next_values(self) -> Dict[str, List[str]]:
        keys = self._spelling.keys
        gap = self._number * self._spelling.stride
        self._number += 1
        values = {"device_id": self._spelling.device_ids}
        for index, key in enumerate(keys, gap + 1):
            values[key] = self._parts[index : gap + self._spelling.stride : len(keys)]
        return values
