"""Version 1.1 (CPU hosts beside NPUs): `node_list[].ranks[]`. Launching passes it on and needs little of it."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator

from davincirun.cluster import Cluster, Device, Server

HOST_DEVICE_ID = -1  # a rank that runs on the host's CPU
_SIGNED = re.compile(r"\s*[-+]?[0-9]{1,19}")


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a 1.1 document describes; ValueError, KeyError, TypeError or AttributeError when it can't be."""
    return Cluster.of(_servers(document))


def signed_number(text: str) -> int:
    """What HCCL reads from `text` (std::stoi); ValueError when that is nothing."""
    match = _SIGNED.match(text)
    if not match:
        raise ValueError("no number")
    return int(match.group())


def _servers(document: Dict[str, Any]) -> Iterator[Server]:
    for node in document["node_list"]:
        devices = tuple([_device(rank) for rank in node["ranks"]])
        if not devices or not isinstance(node["node_addr"], str):
            raise ValueError("node_list")
        yield Server(node["node_addr"], devices)


def _device(rank: Dict[str, Any]) -> Device:
    device_id = signed_number(rank["device_id"])
    if device_id < HOST_DEVICE_ID:
        raise ValueError("device_id")
    address = rank.get("rank_ip")
    return Device(signed_number(rank["rank_id"]), device_id, address if isinstance(address, str) else None)
