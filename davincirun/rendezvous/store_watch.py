"""The time after the agreement, over a store: one's own beat, the others' beats, the first failure."""

from __future__ import annotations

import json
import time
from typing import Dict, List, Optional, Sequence, Tuple

from davincirun.lifecycle import NodeFailed
from davincirun.rendezvous.agreement import Agreement
from davincirun.rendezvous.liaison import Tell
from davincirun.rendezvous.members import VANISHED_STATUS
from davincirun.rendezvous.news import Done, Order, Warned, failure_from_json, failure_to_json
from davincirun.rendezvous.store import Store
from davincirun.report import duration

_DONE = b"done"
_LONGEST_BEAT_SECONDS = 10.0
_ABSENT_SECONDS = 3.0  # between two looks that should be half a second apart: the store was away


class Watch:
    """What one node does about the others while its workers run."""

    def __init__(self, store: Store, round_name: str, agreement: Agreement, nonce: str, silence_seconds: float) -> None:
        self._store = store
        self._round = round_name
        self._agreement = agreement
        self._rank = agreement.rank_of(nonce) or 0
        self._leader_rank = agreement.rank_of(round_name) or 0
        self._silence_seconds = silence_seconds
        self._beat_seconds = min(max(silence_seconds / 5, 0.2), _LONGEST_BEAT_SECONDS)
        self._heard: Dict[int, float] = {rank: time.monotonic() for rank in self._watched()}
        self._next_beat = 0.0
        self._beat = 0
        self._is_done = False
        self._last_heard: Optional[bytes] = None
        self._reached = time.monotonic()
        self._has_warned = False
        self.verdict: Optional[NodeFailed] = None
        self._untold: List[NodeFailed] = []

    def _watched(self) -> Tuple[int, ...]:
        """The leader watches all, all watch the leader."""
        others = range(len(self._agreement.nodes)) if self._rank == self._leader_rank else (self._leader_rank,)
        return tuple(rank for rank in others if rank != self._rank)

    def look(self, orders: Sequence[Order], tell: Tell) -> bool:
        """One round; True when it was the last."""
        for order in orders:
            if isinstance(order, Done):
                self._is_done = True
            else:
                self._untold.append(order)
        self._forgive_the_others_for_our_absence()
        while self._untold:
            self._store.create(f"{self._round}/failed", json.dumps(failure_to_json(self._untold[0])).encode("ascii"))
            del self._untold[0]
        now = time.monotonic()
        if self._is_done or now >= self._next_beat:
            self._beat += 1
            self._store.put(f"{self._round}/beats/{self._rank}", _DONE if self._is_done else str(self._beat).encode())
            self._next_beat = now + self._beat_seconds
            self._listen(tell)
        failed = self._store.news_in(self._round).get("failed")
        if failed is not None and self.verdict is None:
            self.verdict = failure_from_json(json.loads(failed.decode("ascii")))
            tell(self.verdict)
        self._reached = now
        is_needed = self._rank == self._leader_rank and self._heard and self.verdict is None
        return self._is_done and not is_needed

    def out_of_reach(self, problem: str, tell: Tell) -> bool:
        """The store is away: the job goes on, and nobody counts as silent meanwhile. True: and we want to leave."""
        if not self._has_warned and time.monotonic() - self._reached > self._silence_seconds:
            self._has_warned = True
            tell(Warned(f"{self._store}: {problem}; until it is back, failures on other nodes aren't noticed here"))
        return self._is_done

    def _listen(self, tell: Tell) -> None:
        now = time.monotonic()
        if self._rank == self._leader_rank:
            beats = self._store.news_in(f"{self._round}/beats")
        else:
            value = self._store.get(f"{self._round}/beats/{self._leader_rank}")
            beats = {} if value is None or value == self._last_heard else {str(self._leader_rank): value}
            self._last_heard = value
        for name, value in beats.items():
            rank = int(name) if name.isdigit() else -1
            if rank in self._heard:
                self._heard[rank] = now
                if value == _DONE:
                    del self._heard[rank]
        if self._silence_seconds <= 0 or self.verdict is not None:
            return
        for rank, since in self._heard.items():
            if now - since > self._silence_seconds:
                node = self._agreement.nodes[rank]
                problem = f"vanished: nothing has been heard of it for {duration(now - since)}"
                failure = NodeFailed(rank, node.host, VANISHED_STATUS, problem=problem)
                self._store.create(f"{self._round}/failed", json.dumps(failure_to_json(failure)).encode("ascii"))
                return

    def _forgive_the_others_for_our_absence(self) -> None:
        away = time.monotonic() - self._reached
        if away > self._beat_seconds + _ABSENT_SECONDS:
            self._heard = {rank: since + away for rank, since in self._heard.items()}
            self._has_warned = False
