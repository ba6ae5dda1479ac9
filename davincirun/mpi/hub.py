"""Node 0's end of all connections: what the shims report and print, and the other nodes' launchers.

Three kinds of peers introduce themselves: a `shim` says how its worker ended and takes orders, its `output` brings
what the rank prints, a `node` is another node's launcher, which waits for the job's end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
from typing import Dict, List, Optional, Union

from davincirun.lifecycle import Exit
from davincirun.mpi.summary import Fate
from davincirun.mpi.wire import Lines, Message, keep_alive, line, proof, same
from davincirun.sink import Sink
from davincirun.values import Value

_READ_BYTES = 1 << 17
_LONGEST_LINE_BYTES = 1 << 18  # a longer one comes in pieces, as from any rank's console


class Arrived(Value):
    """A rank's shim is there."""

    rank: int


class Reported(Value):
    """A rank's worker has ended."""

    rank: int
    exit: Exit
    seconds: float


class Refused(Value):
    """A rank's worker can't be started; `status` as a shell has it."""

    rank: int
    status: int
    problem: str


class Lost(Value):
    """A shim's connection broke before it had reported its worker's end."""

    rank: int
    problem: str


class NodeArrived(Value):
    """Another node's launcher is there."""

    node_rank: int


class NodeSignalled(Value):
    """Another node's launcher was told to end."""

    node_rank: int
    signum: int


Heard = Union[Arrived, Reported, Refused, Lost, NodeArrived, NodeSignalled]


class _Peer:
    def __init__(self, sock: socket.socket, address: str, challenge: str) -> None:
        self.sock = sock
        self.address = address
        self.challenge = challenge
        self.lines = Lines()
        self.kind = ""  # until it has proved the key
        self.number = -1  # rank, or index of the node
        self.text = b""  # of an output: what has no line end yet


