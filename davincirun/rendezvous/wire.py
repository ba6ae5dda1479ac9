"""Messages between launchers on a socket: bounded, authenticated, JSON. Pure but for the nonces.

What goes over the wire, after each side's greeting of 8 fixed bytes and a 16-byte nonce:

    4 bytes   length of the text, big-endian
    32 bytes  HMAC-SHA256 over direction, running number and text
    text      one JSON value

The key of the HMAC is derived from the job's key and both nonces, so that a message can't be repeated in another
connection, at another place, or back to its sender. Nothing is encrypted. Nothing but JSON is ever read, no more than
the limit is ever buffered, and nothing of a message is looked at before its HMAC is right.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any, Iterator

GREETING = b"dvcrun1\n"
HELLO_BYTES = len(GREETING) + 16
MOST_FROM_NODE = 2 << 20
MOST_FROM_MEETING = 128 << 20  # a table of 131,072 cards takes 12 MiB
_HEAD = 4 + 32
FROM_NODE, FROM_MEETING = b"n", b"m"


class WireError(Exception):
    """The other side doesn't speak as one of us does; `is_foreign`: it doesn't even know the job's key."""

    def __init__(self, problem: str, is_foreign: bool = False) -> None:
        super().__init__(problem)
        self.is_foreign = is_foreign


def job_key(*secrets: str) -> bytes:
    """The key of a job, from what its launchers alone (or at least: this job's alone) know."""
    return hashlib.sha256("\0".join(("davincirun", *secrets)).encode("utf-8", "surrogateescape")).digest()


def hello() -> bytes:
    """A new greeting; its end is the nonce."""
    return GREETING + os.urandom(HELLO_BYTES - len(GREETING))


class Wire:
    """One connection's messages, both ways, after the greetings."""

    def __init__(self, key: bytes, node_hello: bytes, meeting_hello: bytes, is_meeting: bool) -> None:
        if not (node_hello.startswith(GREETING) and meeting_hello.startswith(GREETING)):
            raise WireError("it is no davincirun, or one that speaks another version", is_foreign=True)
        self._key = hmac.new(key, node_hello + meeting_hello, hashlib.sha256).digest()
        self._sends, self._receives = (FROM_MEETING, FROM_NODE) if is_meeting else (FROM_NODE, FROM_MEETING)
        self._most = MOST_FROM_NODE if is_meeting else MOST_FROM_MEETING
        self._sent = self._received = 0
        self._buffer = bytearray()

    def pack(self, value: Any) -> bytes:
        """The bytes that carry `value` to the other side."""
        text = json.dumps(value).encode("ascii")
        self._sent += 1
        return len(text).to_bytes(4, "big") + self._mac(self._sends, self._sent, text) + text

    def feed(self, data: bytes) -> Iterator[Any]:
        """The values that are complete now; WireError for anything that isn't ours."""
        self._buffer += data
        while len(self._buffer) >= _HEAD:
            length = int.from_bytes(self._buffer[:4], "big")
            if length > (self._most if self._received else min(self._most, MOST_FROM_NODE)):
                raise WireError(f"a message of {length} bytes", is_foreign=not self._received)
            if len(self._buffer) < _HEAD + length:
                return
            text = bytes(self._buffer[_HEAD : _HEAD + length])
            mac = bytes(self._buffer[4:_HEAD])
            del self._buffer[: _HEAD + length]
            self._received += 1
            if not hmac.compare_digest(mac, self._mac(self._receives, self._received, text)):
                raise WireError("its key is another job's", is_foreign=self._received == 1)
            try:
                yield json.loads(text.decode("ascii"))
            except (ValueError, RecursionError):
                raise WireError("a message that is no JSON") from None

    def _mac(self, direction: bytes, number: int, text: bytes) -> bytes:
        return hmac.new(self._key, direction + number.to_bytes(8, "big") + text, hashlib.sha256).digest()
