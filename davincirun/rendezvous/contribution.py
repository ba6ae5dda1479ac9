"""What each launcher brings to the meeting: its cards, its names, and what must be alike on all nodes."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from davincirun.devices import Detected
from davincirun.values import Value

LONGEST_BYTES = 1 << 20  # a node with 1,024 cards needs a tenth of it
_LONGEST_NAME = 255
_MOST_DEVICES = 1024
_SHOWN_COMMAND = 2000


class Card(Value):
    """One card that this node offers."""

    device_id: int  # physical
    device_ip: Optional[str]
    super_device_id: Optional[str]
    eid: Optional[str] = None  # of an Ascend 950
    ports: Optional[str] = None  # of an Ascend 950, with commas between


class Contribution(Value):
    """One node's share."""

    nonce: str  # this very launcher's, unguessable
    node_rank: Optional[int]  # None: to be ordered by server id
    node_count: int
    host: str  # for people
    names: Tuple[str, ...]  # what its server may be called in the table, the best first
    cards: Tuple[Card, ...]
    super_pod_id: Optional[str]
    simulated: Optional[str]  # the SPEC of simulated cards; None: real ones
    version: str  # of davincirun
    command: str  # what its workers run, as a shell would need it
    job_id: str
    pid: int

    @property
    def title(self) -> str:
        """How messages call this node."""
        return self.host if self.node_rank is None else f"node {self.node_rank} ({self.host})"


def cards_of(detected: Detected) -> Tuple[Card, ...]:
    return tuple(
        Card(d.device_id, d.device_ip, d.super_device_id, d.eid, ",".join(d.ports) or None) for d in detected.devices
    )


def shown_command(command: Tuple[str, ...]) -> str:
    import shlex

    return " ".join(shlex.quote(word) for word in command)[:_SHOWN_COMMAND].encode("utf-8", "replace").decode()


def to_json(mine: Contribution) -> Dict[str, Any]:
    return {**mine._asdict(), "cards": [list(card) for card in mine.cards], "names": list(mine.names)}


def dumps(mine: Contribution) -> bytes:
    return json.dumps(to_json(mine)).encode("ascii")


def loads(data: bytes) -> Contribution:
    """The contribution in `data`; ValueError for whatever isn't exactly one."""
    return from_json(json.loads(data.decode("utf-8")))


def from_json(value: Any) -> Contribution:
    """The contribution in a JSON value from another machine; ValueError for whatever isn't exactly one."""
    if not isinstance(value, dict) or set(value) != set(Contribution._fields):
        raise ValueError("not a node's contribution")
    for name in ("nonce", "host", "version", "job_id"):
        _text(value, name)
    for name, longest in (("super_pod_id", _LONGEST_NAME), ("simulated", _LONGEST_NAME), ("command", _SHOWN_COMMAND)):
        if value[name] is not None or name == "command":
            _text(value, name, longest)
    for name in ("node_count", "pid"):
        _count(value[name], name)
    if value["node_rank"] is not None:
        _count(value["node_rank"], "node_rank")
    names = value["names"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError("names: wanted a list of names")
    return Contribution(**{**value, "names": tuple(names), "cards": tuple(map(_card, _devices(value["cards"])))})


def _text(value: Dict[str, Any], name: str, longest: int = _LONGEST_NAME) -> None:
    if not isinstance(value[name], str) or len(value[name]) > longest:
        raise ValueError(f"{name}: wanted a text of at most {longest} characters")


def _count(value: Any, name: str) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name}: wanted a number")


def _devices(value: Any) -> List[Any]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_DEVICES:
        raise ValueError(f"cards: wanted 1 to {_MOST_DEVICES}")
    return value


def _card(value: Any) -> Card:
    if not isinstance(value, list) or len(value) != len(Card._fields):
        raise ValueError(f"cards: wanted {len(Card._fields)} values each")
    _count(value[0], "device_id")
    if not all(text is None or (isinstance(text, str) and len(text) <= _LONGEST_NAME) for text in value[1:]):
        raise ValueError("cards: wanted texts after the id")
    return Card(*value)