class Hub:
    """All peers of one job."""

    def __init__(self, poll: select.epoll, listening: socket.socket, run_key: str, job_key: str, out: Sink) -> None:
        self._poll = poll
        self._listening = listening
        self._keys = {"shim": run_key, "output": run_key, "node": job_key}
        self._out = out
        self.run_key = run_key
        self._peers: Dict[int, _Peer] = {}
        self._paused: List[_Peer] = []
        self._shims: Dict[int, _Peer] = {}
        self._nodes: Dict[int, _Peer] = {}
        self._order: Optional[Message] = None  # for those that come late
        self._reported: Dict[int, bool] = {}
        self.fates: Dict[int, Fate] = {}  # of all ranks whose shim has been there
        poll.register(listening.fileno(), select.EPOLLIN)

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def nodes(self) -> List[int]:
        """The other nodes whose launchers are there."""
        return sorted(self._nodes)

    @property
    def is_busy(self) -> bool:
        """A shim is still there, or something that a rank printed is under way."""
        return any(peer.kind in ("shim", "output") for peer in self._peers.values())

    def is_there(self, rank: int) -> bool:
        return rank in self._shims

    def has_been_there(self, rank: int) -> bool:
        return rank in self.fates

    def owns(self, fd: int) -> bool:
        return fd in self._peers or fd == self._listening.fileno()

    def receive(self, fd: int) -> List[Heard]:
        """Take what a readable descriptor has."""
        if fd == self._listening.fileno():
            self._accept()
            return []
        peer = self._peers[fd]
        try:
            data = peer.sock.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            problem = os.strerror(error.errno or 0)
            if error.errno not in (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
                return self._gone(peer, problem)
            # The machine is dark; its other connections would only be found out one after the other.
            there = [other for other in self._peers.values() if other.address == peer.address]
            return [event for other in there for event in self._gone(other, problem)]
        if not data:
            return self._gone(peer, "the connection was closed")
        if peer.kind == "output":
            self._relay(peer, data)
            return []
        try:
            return [event for message in peer.lines.feed(data) for event in self._heard(peer, message)]
        except (ValueError, KeyError, TypeError):
            return self._gone(peer, "it sent something that can't be understood")

    def tell(self, order: Message) -> None:
        """Send an order to all shims, those to come included."""
        self._order = order
        for peer in self._shims.values():
            self._send(peer, order)

    def pass_on(self, message: Message) -> None:
        """Send something to the shims that are there."""
        for peer in self._shims.values():
            self._send(peer, message)

    def advance(self) -> None:
        """Go on with the ranks whose output had to wait for the console."""
        while self._paused and not self._out.is_waiting:
            peer = self._paused.pop()
            if peer.sock.fileno() in self._peers:
                self._poll.modify(peer.sock.fileno(), select.EPOLLIN)

    def end(self, status: int) -> None:
        """Tell the other nodes how the job ended, and close everything."""
        for peer in self._nodes.values():
            self._send(peer, {"end": status})
        for peer in list(self._peers.values()):
            self._close(peer)
        self._poll.unregister(self._listening.fileno())
        self._listening.close()

    def _accept(self) -> None:
        try:
            sock, address = self._listening.accept()
        except OSError:
            return  # it has gone again
        sock.setblocking(False)
        keep_alive(sock)
        peer = _Peer(sock, address[0], os.urandom(16).hex())
        self._peers[sock.fileno()] = peer
        self._poll.register(sock.fileno(), select.EPOLLIN)
        self._send(peer, {"challenge": peer.challenge})

    def _heard(self, peer: _Peer, message: Message) -> List[Heard]:
        if not peer.kind:
            return self._introduced(peer, message)
        if peer.kind == "node":
            return [NodeSignalled(peer.number, int(message["signal"]))]
        if "exit" in message:
            self._reported[peer.number] = True
            self.fates[peer.number] = self.fates[peer.number]._replace(
                pid=int(message["pid"]), tail=tuple(map(str, message["tail"]))
            )
            return [Reported(peer.number, Exit(*message["exit"]), float(message["seconds"]))]
        if "refused" in message:
            self._reported[peer.number] = True
            return [Refused(peer.number, int(message["refused"]), str(message["problem"]))]
        return []

    def _introduced(self, peer: _Peer, message: Message) -> List[Heard]:
        kind, nonce, number = message["kind"], message["nonce"], int(message["number"])
        key = self._keys[kind]
        if not same(message["proof"], proof(key, "client", kind, peer.challenge, nonce)):
            raise ValueError("wrong key")
        peer.kind, peer.number = kind, number
        self._send(peer, {"proof": proof(key, "server", peer.challenge, nonce)})
        if kind == "node":
            self._nodes[number] = peer
            return [NodeArrived(number)]
        if kind == "output":
            peer.text = peer.lines.take_rest()
            return []
        self._shims[number] = peer
        self.fates[number] = Fate(str(message["host"]), -1, str(message["log_path"]))
        if self._order is not None:
            self._send(peer, self._order)
        return [Arrived(number)]

    def _gone(self, peer: _Peer, problem: str) -> List[Heard]:
        if peer.kind == "output" and peer.text:
            self._out.write(peer.text + b"\n")
        self._close(peer)
        if peer.kind == "shim" and not self._reported.get(peer.number):
            return [Lost(peer.number, problem)]
        return []

    def _close(self, peer: _Peer) -> None:
        self._poll.unregister(peer.sock.fileno())
        del self._peers[peer.sock.fileno()]
        for peers in (self._shims, self._nodes):
            if peers.get(peer.number) is peer:
                del peers[peer.number]
        peer.sock.close()

    def _relay(self, peer: _Peer, data: bytes) -> None:
        """Give the console whole lines; while it takes none, the rank's shim has to keep them."""
        text = peer.text + data
        cut = max(text.rfind(b"\n"), text.rfind(b"\r") if self._out.is_terminal else -1) + 1
        if not cut and len(text) > _LONGEST_LINE_BYTES:
            cut = len(text)
        peer.text = text[cut:]
        if cut:
            self._out.write((b"" if self._out.at_line_start else b"\n") + text[:cut])
        if self._out.is_waiting:
            self._paused.append(peer)
            self._poll.modify(peer.sock.fileno(), 0)

    def _send(self, peer: _Peer, message: Message) -> None:
        with contextlib.suppress(OSError):  # reading will tell
            peer.sock.send(line(message))  # short: a socket that doesn't take it is as good as broken
