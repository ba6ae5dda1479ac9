"""How shims and the other nodes' launchers talk to node 0's: lines of JSON over TCP, after both have proved a key.

Open MPI itself needs TCP from every node to node 0, so there is a way. Its own pipes are none: 4.1 tears lines, 5.0
may end before the last ones. The key never travels: each side answers the other's challenge (HMAC-SHA256), so that
neither a stranger's connection nor another machine with the same address is taken for a part of the job.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from davincirun.errors import PlatformError

Message = Dict[str, Any]

# A dead machine or a pulled cable sends nothing: the kernel finds out within 5 + 3 * 2 seconds.
_IDLE_SECONDS, _INTERVAL_SECONDS, _PROBES, _UNANSWERED_MILLISECONDS = 5, 2, 3, 11000
_CONNECT_SECONDS = 5.0
_LONGEST_LINE = 1 << 20


class Lines:
    """Parts a stream into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> List[Message]:
        """The messages that `data` completes; ValueError for what isn't one."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise ValueError("a line without end")
        messages = [json.loads(line.decode()) for line in lines]
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("not an object")
        return messages

    def take_rest(self) -> bytes:
        """What has come of a line that isn't complete."""
        rest, self._rest = self._rest, b""
        return rest


def line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def proof(key: str, side: str, *nonces: str) -> str:
    """What only somebody who has the key can say, once."""
    return hmac.new(key.encode(), " ".join((side, *nonces)).encode(), "sha256").hexdigest()


def same(one: object, other: str) -> bool:
    return isinstance(one, str) and hmac.compare_digest(one.encode(), other.encode())


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel find out that the other side's machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, _IDLE_SECONDS),
        (socket.TCP_KEEPINTVL, _INTERVAL_SECONDS),
        (socket.TCP_KEEPCNT, _PROBES),
        (socket.TCP_USER_TIMEOUT, _UNANSWERED_MILLISECONDS),
    ):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


def join(addresses: Sequence[str], port: int, key: str, hello: Message) -> socket.socket:
    """A connection to node 0's launcher, introduced by `hello`. PlatformError says why there is none."""
    problems = []
    for address in addresses:
        try:
            return _joined(address, port, key, hello)
        except (OSError, ValueError, KeyError) as error:
            problems.append(f"{address}: {_reason(error)}")
    raise PlatformError(f"node 0's launcher can't be reached on port {port}: {'; '.join(problems)}")


def _joined(address: str, port: int, key: str, hello: Message) -> socket.socket:
    sock = socket.create_connection((address, port), _CONNECT_SECONDS)
    try:
        keep_alive(sock)
        challenge = _receive(sock)["challenge"]
        nonce = os.urandom(16).hex()
        sock.sendall(line({**hello, "nonce": nonce, "proof": proof(key, "client", hello["kind"], challenge, nonce)}))
        if not same(_receive(sock).get("proof"), proof(key, "server", challenge, nonce)):
            raise ValueError("it doesn't know this job's key")
        sock.settimeout(None)
        return sock
    except BaseException:
        sock.close()
        raise


def _receive(sock: socket.socket) -> Message:
    """One line, read byte by byte, so that nothing after it is taken; it is short and comes once."""
    deadline = time.monotonic() + _CONNECT_SECONDS
    text = b""
    while not text.endswith(b"\n"):
        byte = sock.recv(1)
        if not byte or len(text) > 4096 or time.monotonic() > deadline:
            raise ValueError("no launcher of this job answers there")
        text += byte
    return Lines().feed(text)[0]


def _reason(error: Exception) -> str:
    if isinstance(error, socket.timeout):
        return "no answer"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def listener(host: Optional[str], port: int) -> socket.socket:
    """A socket that takes connections on `port`, of every address family if `host` is None. OSError as it comes."""
    families: List[Tuple[int, str]] = [(socket.AF_INET, host or "0.0.0.0")]
    if host is None and socket.has_ipv6 and os.path.exists("/proc/net/if_inet6"):
        families.insert(0, (socket.AF_INET6, "::"))
    for number, (family, address) in enumerate(families, 1):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            sock.bind((address, port))
            sock.listen(1024)
            sock.setblocking(False)
            return sock
        except OSError:
            sock.close()
            if number == len(families):
                raise
    raise AssertionError
