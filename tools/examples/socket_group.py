"""Averages of numpy arrays over all ranks by plain sockets: enough to train together without a collective library."""

from __future__ import annotations

import socket
import time

import numpy as np

CONNECT_SECONDS = 120  # ranks start at different speeds: eight imports of a framework share the machine's cores


class SocketGroup:
    """All ranks of a job, connected in a star: rank 0 listens at MASTER_ADDR:MASTER_PORT, the others connect to it."""

    def __init__(self, rank: int, world_size: int, address: str, port: int) -> None:
        self.rank = rank
        self.world_size = world_size
        if rank == 0:
            self.peers = _accept(address, port, world_size - 1)
        else:
            self.peers = [_connect(address, port, rank)]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """The mean of `values` (the same shape on every rank) over the ranks, float64, the same bytes everywhere."""
        mine = np.asarray(values, dtype=np.float64)
        if self.rank:
            self.peers[0].sendall(mine.tobytes())
            return _receive(self.peers[0], mine.shape)
        total = mine.copy()
        for peer in self.peers:  # in rank order, so that every run adds in the same order
            total += _receive(peer, mine.shape)
        total /= self.world_size
        for peer in self.peers:
            peer.sendall(total.tobytes())
        return total

    def close(self) -> None:
        for peer in self.peers:
            peer.close()


def _accept(address: str, port: int, count: int) -> list[socket.socket]:
    """The connections of ranks 1..count, in rank order; each says its rank first."""
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    peers = {}
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(count)
        listener.settimeout(CONNECT_SECONDS)
        for _ in range(count):
            peer, _ = listener.accept()
            peers[int(_receive(peer, ()))] = _without_delay(peer)
    return [peers[rank] for rank in sorted(peers)]


def _connect(address: str, port: int, rank: int) -> socket.socket:
    """A connection to rank 0, which may not be listening yet."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    peer.sendall(np.float64(rank).tobytes())
    return _without_delay(peer)


def _without_delay(peer: socket.socket) -> socket.socket:
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return peer


def _receive(peer: socket.socket, shape: tuple[int, ...]) -> np.ndarray:
    received = np.empty(shape, dtype=np.float64)
    unfilled = memoryview(received.reshape(-1)).cast("B")
    while unfilled:
        count = peer.recv_into(unfilled)
        if not count:
            raise ConnectionError("another rank has ended: its own log says why")
        unfilled = unfilled[count:]
    return received
