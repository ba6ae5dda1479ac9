"""Reads /etc/hccn.conf, where hccn_tool keeps what was set: `address_0=192.168.100.101`, one key a line.

The number is the physical id. The file may be stale (the card is the truth), and it may be missing: most
containers have none. Keys come in any order and unknown ones are many.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, numbered_lines, whole_number
from davincirun.values import Value


class CardNetwork(Value):
    """What the file says of one card."""

    address: Optional[str] = None
    netmask: Optional[str] = None
    gateway: Optional[str] = None
    netdetect: Optional[str] = None


class HccnConf(Value):
    """The file: cards by physical id."""

    cards: Dict[int, CardNetwork]
    problems: Tuple[Problem, ...] = ()


def read_hccn_conf(text: str) -> HccnConf:
    """The cards in `text`; of a key that comes twice the last counts, as the tool appends what it changes."""
    cards: Dict[int, CardNetwork] = {}
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        key, equals, value = line.strip().partition("=")
        if key.startswith("#"):
            continue
        if not equals:
            problems.append(Problem(number, line, "not key=value"))
            continue
        field, _, suffix = key.strip().rpartition("_")
        device_id = whole_number(suffix)
        if field in CardNetwork._fields and device_id is not None and value.strip():
            cards[device_id] = cards.get(device_id, CardNetwork())._replace(**{field: value.strip()})
    return HccnConf(cards, tuple(problems))
