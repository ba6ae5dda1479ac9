"""A meeting over a place where all launchers can read and write small values: a shared directory, or etcd.

    leader                 who gathers: its nonce, a beat that goes on changing, who is still missing
    <nonce>/nodes/<node>   a contribution, laid down for the gathering of that very leader
    <nonce>/agreed         the agreement; failed-to-agree: why there is none
    <nonce>/refused-<n>    why the launcher with that nonce isn't taken
    <nonce>/beat           of the leader: a value that goes on changing while it lives; `done` after
    <nonce>/beats/<rank>   the same of each other node
    <nonce>/failed         the first failure; whoever creates it first is right, everywhere

Node 0 gathers; without node ranks, whoever comes first. Only the leader reads what all others wrote, and all others
read what the leader wrote, so the work grows with the number of nodes, not with its square. No clocks are compared
and nothing is locked: what a crashed run of the same name has left behind is told by a beat that doesn't change.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Dict, Optional

from davincirun.pausing import Schedule
from davincirun.rendezvous import agreement as agreements
from davincirun.rendezvous import contribution as contributions
from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.contribution import Contribution
from davincirun.rendezvous.liaison import Leave, Meeting, Orders, Tell
from davincirun.rendezvous.news import Progress, Warned
from davincirun.rendezvous.progress import timed_out, waiting_for
from davincirun.rendezvous.roll import Roll, come_already, node_title
from davincirun.rendezvous.store import Store, StoreError
from davincirun.rendezvous.store_watch import Watch
from davincirun.rendezvous.terms import Terms

BEAT_SECONDS = 0.5  # of a leader that gathers
ASK_SECONDS = 5.0  # how late a follower may learn that another leads now
_REST = 4  # times as long as looking took
STALE_SECONDS = 2.5  # without a new beat


class StoreMeeting(Meeting):
    """One launcher in a meeting over a store."""

    def __init__(self, store: Store, mine: Contribution, terms: Terms) -> None:
        self._store = store
        self._mine = mine
        self._terms = terms
        self._roll = Roll(terms.node_count, terms.hosts)
        self._leader = ""  # the nonce of the leader we gave our contribution to
        self._laid_down = ""  # what there is of ours, should we leave before the agreement
        self._was_out_of_reach = False
        self._record: Optional[bytes] = None  # the leader's, as it was last read
        self._record_since = 0.0
        self._missing = ""  # as the leader says
        self._names: Dict[str, str] = {}  # by nonce: under which name it came
        self._beat = 0
        self._agreement: Optional[Agreement] = None

    @property
    def _leads(self) -> bool:
        return self._leader == self._mine.nonce

    def put(self, orders: Orders) -> None:
        self._schedule = Schedule(self._terms.timeout_seconds)
        self._orders = orders

    def wait_for_all(self, orders: Orders, tell: Tell) -> Optional[Agreement]:
        while self._agreement is None:
            try:
                self._look_for_a_leader(tell)
                if self._leads:
                    self._gather(tell)
                else:
                    self._follow(tell)
            except StoreError as error:
                self._out_of_reach(error, tell)
        return self._agreement

    def close(self) -> None:
        if self._agreement is None and self._laid_down:
            with suppress(StoreError):
                self._store.remove(self._laid_down)
        self._store.close()

    def _out_of_reach(self, error: StoreError, tell: Tell) -> None:
        """Begin anew when it is back: all that was laid down is still there, or is laid down again."""
        problem = f"{self._store}: {error}"
        if error.is_final or self._schedule.is_over:
            raise RendezvousError(problem)
        if self._leader or not self._was_out_of_reach:
            tell(Progress(f"{problem}; trying again"))
        self._was_out_of_reach = True
        self._leader = ""
        if self._orders.take():
            raise Leave
        self._orders.wait([], BEAT_SECONDS)

    def _look_for_a_leader(self, tell: Tell) -> None:
        may_lead = self._mine.node_rank in (0, None)
        seen: Optional[bytes] = None
        since = 0.0
        while True:
            self._pass_time(tell, node_title(0, self._terms.hosts) if not may_lead else "a leader")
            if may_lead and self._store.create("leader", self._leader_record()):
                self._follow_from_now(self._mine.nonce)
                return
            record = self._store.get("leader")
            if record is not None and record != seen:
                is_alive, seen, since = seen is not None, record, time.monotonic()
                leader = json.loads(record.decode("ascii"))
                if leader["nonce"] == self._mine.nonce:
                    self._follow_from_now(self._mine.nonce)
                    return
                if leader["nonce"] != self._leader and (is_alive or not may_lead):
                    if self._mine.node_rank == 0:
                        raise RendezvousError(come_already(self._mine._replace(host=leader["host"], pid=leader["pid"])))
                    self._missing = leader["missing"]
                    self._follow_from_now(leader["nonce"])
                    return
            elif may_lead and seen is not None and time.monotonic() - since > STALE_SECONDS:
                self._store.remove(json.loads(seen.decode("ascii"))["nonce"])
                self._store.put("leader", self._leader_record())
                self._follow_from_now(self._mine.nonce)
                return
            self._store.wait("", self._orders, BEAT_SECONDS)

    def _follow_from_now(self, nonce: str) -> None:
        self._leader = nonce
        if self._leads:
            self._laid_down = "leader"

    def _leader_record(self) -> bytes:
        self._beat += 1
        return json.dumps(
            {
                "nonce": self._mine.nonce,
                "host": self._mine.host,
                "pid": self._mine.pid,
                "beat": self._beat,
                "missing": self._roll.missing(),
            }
        ).encode("ascii")

    def _pass_time(self, tell: Tell, missing: str) -> None:
        """What every wait before the agreement does: progress, the time-out, the launcher's own wish to leave."""
        self._store.stay()
        if self._schedule.is_over:
            raise RendezvousError(timed_out(self._schedule, missing))
        if self._schedule.is_due():
            tell(Progress(waiting_for(self._schedule, missing)))
        if self._orders.take():
            raise Leave

    def _gather(self, tell: Tell) -> None:
        """Enter all who come; the agreement when they are complete. Returns without one when another leader came."""
        self._roll.add(self._mine)
        said, next_beat = "", 0.0
        try:
            while not self._roll.is_complete:
                missing = self._roll.missing()
                self._pass_time(tell, missing)
                if missing != said or time.monotonic() >= next_beat:
                    if not self._still_leads():
                        return
                    self._store.put("leader", self._leader_record())
                    said, next_beat = missing, time.monotonic() + BEAT_SECONDS
                looked = time.monotonic()
                self._enter(tell)
                if self._roll.is_complete:
                    self._strike_off_who_left()
                elif self._roll.missing() == missing:
                    self._store.wait(f"{self._leader}/nodes", self._orders, next_beat - time.monotonic())
                else:  # many come at once: not one look for each of them
                    self._orders.wait([], min(_REST * (time.monotonic() - looked), BEAT_SECONDS))
            agreement = agreements.combine(self._roll.contributions)
        except RendezvousError as error:
            self._store.put(f"{self._leader}/failed-to-agree", str(error).encode("utf-8", "replace"))
            self._store.remove("leader")
            raise
        self._roll.is_closed = True
        self._store.put(f"{self._leader}/agreed", agreements.dumps(agreement))
        self._agreement = agreement

    def _still_leads(self) -> bool:
        record = self._store.get("leader")
        if record is not None and json.loads(record.decode("ascii"))["nonce"] != self._mine.nonce:
            self._leader = ""
            self._roll = Roll(self._terms.node_count, self._terms.hosts)
            return False
        return True

    def _enter(self, tell: Tell) -> None:
        for name, data in sorted(self._store.news_in(f"{self._leader}/nodes", are_final=True).items()):
            try:
                one = contributions.loads(data)
            except ValueError as error:
                tell(Warned(f"refused: {name}: {error}"))
                continue
            self._names[one.nonce] = name
            problem = self._roll.add(one)
            if problem:
                tell(Warned(f"refused: {problem}"))
                self._store.put(f"{self._leader}/refused-{one.nonce}", problem.encode("utf-8"))

    def _strike_off_who_left(self) -> None:
        """Some may have given up while we waited for the last."""
        there = self._store.names_in(f"{self._leader}/nodes")
        for one in self._roll.contributions:
            if one.nonce != self._mine.nonce and self._names.get(one.nonce) not in there:
                self._roll.remove(one.nonce)

    @property
    def _own_name(self) -> str:
        return str(self._mine.nonce if self._mine.node_rank is None else self._mine.node_rank)

    def _follow(self, tell: Tell) -> None:
        """Contribute, and wait for the answer. Returns without an agreement when the leader was a stale one's."""
        name = f"{self._leader}/nodes/{self._own_name}"
        if not self._store.create(name, contributions.dumps(self._mine)):
            there = self._store.get(name)
            if there is not None and contributions.loads(there).nonce != self._mine.nonce:
                if self._leader_lives(tell):
                    raise RendezvousError(come_already(contributions.loads(there)))
                return
        self._laid_down = name
        next_question = time.monotonic() + ASK_SECONDS
        pause = self._store.first_pause_seconds
        while True:
            if time.monotonic() >= next_question or not self._schedule.pause_seconds:
                if not self._leader_says_who_is_missing():
                    return
                next_question = time.monotonic() + ASK_SECONDS
            self._pass_time(tell, self._missing)
            for last, data in self._store.news_in(self._leader).items():
                if last == "agreed":
                    self._accept(data, tell)
                    return
                if last == "failed-to-agree":
                    raise RendezvousError(data.decode("utf-8", "replace"))
                if last == f"refused-{self._mine.nonce}":
                    raise RendezvousError(data.decode("utf-8", "replace"))
            self._store.wait(self._leader, self._orders, min(pause, self._schedule.pause_seconds))
            pause = min(pause * 1.5, self._store.look_seconds)

    def _leader_says_who_is_missing(self) -> bool:
        """False: it is another leader than ours that says something."""
        now = time.monotonic()
        record = self._store.get("leader")
        if record is None:
            return True
        if record != self._record:
            self._record, self._record_since = record, now
        leader = json.loads(record.decode("ascii"))
        is_silent = now - self._record_since > STALE_SECONDS
        self._missing = f"{leader['host']}, which gathers the others" if is_silent else leader["missing"]
        return bool(leader["nonce"] == self._leader)

    def _accept(self, data: bytes, tell: Tell) -> None:
        """Take the agreement; one without us is an old run's, if its leader has no beat, else we are one too many."""
        agreement = agreements.loads(data)
        if agreement.rank_of(self._mine.nonce) is not None:
            self._agreement = agreement
        elif self._leader_lives(tell):
            raise RendezvousError(self._roll.too_late(self._mine))

    def _leader_lives(self, tell: Tell) -> bool:
        """Whether the leader we follow has a beat."""
        record = self._store.get("leader")
        deadline = time.monotonic() + STALE_SECONDS
        while time.monotonic() < deadline:
            self._pass_time(tell, node_title(0, self._terms.hosts))
            self._store.wait("", self._orders, BEAT_SECONDS)
            now = self._store.get("leader")
            if now is not None and now != record:
                return bool(json.loads(now.decode("ascii"))["nonce"] == self._leader)
        return False

    def watch(self, orders: Orders, tell: Tell) -> None:
        if self._agreement is None:
            return
        watch = Watch(self._store, self._leader, self._agreement, self._mine.nonce, self._terms.silence_seconds)
        next_beat = 0.0
        while True:
            try:
                self._store.stay()
                if self._leads and time.monotonic() >= next_beat:
                    self._store.put("leader", self._leader_record())  # so that who comes too late knows us alive
                    next_beat = time.monotonic() + 2 * BEAT_SECONDS
                    self._enter(tell)
                if watch.look(orders.take(), tell):
                    self._tidy(watch)
                    return
            except StoreError as error:
                if watch.out_of_reach(str(error), tell):
                    return
            pause = min(self._store.look_seconds, watch.beat_seconds)
            self._store.wait(self._leader, orders, min(pause, 2 * BEAT_SECONDS) if self._leads else pause)

    def _tidy(self, watch: Watch) -> None:
        """The leader removes the run's traces; after a failure the others may still have to read of it."""
        if self._leads:
            self._store.remove("leader" if watch.verdict is not None else "")
