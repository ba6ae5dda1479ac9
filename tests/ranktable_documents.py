"""Small rank-table documents for tests."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

Document = Dict[str, Any]


def device(device_id: object, rank: object, address: Optional[object] = None, **more: object) -> Document:
    entry: Document = {"device_id": device_id, "rank_id": rank, **more}
    return entry if address is None else {**entry, "device_ip": address}


def server(server_id: object, *devices: Document, **more: object) -> Document:
    return {"server_id": server_id, "device": list(devices), **more}


def v1(*servers: Document, **more: object) -> Document:
    return {"status": "completed", "version": "1.0", "server_list": list(servers), **more}


def cluster_v1(*server_ids: str, per_server: int = 2) -> Document:
    """A good 1.0 table: each server has devices 0.. with addresses of their own, ranks go on from server to server."""
    servers = []
    rank = 0
    for index, server_id in enumerate(server_ids):
        devices = []
        for device_id in range(per_server):
            devices.append(
                device(str(device_id), str(rank), f"192.{device_id}.{index}.{sum(map(ord, server_id)) % 251}")
            )
            rank += 1
        servers.append(server(server_id, *devices))
    return v1(*servers, server_count=str(len(servers)))


def pod(name: object, server_id: object, *device_ids: object, **more: object) -> Document:
    devices = [{"device_id": i, "device_ip": f"192.168.{sum(map(ord, str(server_id))) % 200}.{i}"} for i in device_ids]
    return {"pod_name": name, "server_id": server_id, "devices": devices, **more}


def group(*pods: Document, **more: object) -> Document:
    count = sum(len(pod["devices"] or []) for pod in pods)
    return {
        "group_name": "g",
        "device_count": str(count),
        "instance_count": str(len(pods)),
        "instance_list": list(pods),
        **more,
    }


def group_list(*groups: Document, **more: object) -> Document:
    return {"status": "completed", "group_count": str(len(groups)), "group_list": list(groups), **more}


def v2(*ids: Sequence[Any], **more: object) -> Document:
    """A 2.0 table of (rank_id, local_id, device_id), each with one layer."""
    ranks = []
    for rank, local, physical in ids:
        address = {"addr_type": "IPV4", "addr": f"172.16.0.{len(ranks)}", "ports": ["0/1"]}
        layer = {"net_layer": 0, "net_instance_id": "pod0", "net_type": "TOPO_FILE_DESC", "net_attr": ""}
        layers = [{**layer, "rank_addr_list": [address]}]
        ranks.append({"rank_id": rank, "local_id": local, "device_id": physical, "level_list": layers})
    return {"status": "completed", "version": "2.0", "rank_count": len(ids), "rank_list": ranks, **more}
