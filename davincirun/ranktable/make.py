"""Servers → the text of their table, in the version that their chip reads."""

from __future__ import annotations

from typing import Sequence

from davincirun.cluster import Server, SuperPod
from davincirun.ranktable import v1, v2


def version_for(generation: str, in_super_pod: bool) -> str:
    """The version that HCCL wants for a chip: 2.0 for Ascend 950, 1.2 in an Atlas A3 super pod, else 1.0."""
    if generation == "950":
        return "2.0"
    return "1.2" if in_super_pod else "1.0"


def from_servers(servers: Sequence[Server], version: str = "1.0", super_pods: Sequence[SuperPod] = ()) -> bytes:
    """The 1.0, 1.2 or 2.0 table of `servers`, always the same bytes for the same values; `super_pods` are for 1.2.

    `device_ip` is left out where a device has none (a single server, or the inside of an A3 super pod, needs none).
    """
    return v2.from_servers(servers) if version == "2.0" else v1.from_servers(servers, version, super_pods)
