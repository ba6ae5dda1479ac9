"""What a meeting tells its launcher, and what the launcher tells the meeting."""

from __future__ import annotations

from typing import Any, Dict, Optional, Union

from davincirun.lifecycle import Exit, NodeFailed
from davincirun.rendezvous.agreement import Agreement
from davincirun.values import Value


class Progress(Value):
    """A wait goes on."""

    text: str


class Warned(Value):
    """Something the user should know; nothing ends because of it."""

    text: str


class Refused(Value):
    """There is no agreement for us: the text says why."""

    text: str


class Left(Value):
    """We are out of the meeting; nothing more will come."""


News = Union[Progress, Warned, Refused, Agreement, NodeFailed, Left]


class Done(Value):
    """An order: this launch is over, well or not; take leave as soon as the others allow it."""


Order = Union[NodeFailed, Done]


def failure_to_json(failure: NodeFailed) -> Dict[str, Any]:
    return {**failure._asdict(), "exit": None if failure.exit is None else list(failure.exit)}


def failure_from_json(value: Any) -> NodeFailed:
    """The failure in a JSON value from another machine; ValueError for whatever isn't one."""
    try:
        how: Optional[Exit] = None if value["exit"] is None else Exit(*value["exit"])
        failure = NodeFailed(**{**value, "exit": how})
        int(failure.node_rank), int(failure.status), float(failure.seconds or 0)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no report of a failure: {error!r}") from None
    return failure
