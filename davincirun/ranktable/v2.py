"""Version 2.0 (Ascend 950): `rank_list[]` with numbers for ids. It names no servers."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from davincirun.cluster import Cluster, Device, Server


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a 2.0 document describes; ValueError, KeyError, TypeError or AttributeError when it can't be.

    Nothing in the table says which machine a rank is on, so a server here is a run of consecutive ranks whose
    `local_id` rises; a `local_id` that isn't higher than the one before starts the next.
    """
    entries: List[Dict[str, Any]] = document["rank_list"]
    if "rank_count" in document and document["rank_count"] != len(entries):
        raise ValueError("rank_count")
    for key in ("rank_id", "local_id", "device_id"):
        if {type(entry[key]) for entry in entries} != {int}:
            raise TypeError(key)
    return Cluster.of(_servers(sorted(entries, key=lambda entry: entry["rank_id"])), names_servers=False)


def runs(entries: List[Dict[str, Any]]) -> Iterator[List[Dict[str, Any]]]:
    """`entries` in rank order, cut where `local_id` stops rising."""
    run: List[Dict[str, Any]] = []
    for entry in entries:
        if run and entry["local_id"] <= run[-1]["local_id"]:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _servers(entries: List[Dict[str, Any]]) -> Iterator[Server]:
    for index, run in enumerate(runs(entries)):
        yield Server(f"node-{index}", tuple([Device(entry["rank_id"], entry["device_id"]) for entry in run]))


def from_servers(servers: Sequence[Server]) -> bytes:
    """The 2.0 table of `servers`: one network layer, whose instance is the server, with one address per device.

    That the layer goes by the server, that `local_id` is the physical id and that all ports stand behind the one
    address is how we read the manual's examples; what else the fabric has, the chip's own topology file says. A
    device whose address or ports aren't known has no layer, which HCCL refuses.
    """
    ranks = [_rank(device, server.server_id) for server in servers for device in server.devices]
    document = {"status": "completed", "version": "2.0", "rank_count": len(ranks), "rank_list": ranks}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _rank(device: Device, server_id: str) -> Dict[str, Any]:
    layers = []
    addr_type, addr = _address(device)
    if addr and device.ports:
        address = {"addr_type": addr_type, "addr": addr, "ports": list(device.ports), "plane_id": "0"}
        layers.append(
            {
                "net_layer": 0,
                "net_instance_id": server_id,
                "net_type": "TOPO_FILE_DESC",
                "net_attr": "",
                "rank_addr_list": [address],
            }
        )
    ids = {"rank_id": device.rank, "local_id": device.device_id, "device_id": device.device_id}
    return {**ids, "level_list": layers}


def _address(device: Device) -> Tuple[str, str]:
    """The EID, else the first of the IP addresses."""
    if device.eid:
        return "EID", device.eid
    first = (device.device_ip or "").split(",")[0]
    return ("IPV6" if ":" in first else "IPV4"), first
