"""What the options and the platform lay down for a meeting."""

from __future__ import annotations

from typing import Tuple

from davincirun.values import Value


class Terms(Value):
    """The same on all nodes."""

    key: bytes
    node_count: int
    hosts: Tuple[str, ...]  # by node rank, as far as they are known
    timeout_seconds: float  # for all to come
    silence_seconds: float  # after which a node has vanished; 0: never
    linger_seconds: float = 20.0  # after a failure: for all nodes' workers to have ended
    agrees: bool = True  # False: the table is given, only failures are to be told
