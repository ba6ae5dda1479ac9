"""The form without a version ("template 2"): pods in `group_list[].instance_list[]`, ranks by the pods' order.

The order is ModelArts' launcher's: by the number that ends the pod's name, then as the file has it. HCCL itself
would order by server id as text, so such a table is always converted, never handed to HCCL.
"""

from __future__ import annotations

from itertools import accumulate, chain
from typing import Any, Dict, Iterator, List, Sequence

from davincirun.cluster import Cluster, Device, Pod, Server
from davincirun.ranktable.columns import read_lists
from davincirun.ranktable.v1 import LONGEST_SERVER_ID

Instance = Dict[str, Any]


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a group_list document describes; ValueError, KeyError, TypeError or AttributeError for a bad one."""
    instances = in_rank_order(document)
    columns = read_lists([instance["devices"] for instance in instances], ranked=False)
    ends = list(accumulate(map(len, columns)))
    devices = [column.devices(range(start, end)) for column, start, end in zip(columns, [0, *ends], ends)]
    lab = is_lab(document)
    names = [""] * len(instances) if lab else [instance["pod_name"] for instance in instances]
    if not lab and len(set(names)) != len(names):
        raise ValueError("pod_name")
    server_ids = [as_text(instance["server_id"]) for instance in instances]
    pods = list(map(Pod._make, zip(names, server_ids, devices)))
    return Cluster.of(_servers(pods), () if lab else pods)


def in_rank_order(document: Dict[str, Any]) -> List[Instance]:
    """All instances that have ranks, in rank order; ValueError when a count contradicts its list.

    Groups with `device_count` 0 (roles without NPUs) are skipped. Each group's instances are sorted by pod index;
    a later group whose pods have none keeps the file's order, as ModelArts' launcher keeps it for every later group.
    """
    groups = document["group_list"]
    _check(document, "group_count", len(groups))
    instances: List[Instance] = []
    for position, group in enumerate(groups):
        declared = device_count(group)
        if declared == 0:
            continue
        members: List[Instance] = group["instance_list"]
        _check(group, "instance_count", len(members))
        if sum([len(instance["devices"]) for instance in members]) != declared:
            raise ValueError("device_count")
        instances += members if is_lab(document) else _by_pod_index(members, must=position == 0 and len(members) > 1)
    return _by_rank_id(instances) if is_lab(document) else instances


def is_lab(document: Dict[str, Any]) -> bool:
    """Whether this is the form of early labs, whose instances have a `rank_id` instead of a pod."""
    return "deploy_mode" in document


def device_count(group: Dict[str, Any]) -> int:
    """The number of devices that `group` says it has; the lab form calls it device_num."""
    return int(group["device_count"] if "device_count" in group else group["device_num"])


def pod_index(pod_name: str) -> int:
    """The number that ends `pod_name` after its last "-"; ValueError when there is none."""
    return int(pod_name[pod_name.rfind("-") + 1 :])


def as_text(value: Any) -> str:
    """A string, or a number as one, which is how it is written into the 1.0 table; TypeError for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise TypeError("neither a string nor a number")


def _check(holder: Dict[str, Any], key: str, length: int) -> None:
    if key in holder and int(holder[key]) != length:
        raise ValueError(key)


def _by_pod_index(members: List[Instance], must: bool) -> List[Instance]:
    try:
        return sorted(members, key=lambda instance: pod_index(instance["pod_name"]))
    except ValueError:
        if must:
            raise
        return members


def _by_rank_id(instances: List[Instance]) -> List[Instance]:
    ranked = sorted([(int(instance["rank_id"]), position) for position, instance in enumerate(instances)])
    if [rank for rank, _ in ranked] != list(range(len(instances))):
        raise ValueError("rank_id")
    if any(len(instance["devices"]) != 1 for instance in instances):
        raise ValueError("devices")
    return [instances[position] for _, position in ranked]


def _servers(pods: List[Pod]) -> Iterator[Server]:
    """Servers in first-seen order; pods on one server share its entry."""
    merged: Dict[str, List[Sequence[Device]]] = {}
    for pod in pods:
        merged.setdefault(pod.server_id, []).append(pod.devices)
    for server_id, parts in merged.items():
        if not 0 < len(server_id) <= LONGEST_SERVER_ID:
            raise ValueError("server_id")
        devices = parts[0] if len(parts) == 1 else tuple(chain.from_iterable(parts))
        if len(parts) > 1 and len({device.device_id for device in devices}) != len(devices):
            raise ValueError("device_id")
        yield Server._make((server_id, devices, ()))
