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
_SHORTEST_BEAT_SECONDS, _LONGEST_BEAT_SECONDS = 0.05, 10.0
_ABSENT_SECONDS = 3.0  # between two looks that should be half a second apart: the store was away


class Watch:
    """What one node does about the others while its workers run."""

    def __init__(self, store: Store, round_name: str, agreement: Agreement, nonce: str, silence_seconds: float) -> None:
        self._store = store
        self._round = round_name
        self._agreement = agreement
        self._rank = agreement.rank_of(nonce) or 0
        self._leader_rank = agreement.rank_of(round_name) or 0
        self._leads = self._rank == self._leader_rank
        # All read the leader's beat and it alone reads theirs: no folder of N files is listed by N nodes.
        self._beat_name = f"{round_name}/beat" if self._leads else f"{round_name}/beats/{self._rank}"
        self._silence_seconds = silence_seconds
        self.beat_seconds = min(max(silence_seconds / 5, _SHORTEST_BEAT_SECONDS), _LONGEST_BEAT_SECONDS)
        self._heard: Dict[int, float] = {rank: time.monotonic() for rank in self._watched()}
        self._next_beat = 0.0
        self._beat = 0
        self._is_done = False
        self._reached = time.monotonic()
        self._has_warned = False
        self.verdict: Optional[NodeFailed] = None
        self._untold: List[NodeFailed] = []

    def _watched(self) -> Tuple[int, ...]:
        """The leader watches all, all watch the leader."""
        others = range(len(self._agreement.nodes)) if self._leads else (self._leader_rank,)
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
            self._store.put(self._beat_name, _DONE if self._is_done else str(self._beat).encode())
            self._next_beat = now + self.beat_seconds
            if self._leads:
                for name, value in self._store.news_in(f"{self._round}/beats").items():
                    self._hear(int(name) if name.isdigit() else -1, value)
        news = self._store.news_in(self._round)
        if "beat" in news:
            self._hear(self._leader_rank, news["beat"])
        if "failed" in news and self.verdict is None:
            self.verdict = failure_from_json(json.loads(news["failed"].decode("ascii")))
            tell(self.verdict)
        if self.verdict is None:
            self._name_the_silent()
        self._reached = now
        is_needed = self._leads and self._heard and self.verdict is None
        return self._is_done and not is_needed

    def out_of_reach(self, problem: str, tell: Tell) -> bool:
        """The store is away: the job goes on, and nobody counts as silent meanwhile. True: and we want to leave."""
        if not self._has_warned and time.monotonic() - self._reached > self._silence_seconds:
            self._has_warned = True
            tell(Warned(f"{self._store}: {problem}; until it is back, failures on other nodes aren't noticed here"))
        return self._is_done

    def _hear(self, rank: int, beat: bytes) -> None:
        if rank in self._heard:
            self._heard[rank] = time.monotonic()
            if beat == _DONE:
                del self._heard[rank]

    def _name_the_silent(self) -> None:
        now = time.monotonic()
        for rank, since in self._heard.items():
            if now - since > self._silence_seconds > 0:
                node = self._agreement.nodes[rank]
                problem = f"vanished: nothing has been heard of it for {duration(now - since)}"
                failure = NodeFailed(rank, node.host, VANISHED_STATUS, problem=problem)
                self._store.create(f"{self._round}/failed", json.dumps(failure_to_json(failure)).encode("ascii"))
                return

    def _forgive_the_others_for_our_absence(self) -> None:
        away = time.monotonic() - self._reached
        if away > self.beat_seconds + _ABSENT_SECONDS:
            self._heard = {rank: since + away for rank, since in self._heard.items()}
            self._has_warned = False
