"""The meeting point at node 0: gathers the nodes, spreads the agreement, and relays the first failure to all."""

from __future__ import annotations

import base64
import selectors
import socket
import time
from contextlib import suppress
from typing import Any, Dict, Optional

from davincirun.lifecycle import NO_NODE, NodeFailed
from davincirun.pausing import Schedule
from davincirun.rendezvous import agreement as agreements
from davincirun.rendezvous import sockets, wire
from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.contribution import Contribution, from_json
from davincirun.rendezvous.liaison import Leave, Meeting, Orders, Tell
from davincirun.rendezvous.members import Member, Members
from davincirun.rendezvous.news import Done, Progress, Warned, failure_from_json, failure_to_json
from davincirun.rendezvous.progress import timed_out, waiting_for
from davincirun.rendezvous.roll import Roll
from davincirun.rendezvous.terms import Terms

_HELLO_SECONDS = 10.0  # for a stranger to prove that it knows the key
_MOST_STRANGERS = 512
_READ_BYTES = 1 << 18


class Connection:
    """One accepted connection: a stranger until its first message is right."""

    def __init__(self, server_socket: socket.socket, our_hello: bytes) -> None:
        self.socket = server_socket
        self.hello = our_hello
        self.since = time.monotonic()
        self.wire: Optional[wire.Wire] = None
        self.greeting = b""
        self.member: Optional[Member] = None
        self.unsent = bytearray(our_hello)


