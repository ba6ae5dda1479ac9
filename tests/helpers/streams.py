"""What processes say, gathered while it is waited for."""

from __future__ import annotations

import os
import select
import time
from typing import Callable, Sequence


class Stream:
    """The bytes that have come out of a descriptor; owns it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.data = bytearray()
        self.is_ended = False

    def receive(self) -> None:
        """Take what is there; blocks when nothing is."""
        try:
            chunk = os.read(self.fd, 1 << 18)
        except OSError:  # EIO: a terminal that nobody has open any more
            chunk = b""
        self.data += chunk
        self.is_ended = not chunk

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def gather_until(happened: Callable[[], bool], streams: Sequence[Stream], deadline: float) -> bool:
    """Read all streams until `happened()`; False when they have ended, or `deadline` (time.monotonic()) is over."""
    while not happened():
        open_streams = {stream.fd: stream for stream in streams if not stream.is_ended}
        left = deadline - time.monotonic()
        ready = select.select(list(open_streams), [], [], max(left, 0))[0] if open_streams else []
        for fd in ready:
            open_streams[fd].receive()
        if not ready:
            return happened()
    return True
