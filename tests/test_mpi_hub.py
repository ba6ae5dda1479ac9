"""Node 0's hub and its peers: who is let in, what is heard, what is shown."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import Callable, Iterator, List

import pytest

from davincirun.errors import PlatformError
from davincirun.lifecycle import Exit
from davincirun.mpi import wire
from davincirun.mpi.hub import Arrived, Heard, Hub, Lost, NodeArrived, NodeSignalled, Refused, Reported
from davincirun.sink import Sink

KEY, JOB_KEY = "run key", "job key"
SHIM = {"kind": "shim", "number": 3, "host": "node1", "log_path": "/log"}


class Served:
    """A hub whose epoll runs in this thread while peers join in others."""

    def __init__(self, poll: select.epoll, out: Sink) -> None:
        self.poll = poll
        self.hub = Hub(poll, wire.listener("127.0.0.1", 0), KEY, JOB_KEY, out)
        self.heard: List[Heard] = []
        self._peers: List[socket.socket] = []
        self.has_ended = False

    def serve_until(self, is_over: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not is_over():
            assert time.monotonic() < deadline, self.heard
            for fd, _ in self.poll.poll(0.05):
                if self.hub.owns(fd):
                    self.heard += self.hub.receive(fd)

    def join(self, key: str, hello: wire.Message) -> socket.socket:
        """What a peer's own thread would do; raises what it raised."""
        result: list[object] = []

        def run() -> None:
            try:
                result.append(wire.join(["127.0.0.1"], self.hub.port, key, hello))
            except PlatformError as error:
                result.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        self.serve_until(lambda: bool(result))
        thread.join()
        if isinstance(result[0], PlatformError):
            raise result[0]
        assert isinstance(result[0], socket.socket)
        self._peers.append(result[0])
        return result[0]

    def close(self) -> None:
        if not self.has_ended:
            self.hub.end(0)
        for peer in self._peers:
            peer.close()


@pytest.fixture
def shown(tmp_path) -> str:
    return str(tmp_path / "console")


@pytest.fixture
def served(shown: str) -> Iterator[Served]:
    fd = os.open(shown, os.O_WRONLY | os.O_CREAT)
    with select.epoll() as poll:
        served = Served(poll, Sink(fd))
        yield served
        served.close()
    os.close(fd)


@pytest.mark.parametrize("key, hello", [("other", SHIM), (JOB_KEY, SHIM), (KEY, {"kind": "node", "number": 1})])
def test_nobody_is_let_in_without_the_key_for_what_he_is(served: Served, key: str, hello: wire.Message) -> None:
    with pytest.raises(PlatformError, match="can't be reached"):
        served.join(key, hello)
    assert served.heard == [] and not served.hub.is_busy


def test_a_listener_that_doesnt_know_the_key_is_no_hub() -> None:
    with wire.listener("127.0.0.1", 0) as other:
        port = other.getsockname()[1]

        def answer() -> None:
            select.select([other], [], [])
            peer, _ = other.accept()
            with peer:
                peer.setblocking(True)
                peer.sendall(wire.line({"challenge": "x"}))
                peer.recv(4096)
                peer.sendall(wire.line({"proof": "made up"}))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(PlatformError, match="doesn't know this job's key"):
            wire.join(["127.0.0.1"], port, KEY, SHIM)
        thread.join()


def test_what_shims_report_is_heard_in_order(served: Served) -> None:
    peer = served.join(KEY, SHIM)
    peer.sendall(wire.line({"exit": [None, 9, False], "seconds": 1.5, "pid": 77, "tail": ["last", "words"]}))
    served.serve_until(lambda: len(served.heard) == 2)
    assert served.heard == [Arrived(3), Reported(3, Exit(signum=9), 1.5)]
    assert served.hub.fates[3] == ("node1", 77, "/log", ("last", "words"))
    peer.close()
    served.serve_until(lambda: not served.hub.is_busy)
    assert len(served.heard) == 2


def test_a_worker_that_cant_be_started_is_heard_of(served: Served) -> None:
    served.join(KEY, SHIM).sendall(wire.line({"refused": 127, "problem": "x: command not found"}))
    served.serve_until(lambda: len(served.heard) == 2)
    assert served.heard[1] == Refused(3, 127, "x: command not found")


def test_a_shim_that_is_gone_without_a_report_is_lost(served: Served) -> None:
    served.join(KEY, SHIM).close()
    served.serve_until(lambda: len(served.heard) == 2)
    assert isinstance(served.heard[1], Lost)


def test_orders_reach_those_that_come_late_too(served: Served) -> None:
    early = served.join(KEY, SHIM)
    served.hub.tell({"end": 15})
    late = served.join(KEY, {**SHIM, "number": 4})
    for peer in (early, late):
        peer.settimeout(20)
        assert peer.recv(4096) == wire.line({"end": 15})


def test_other_nodes_are_told_the_end(served: Served) -> None:
    node = served.join(JOB_KEY, {"kind": "node", "number": 1})
    node.sendall(wire.line({"signal": 15}))
    served.serve_until(lambda: len(served.heard) == 2)
    assert served.heard == [NodeArrived(1), NodeSignalled(1, 15)]
    assert served.hub.nodes == [1] and not served.hub.is_busy
    served.hub.end(143)
    served.has_ended = True
    node.settimeout(20)
    assert node.recv(4096) == wire.line({"end": 143})


def test_ranks_lines_are_shown_whole(served: Served, shown: str) -> None:
    one, two = (served.join(KEY, {**SHIM, "kind": "output", "number": rank}) for rank in (0, 1))
    one.sendall(b"one be")
    two.sendall(b"two\n")
    served.serve_until(lambda: os.path.getsize(shown) == 4)
    one.sendall(b"gins\nand doesn't end")
    one.close()
    two.close()
    served.serve_until(lambda: not served.hub.is_busy)
    with open(shown, "rb") as file:
        assert file.read() == b"two\none begins\nand doesn't end\n"


def test_garbage_ends_a_connection(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.hub.port)) as peer:
        peer.sendall(b"GET / HTTP/1.0\r\n\r\n")
        ended: "list[bytes]" = []
        thread = threading.Thread(target=lambda: ended.append(b"".join(iter(lambda: peer.recv(4096), b""))))
        thread.start()
        served.serve_until(lambda: bool(ended))
        thread.join()
    assert served.heard == []
