"""The form without a version ("template 2"): pods in `group_list[].instance_list[]`, ranks by the pods' order.

The order is ModelArts' launcher's: by the number that ends the pod's name, then as the file has it. HCCL itself
would order by server id as text, so such a table is always converted, never handed to HCCL.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii as quoted
from operator import itemgetter
from typing import Any, Dict, Iterator, List, Tuple

from davincirun.cluster import Cluster, Device, Pod, Server
from davincirun.ranktable.columns import devices_by_list
from davincirun.ranktable.v1 import LONGEST_SERVER_ID, table_text

Instance = Dict[str, Any]
_id_and_address = itemgetter("device_id", "device_ip")


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a group_list document describes; ValueError, KeyError, TypeError or AttributeError when it can't be."""
    instances = in_rank_order(document)
    devices = devices_by_list([instance["devices"] for instance in instances], ranks_given=False)
    pods = list(_pods(instances, devices))
    if not is_lab(document) and len({pod.pod_name for pod in pods}) != len(pods):
        raise ValueError("pod_name")
    return Cluster.of(_servers(pods), () if is_lab(document) else pods)


def to_v1_text(document: Dict[str, Any]) -> bytes:
    """The same cluster as a version-1.0 table, always the same bytes for the same document; raises as `to_cluster`."""
    start = 0
    servers: Dict[str, List[str]] = {}
    for instance in in_rank_order(document):
        entries = instance["devices"]
        servers.setdefault(as_text(instance["server_id"]), []).extend(_device_texts(entries, start))
        start += len(entries)
    return table_text("1.0", list(servers.items()))


def in_rank_order(document: Dict[str, Any]) -> List[Instance]:
    """All instances that have ranks, in rank order; ValueError when a count contradicts its list.

    Groups with `device_count` 0 (roles without NPUs) are skipped. Each group's instances are sorted by pod index;
    a later group whose pods have none keeps the file's order, as ModelArts' launcher keeps it for every later group.
    """
    groups = document["group_list"]
    _check(document, "group_count", len(groups))
    instances: List[Instance] = []
    for group in groups:
        if device_count(group) == 0:
            continue
        members: List[Instance] = group["instance_list"]
        _check(group, "instance_count", len(members))
        if sum([len(instance["devices"]) or _no_devices() for instance in members]) != device_count(group):
            raise ValueError("device_count")
        instances += _sorted(members, is_lab(document), bool(instances))
    return instances


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


def _device_texts(entries: List[Dict[str, Any]], start: int) -> List[str]:
    try:
        return [
            f'{{"device_id":{quoted(device_id)},"device_ip":{quoted(address)},"rank_id":"{rank}"}}'
            for rank, (device_id, address) in enumerate(map(_id_and_address, entries), start)
        ]
    except (KeyError, TypeError):  # a number as id, or no address
        texts = []
        for rank, entry in enumerate(entries, start):
            address = entry.get("device_ip")
            address_text = "" if address is None else f'"device_ip":{quoted(address)},'
            texts.append(f'{{"device_id":{quoted(as_text(entry["device_id"]))},{address_text}"rank_id":"{rank}"}}')
        return texts


def _check(holder: Dict[str, Any], key: str, length: int) -> None:
    if key in holder and int(holder[key]) != length:
        raise ValueError(key)


def _no_devices() -> int:
    raise ValueError("devices")


def _sorted(members: List[Instance], lab: bool, later: bool) -> List[Instance]:
    if lab:
        return sorted(members, key=lambda instance: int(instance["rank_id"]))
    if len(members) == 1:
        return members
    try:
        return sorted(members, key=lambda instance: pod_index(instance["pod_name"]))
    except ValueError:
        if later:
            return members
        raise


def _pods(instances: List[Instance], devices: List[Tuple[Device, ...]]) -> Iterator[Pod]:
    for instance, own in zip(instances, devices):
        pod_name = instance.get("pod_name", "")
        if not isinstance(pod_name, str):
            raise TypeError("pod_name")
        yield Pod(pod_name, as_text(instance["server_id"]), own)


def _servers(pods: List[Pod]) -> Iterator[Server]:
    """Servers in first-seen order; pods on one server share its entry."""
    merged: Dict[str, Tuple[Device, ...]] = {}
    for pod in pods:
        merged[pod.server_id] = merged.get(pod.server_id, ()) + pod.devices
    for server_id, devices in merged.items():
        if not 0 < len(server_id) <= LONGEST_SERVER_ID or len({device.device_id for device in devices}) != len(devices):
            raise ValueError("server_id")
        yield Server(server_id, devices)
