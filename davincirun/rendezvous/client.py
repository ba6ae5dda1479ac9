"""Every other node's side of the meeting point at node 0."""

from __future__ import annotations

import base64
import os
import socket
import time
from typing import Any, Dict, Iterator, List, Optional

from davincirun.lifecycle import NO_NODE, NodeFailed
from davincirun.pausing import Schedule
from davincirun.rendezvous import agreement as agreements
from davincirun.rendezvous import sockets, wire
from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.contribution import Contribution, to_json
from davincirun.rendezvous.liaison import Leave, Meeting, Orders, Tell
from davincirun.rendezvous.members import CLOSED_SECONDS, Gone
from davincirun.rendezvous.news import Done, Progress, Warned, failure_from_json, failure_to_json
from davincirun.rendezvous.progress import timed_out, waiting_for
from davincirun.rendezvous.roll import node_title
from davincirun.rendezvous.terms import Terms

_ANSWER_SECONDS = 20.0
_VERDICT_SECONDS = 0.8
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_PATIENT_PAUSE_SECONDS = 30.0  # between tries where a meeting may well not exist
_READ_BYTES = 1 << 18


class Client(Meeting):
    """One node that isn't node 0."""

    def __init__(self, place: sockets.Place, mine: Contribution, terms: Terms) -> None:
        self._place = place
        self._mine = mine
        self._terms = terms
        self._host_of_point = terms.hosts[0] if terms.hosts else place.hosts[0]
        self._rank_of_point = 0
        self._socket: Optional[socket.socket] = None
        self._wire: Optional[wire.Wire] = None
        self._agreement: Optional[Agreement] = None
        self._verdict: Optional[NodeFailed] = None
        self._ours: Optional[NodeFailed] = None  # our own failure, to be told
        self._early: List[Any] = []  # messages that came with the welcome
        self._lost_since: Optional[float] = None
        self._was_refused = False  # its machine answered that nobody listens
        self._is_silent = False
        self._attempt = 0
        self._pause = _FIRST_PAUSE_SECONDS
        self._next_try = 0.0
        self._why = "no answer yet"

    def put(self, orders: Orders) -> None:
        self._try_to_join()

    def wait_for_all(self, orders: Orders, tell: Tell) -> Optional[Agreement]:
        if not self._terms.agrees:
            return None
        schedule = Schedule(self._terms.timeout_seconds + 2.0)  # node 0, if it is there, is the one to say why
        while self._agreement is None:
            missing = f"{node_title(0, self._terms.hosts)} at {self._place} ({self._why})"
            if schedule.is_over:
                raise RendezvousError(timed_out(Schedule(self._terms.timeout_seconds), missing))
            if schedule.is_due() and self._socket is None:
                tell(Progress(waiting_for(schedule, missing)))
            for message in self._turn(orders, schedule.pause_seconds):
                if "refused" in message:
                    raise RendezvousError(str(message["refused"]))
                if "progress" in message:
                    tell(Progress(str(message["progress"])))
                if "agreed" in message:
                    self._agreement = agreements.loads(base64.b64decode(str(message["agreed"])))
                    self._note_point(self._agreement, self._agreement.rank_of(str(message["by"])))
            if orders.take():
                raise Leave
        return self._agreement

    def watch(self, orders: Orders, tell: Tell) -> None:
        while True:
            for message in self._turn(orders, self._patience_seconds()):
                if "failed" in message:
                    self._verdict = failure_from_json(message["failed"])
                    tell(self._verdict)
                elif "bye" in message:
                    return
                elif "refused" in message:
                    tell(Warned(f"node 0 refuses this node: {message['refused']}"))
                    return
            for order in orders.take():
                if isinstance(order, Done):
                    self._take_leave(orders, tell)
                    return
                self._ours = order
                self._say({"failed": failure_to_json(order)})
                self._next_try = 0.0
            if self._verdict is None and self._node_0_is_gone(tell):
                return

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _turn(self, orders: Orders, seconds: Optional[float]) -> List[Dict[str, Any]]:
        """Wait for messages, or for the time to connect (again)."""
        if self._early:
            early, self._early = self._early, []
            return [message for message in early if isinstance(message, dict)]
        if self._socket is None:
            wait = self._next_try - time.monotonic()
            orders.wait([], wait if seconds is None else min(wait, seconds))
            if time.monotonic() >= self._next_try:
                self._try_to_join()
            return []
        ready = orders.wait([self._socket.fileno()], 3600.0 if seconds is None else seconds)
        return list(self._read()) if ready else []

    def _read(self) -> Iterator[Dict[str, Any]]:
        try:
            data = self._socket.recv(_READ_BYTES) if self._socket is not None else b""
            if not data:
                raise ConnectionResetError("node 0 closed the connection")
            if self._wire is not None:
                yield from (message for message in self._wire.feed(data) if isinstance(message, dict))
        except OSError as error:
            self._lost(error)
        except (wire.WireError, ValueError) as error:
            self._lost(OSError(str(error)))

    def _try_to_join(self) -> None:
        target = self._place.targets[self._attempt % len(self._place.targets)]
        self._attempt += 1
        try:
            connection = sockets.connect(*target)
        except OSError as error:
            self._failed_to_join(error)
            return
        try:
            self._greet(connection)
        except (OSError, wire.WireError, ValueError) as error:
            connection.close()
            self._failed_to_join(error)

    def _greet(self, connection: socket.socket) -> None:
        """Say who we are, and have it proved that the other side is this job's: only that can say welcome."""
        connection.settimeout(_ANSWER_SECONDS)
        ours = wire.hello()
        connection.sendall(ours)
        theirs = b""
        while len(theirs) < wire.HELLO_BYTES:
            theirs += _some(connection, wire.HELLO_BYTES - len(theirs))
        channel = wire.Wire(self._terms.key, ours, theirs, is_meeting=False)
        join = {"join": to_json(self._mine), "has_agreed": self._agreement is not None}
        connection.sendall(channel.pack(join))
        while not self._early:
            self._early = list(channel.feed(_some(connection, _READ_BYTES)))
        sockets.keep_watched(connection, self._terms.silence_seconds)
        self._socket, self._wire, self._lost_since, self._pause = connection, channel, None, _FIRST_PAUSE_SECONDS
        self._was_refused = False
        if self._ours is not None:
            self._say({"failed": failure_to_json(self._ours)})

    def _failed_to_join(self, error: Exception) -> None:
        """Try the next address at once; after all of them, pause."""
        if isinstance(error, ConnectionRefusedError):
            self._was_refused = True
        self._why = (
            str(error)
            if not isinstance(error, OSError)
            else (os.strerror(error.errno or 0) if error.errno else str(error))
        )
        if self._attempt % len(self._place.targets) == 0:
            longest = _LONGEST_PAUSE_SECONDS if self._terms.agrees else _PATIENT_PAUSE_SECONDS
            self._next_try = time.monotonic() + self._pause
            self._pause = min(self._pause * 1.5, longest)

    def _lost(self, error: OSError) -> None:
        self.close()
        self._is_silent = sockets.is_silence(error)
        self._lost_since = time.monotonic()
        self._pause = _FIRST_PAUSE_SECONDS
        self._next_try = 0.0
        self._why = "the connection was lost"

    def _say(self, value: Any) -> None:
        if self._socket is not None and self._wire is not None:
            try:
                self._socket.sendall(self._wire.pack(value))
            except OSError as error:
                self._lost(error)

    def _note_point(self, agreement: Agreement, rank: Optional[int]) -> None:
        """Whose end the meeting point's end is: a node's, or that of the launcher that started all."""
        self._rank_of_point = NO_NODE if rank is None else rank
        self._host_of_point = self._place.hosts[0] if rank is None else agreement.nodes[rank].host

    def _patience_seconds(self) -> Optional[float]:
        """How long node 0 may still be away; None while it isn't."""
        if self._lost_since is None or self._verdict is not None or self._terms.silence_seconds <= 0:
            return None
        patience = self._terms.silence_seconds
        if self._terms.agrees:
            patience = 0.0 if self._is_silent else min(CLOSED_SECONDS, patience)
        return max(self._lost_since + patience - time.monotonic(), 0.0)

    def _node_0_is_gone(self, tell: Tell) -> bool:
        """Whether node 0 has to be given up, which is told; where only the table is common, silence isn't enough."""
        if self._lost_since is None or self._patience_seconds() != 0.0:
            return False
        seconds = time.monotonic() - self._lost_since + (self._terms.silence_seconds if self._is_silent else 0)
        is_failure = self._terms.agrees or (self._was_refused and not self._is_silent)
        gone = Gone(self._rank_of_point, self._host_of_point, seconds, self._is_silent, is_failure)
        tell(gone.failure() if is_failure else Warned(gone.warning()))
        return True

    def _take_leave(self, orders: Orders, tell: Tell) -> None:
        """Say that we are done. After a failure, hear who was first, and go when all may: an engine kills the rest."""
        deadline = time.monotonic() + (self._terms.linger_seconds if self._terms.agrees else _VERDICT_SECONDS)
        if self._verdict is not None or self._ours is None:
            self._say({"done": True})
        while (self._ours or self._verdict) and time.monotonic() < deadline and self._lost_since is None:
            for message in self._turn(orders, deadline - time.monotonic()):
                if "failed" in message and self._verdict is None:
                    self._verdict = failure_from_json(message["failed"])
                    tell(self._verdict)
                    self._say({"done": True})
                if "bye" in message:
                    return
            if self._verdict is not None and not self._terms.agrees:
                return


def _some(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(most)
    if not data:
        raise ConnectionAbortedError(
            "it closed the connection: it belongs to another job, or its DAVINCIRUN_RENDEZVOUS_KEY differs from ours"
        )
    return data
