"""Rank tables for launches on this machine."""

from __future__ import annotations

import json
from typing import Any, Dict, Sequence


def table(workers: int, server_id: str = "127.0.0.1") -> str:
    """Version 1.0, one server."""
    return text(version="1.0", server_count="1", server_list=[server(server_id, range(workers))])


def server(server_id: str, ranks: Sequence[int]) -> Dict[str, Any]:
    devices = [
        {"device_id": str(index), "device_ip": f"10.0.0.{rank + 1}", "rank_id": str(rank)}
        for index, rank in enumerate(ranks)
    ]
    return {"server_id": server_id, "device": devices}


def group_list(pods: Dict[str, Sequence[int]], server_id: str = "127.0.0.1") -> str:
    """The platform's form: the device ids of each pod, all on one server."""
    instances = [
        {
            "pod_name": name,
            "server_id": server_id,
            "devices": [{"device_id": str(id_), "device_ip": f"10.0.0.{id_ + 1}"} for id_ in ids],
        }
        for name, ids in pods.items()
    ]
    count = str(sum(map(len, pods.values())))
    group = {
        "group_name": "worker",
        "device_count": count,
        "instance_count": str(len(pods)),
        "instance_list": instances,
    }
    return text(group_count="1", group_list=[group])


def text(status: str = "completed", **keys: Any) -> str:
    return json.dumps({"status": status, **keys})
