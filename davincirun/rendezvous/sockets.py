"""The sockets of a meeting point: how it is listened at, connected to, and kept under the kernel's watch."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import List, Optional, Sequence, Tuple

from davincirun.rendezvous.agreement import RendezvousError

_BACKLOG = 4096
_CONNECT_SECONDS = 3.0
# The other machine, or the way to it, is silent; anything else (EOF, ECONNRESET, EPIPE) is a process that has ended.
_SILENT = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


class Place:
    """Where a meeting is: hosts that may all mean node 0, and ports of which the first free one is used."""

    def __init__(self, hosts: Sequence[str], ports: Sequence[int]) -> None:
        self.hosts = tuple(hosts)
        self.ports = tuple(ports)

    @property
    def targets(self) -> List[Tuple[str, int]]:
        """Where to connect to, each in turn."""
        return [(host, port) for port in self.ports for host in self.hosts]

    def __str__(self) -> str:
        ports = f"{self.ports[0]}" if len(self.ports) == 1 else f"{self.ports[0]}-{self.ports[-1]}"
        return f"{' or '.join(self.hosts)} port {ports}"


def listen(place: Place) -> socket.socket:
    """A listening socket at the first free port; RendezvousError when none is.

    A name often leads to loopback on its own machine (Debian's 127.0.1.1), while the other nodes need another
    address: only a place that is given as an address is listened at alone.
    """
    problem: Optional[OSError] = None
    for address in _addresses_to_bind(place):
        for port in place.ports:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if address == "::":
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                listener.bind((address, port))
                listener.listen(_BACKLOG)
                listener.setblocking(False)
                return listener
            except OSError as error:
                problem = problem or error
                listener.close()
    why = os.strerror(problem.errno or 0) if problem is not None else "no address"
    raise RendezvousError(f"node 0 can't listen at {place}: {why}; --rendezvous tcp://HOST:PORT names another port")


def connect(host: str, port: int) -> socket.socket:
    """One try to connect; OSError when it fails."""
    problem: Optional[OSError] = None
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_CONNECT_SECONDS)
            connection.connect(address)
            if connection.getsockname() == connection.getpeername():
                raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to itself")  # an ephemeral port's trick
            return connection
        except OSError as error:
            problem = error
            connection.close()
    raise problem or OSError(errno.EADDRNOTAVAIL, "the name has no address")


def keep_watched(connection: socket.socket, silence_seconds: float) -> None:
    """Let the kernel end the connection when the other side has been silent for so long: no process wakes for it."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if silence_seconds <= 0:
        return
    options: List[Tuple[str, int]] = [
        ("TCP_KEEPIDLE", max(int(silence_seconds / 3), 1)),
        ("TCP_KEEPINTVL", max(int(silence_seconds / 6), 1)),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", int(silence_seconds * 1000)),
    ]
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options:
        with suppress(OSError):  # a kernel without it notices the silence later, or not at all
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name, 18), value)


def is_silence(error: OSError) -> bool:
    """Whether a connection's error means that nothing was heard, rather than that the other process has ended."""
    return error.errno in _SILENT or isinstance(error, socket.timeout)


def _addresses_to_bind(place: Place) -> List[str]:
    """The one address that is asked for by number; all, where names are given: they may mean another one elsewhere."""
    if len(place.hosts) == 1 and is_address(place.hosts[0]):
        return [place.hosts[0], "::", "0.0.0.0"] if not place.hosts[0].startswith("127.") else [place.hosts[0]]
    return ["::", "0.0.0.0"]


def is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