class Server(Meeting):
    """Node 0's side."""

    def __init__(self, place: sockets.Place, mine: Optional[Contribution], terms: Terms) -> None:
        self._place = place
        self._mine = mine  # None: it is held for others, and is no node
        self._terms = terms
        self._roll = Roll(terms.node_count, terms.hosts)
        self._members = Members(terms.silence_seconds, is_strict=terms.agrees)
        self._selector = selectors.DefaultSelector()
        self._strangers: Dict[Connection, None] = {}  # the oldest first
        self._agreed: Optional[bytes] = None
        self._verdict: Optional[NodeFailed] = None
        self._outcome: Optional[Dict[str, Any]] = None  # instead of an agreement: why there is none

    def open(self) -> None:
        """Listen; `put` does it otherwise."""
        self._listener = sockets.listen(self._place)

    def put(self, orders: Orders) -> None:
        if not hasattr(self, "_listener"):
            self.open()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(orders.fd, selectors.EVENT_READ, orders)
        problem = None if self._mine is None else self._roll.add(self._mine)
        if problem:
            raise RendezvousError(problem)

    @property
    def port(self) -> int:
        """Where it listens, once it does."""
        return int(self._listener.getsockname()[1])

    def wait_for_all(self, orders: Orders, tell: Tell) -> Optional[Agreement]:
        if not self._terms.agrees:
            return None
        schedule = Schedule(self._terms.timeout_seconds)
        try:
            while not self._roll.is_complete:
                if schedule.is_over:
                    raise RendezvousError(timed_out(schedule, self._roll.missing()))
                if schedule.is_due():
                    text = waiting_for(schedule, self._roll.missing())
                    tell(Progress(text))
                    self._spread({"progress": text})
                self._turn(schedule.pause_seconds, tell)
                if orders.take():
                    raise Leave
            agreement = agreements.combine(self._roll.contributions)
        except RendezvousError as error:
            self._outcome = {"refused": str(error)}
            self._spread(self._outcome)
            self._flush(1.0)
            raise
        self._roll.is_closed = True
        self._agreed = agreements.dumps(agreement)
        self._members.number(agreement)
        self._spread(self._agreed_message())
        return agreement

    def watch(self, orders: Orders, tell: Tell) -> None:
        is_done = False
        while not (is_done and (not self._terms.agrees or not self._members.expected())):
            self._turn(self._members.pause_seconds(), tell)
            for order in orders.take():
                if isinstance(order, Done):
                    is_done = True
                else:
                    self._decide(order, tell)
            for gone in self._members.given_up():
                if gone.is_failure:
                    self._forget_a_stop_by_mpirun()
                    self._decide(gone.failure(), tell)
                else:
                    tell(Warned(gone.warning()))
        self._spread({"bye": True})
        self._flush(1.0)

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Connection):
                key.data.socket.close()
        self._selector.close()
        if hasattr(self, "_listener"):
            self._listener.close()

    @property
    def are_all_done(self) -> bool:
        """Whether every node has come and has ended well, or was told of a failure."""
        return self._agreed is not None and not self._members.expected()

    def _agreed_message(self) -> Dict[str, Any]:
        return {
            "agreed": base64.b64encode(self._agreed or b"").decode("ascii"),
            "by": "" if self._mine is None else self._mine.nonce,
        }

    def _decide(self, failure: NodeFailed, tell: Tell) -> None:
        """The first failure to be heard of is everybody's."""
        if self._verdict is None:
            lost = self._members.first_lost() if failure.is_by_signal else None
            failure = failure if lost is None else lost.failure()
            self._verdict = failure
            tell(failure)
            self._spread({"failed": failure_to_json(failure)})

    def _forget_a_stop_by_mpirun(self) -> None:
        """It may be the faster one to lose a node: it has stopped a launcher before we knew why."""
        verdict = self._verdict
        if self._mine is None and verdict is not None and verdict.is_by_signal and verdict.node_rank != NO_NODE:
            self._verdict = None

    def _turn(self, seconds: Optional[float], tell: Tell) -> None:
        """Wait for something to happen, and deal with it."""
        if self._strangers:
            seconds = min(_HELLO_SECONDS if seconds is None else seconds, _HELLO_SECONDS)
        for key, events in self._selector.select(seconds):
            if key.data is None:
                self._accept()
            elif isinstance(key.data, Connection):
                self._serve(key.data, events, tell)
        while self._strangers and time.monotonic() - next(iter(self._strangers)).since > _HELLO_SECONDS:
            self._drop(next(iter(self._strangers)))

    def _accept(self) -> None:
        try:
            while True:
                accepted, _ = self._listener.accept()
                accepted.setblocking(False)
                sockets.keep_watched(accepted, self._terms.silence_seconds)
                connection = Connection(accepted, wire.hello())
                self._selector.register(accepted, selectors.EVENT_READ, connection)
                self._strangers[connection] = None
                if len(self._strangers) > max(_MOST_STRANGERS, self._terms.node_count):
                    self._drop(next(iter(self._strangers)))
                self._send(connection, b"")
        except OSError:
            return  # nobody more, or no descriptor left for the moment

    def _serve(self, connection: Connection, events: int, tell: Tell) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._send(connection, b"")
            if events & selectors.EVENT_READ:
                data = connection.socket.recv(_READ_BYTES)
                if not data:
                    self._lost(connection, is_silent=False)
                    return
                self._receive(connection, data, tell)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lost(connection, sockets.is_silence(error))
        except (wire.WireError, ValueError) as error:
            if self._terms.agrees:
                tell(Warned(f"a connection from {_peer(connection.socket)} was refused: {error}"))
            self._lost(connection, is_silent=False)

    def _receive(self, connection: Connection, data: bytes, tell: Tell) -> None:
        if connection.wire is None:
            connection.greeting += data
            if len(connection.greeting) < wire.HELLO_BYTES:
                return
            theirs, data = connection.greeting[: wire.HELLO_BYTES], connection.greeting[wire.HELLO_BYTES :]
            connection.wire = wire.Wire(self._terms.key, theirs, connection.hello, is_meeting=True)
        for message in connection.wire.feed(data):
            if not isinstance(message, dict):
                raise ValueError("a message that is no object")
            if connection.member is None:
                self._join(connection, message, tell)
            elif "failed" in message:
                self._decide(failure_from_json(message["failed"]), tell)
            elif "done" in message:
                self._members.done(connection.member)

    def _join(self, connection: Connection, message: Dict[str, Any], tell: Tell) -> None:
        one = _first_name(from_json(message.get("join")), connection.socket)
        self._say(connection, {"welcome": True})
        problem = self._roll.add(one)
        if problem:
            tell(Warned(f"refused: {problem}"))
            self._say(connection, {"refused": problem})
            return
        del self._strangers[connection]
        connection.member = self._members.join(one, connection)
        if self._outcome is not None:
            self._say(connection, self._outcome)
        if self._agreed is not None and not message.get("has_agreed"):
            self._say(connection, self._agreed_message())
        if self._verdict is not None:
            self._say(connection, {"failed": failure_to_json(self._verdict)})

    def _lost(self, connection: Connection, is_silent: bool) -> None:
        self._drop(connection)
        member = connection.member
        if member is not None and member.connection is connection:
            self._members.lost(member, is_silent)
            self._roll.remove(member.nonce)

    def _drop(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        try:
            self._selector.unregister(connection.socket)
        except (KeyError, ValueError):
            return  # it was dropped before
        connection.socket.close()

    def _spread(self, value: Any) -> None:
        for member in self._members.connected():
            self._say(member.connection, value)

    def _say(self, connection: Connection, value: Any) -> None:
        if connection.wire is not None:
            try:
                self._send(connection, connection.wire.pack(value))
            except OSError as error:
                self._lost(connection, sockets.is_silence(error))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.unsent += data
        with suppress(BlockingIOError):
            del connection.unsent[: connection.socket.send(connection.unsent)]
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.unsent else 0)
        self._selector.modify(connection.socket, wanted, connection)

    def _flush(self, seconds: float) -> None:
        """Give last words a moment to get out."""
        deadline = time.monotonic() + seconds
        while any(member.connection.unsent for member in self._members.connected()):
            left = deadline - time.monotonic()
            if left <= 0:
                return
            for key, events in self._selector.select(left):
                if isinstance(key.data, Connection) and events & selectors.EVENT_WRITE:
                    try:
                        self._send(key.data, b"")
                    except OSError:
                        self._lost(key.data, is_silent=False)


def _first_name(one: Contribution, connection: socket.socket) -> Contribution:
    """The address by which a node came is one that others can reach: where it is among its own, it goes first."""
    try:
        address = str(connection.getpeername()[0])
    except OSError:
        return one
    address = address[len("::ffff:") :] if address.startswith("::ffff:") else address
    if address in one.names[1:] and not address.startswith("127."):
        return one._replace(names=(address, *(name for name in one.names if name != address)))
    return one


def _peer(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:
        return "somewhere"
