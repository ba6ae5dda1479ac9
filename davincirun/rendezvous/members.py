"""The nodes in a meeting: who is connected, who has gone how, and when one has to be given up. It only decides."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Optional

from davincirun.lifecycle import NodeFailed
from davincirun.rendezvous.agreement import Agreement
from davincirun.rendezvous.contribution import Contribution
from davincirun.report import duration
from davincirun.values import Value

CLOSED_SECONDS = 3.0  # a launcher that lives comes back within these after its connection was closed
VANISHED_STATUS = 1


class Member:
    """One other node."""

    def __init__(self, one: Contribution, connection: Any) -> None:
        self.nonce = one.nonce
        self.node_rank = one.node_rank or 0
        self.host = one.host
        self.connection = connection
        self.is_done = False
        self.lost_since: Optional[float] = None
        self.is_silent = False


class Gone(Value):
    """A node that has been given up."""

    node_rank: int
    host: str
    seconds: float  # without it
    is_silent: bool  # nothing was heard; else its launcher's end was
    is_failure: bool

    def failure(self) -> NodeFailed:
        how = "nothing has been heard of it" if self.is_silent else "its launcher has been gone"
        return NodeFailed(
            self.node_rank, self.host, VANISHED_STATUS, problem=f"vanished: {how} for {duration(self.seconds)}"
        )

    def warning(self) -> str:
        return (
            f"node {self.node_rank} ({self.host}) can't be heard any more; the job goes on, but a failure there won't"
            " be noticed here"
        )


class Members:
    """All other nodes that have come. Strict: silence is a failure; else only an ended launcher is one."""

    def __init__(self, silence_seconds: float, is_strict: bool, now: Callable[[], float] = time.monotonic) -> None:
        self._silence_seconds = silence_seconds
        self._is_strict = is_strict
        self._now = now
        self._by_nonce: Dict[str, Member] = {}

    def join(self, one: Contribution, connection: Any) -> Member:
        """Enter a node, or take one back that had lost its connection."""
        member = self._by_nonce.setdefault(one.nonce, Member(one, connection))
        member.connection = connection
        member.lost_since = None
        return member

    def number(self, agreement: Agreement) -> None:
        """Call the nodes by the ranks that have been agreed on."""
        for member in self._by_nonce.values():
            member.node_rank = agreement.rank_of(member.nonce) or 0

    def lost(self, member: Member, is_silent: bool) -> None:
        member.lost_since = self._now()
        member.is_silent = is_silent

    def done(self, member: Member) -> None:
        member.is_done = True

    def connected(self) -> List[Member]:
        return [member for member in self._by_nonce.values() if member.lost_since is None]

    def expected(self) -> List[Member]:
        """Those who are still at work."""
        return [member for member in self._by_nonce.values() if not member.is_done]

    def pause_seconds(self) -> Optional[float]:
        """Until somebody may have to be given up; None: nobody is missing."""
        left = [self._patience(one) - (self._now() - one.lost_since) for one in self._missing() if one.lost_since]
        return max(min(left), 0) + 0.001 if left else None

    def given_up(self) -> List[Gone]:
        """Those whose time is over; each is named once."""
        gone = []
        for member in self._missing():
            seconds = self._now() - (member.lost_since or 0)
            if seconds >= self._patience(member):
                member.is_done = True
                silence = seconds + (self._silence_seconds if member.is_silent else 0)
                is_failure = self._silence_seconds > 0 and (self._is_strict or not member.is_silent)
                gone.append(Gone(member.node_rank, member.host, silence, member.is_silent, is_failure))
        return gone

    def _missing(self) -> List[Member]:
        return [one for one in self._by_nonce.values() if one.lost_since is not None and not one.is_done]

    def _patience(self, member: Member) -> float:
        """The kernel has already waited out a silence; a closed connection is given time to be made anew."""
        if member.is_silent:
            return 0.0
        return min(CLOSED_SECONDS, self._silence_seconds) if self._is_strict else self._silence_seconds
