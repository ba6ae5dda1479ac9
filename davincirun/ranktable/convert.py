"""One form → another, and what that leaves out."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Set

from davincirun.cluster import Cluster
from davincirun.errors import RankTableError
from davincirun.ranktable.document import GROUP_LIST, RankTable
from davincirun.ranktable.launch import to_cluster
from davincirun.ranktable.v1 import from_servers
from davincirun.ranktable.writing import dumps

TARGETS = ("1.0", "1.2", "2.0", GROUP_LIST)


class Conversion(NamedTuple):
    """A table in its new form."""

    text: bytes
    lost: List[str]  # what the new form has no place for


def convert(table: RankTable, path: str, target: str) -> Conversion:
    """`table` in the form `target`; RankTableError for a table that is wrong or can't be expressed in that form.

    What is merely left out is listed in `lost`; the caller decides whether that is bearable.
    """
    cluster = to_cluster(table, path)
    if target == table.form:
        return Conversion(table.text, [])
    if "2.0" in (target, table.form) or table.form == "1.1":
        raise RankTableError(
            path, "", f"{table.form} can't be written as {target}: {_REASONS.get(table.form, _REASON_2_0)}"
        )
    if table.form == GROUP_LIST:
        # Names of pods and groups are what this conversion is meant to leave out: nothing is lost.
        return Conversion(from_servers(cluster.servers, target), [])
    if target == GROUP_LIST:
        return _to_group_list(table, path, cluster)
    return _between_1_0_and_1_2(table, target)


_REASON_2_0 = (
    "2.0 lists each device's network layers and ports, which this table doesn't know: generate it on the servers"
)
_REASONS = {
    "1.1": "its ranks on hosts have no place there",
    "2.0": "2.0 names no servers, and its addresses belong to network layers",
}


def _between_1_0_and_1_2(table: RankTable, target: str) -> Conversion:
    document = {**table.document, "version": target}
    lost: List[str] = []
    if target == "1.0":
        if document.pop("super_pod_list", None) is not None:
            lost.append("super_pod_list")
        servers = [
            {**server, "device": [_plain(device) for device in server["device"]]} for server in document["server_list"]
        ]
        if servers != document["server_list"]:
            lost.append("super_device_id of the devices")
        document["server_list"] = servers
    return Conversion(dumps(document), lost)


def _plain(device: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in device.items() if key != "super_device_id"}


def _to_group_list(table: RankTable, path: str, cluster: Cluster) -> Conversion:
    """Each server becomes a pod named by its position, as hccl-controller names them."""
    expected = 0
    instances = []
    for index, server in enumerate(cluster.servers):
        devices = []
        for device in server.devices:
            if device.rank != expected:
                where = f"server_list[{index}]"
                raise RankTableError(
                    path, where, f"rank {device.rank}, where group_list would count {expected}: sort it first"
                )
            devices.append({"device_id": str(device.device_id), "device_ip": device.device_ip or ""})
            expected += 1
        instances.append({"pod_name": str(index), "server_id": server.server_id, "devices": devices})
    group = {
        "group_name": "workers",
        "device_count": str(expected),
        "instance_count": str(len(instances)),
        "instance_list": instances,
    }
    document = {"status": "completed", "group_count": "1", "group_list": [group]}
    return Conversion(dumps(document), _other_keys(table.document))


def _other_keys(document: Dict[str, Any]) -> List[str]:
    servers = document["server_list"]
    devices = [device for server in servers for device in server["device"]]
    return [
        *_beyond(("status", "version", "server_count", "server_list"), [document], "{}"),
        *_beyond(("server_id", "device"), servers, "{} of the servers"),
        *_beyond(("device_id", "device_ip", "rank_id"), devices, "{} of the devices"),
    ]


def _beyond(known: Sequence[str], holders: Sequence[Dict[str, Any]], form: str) -> List[str]:
    keys: Set[str] = set()
    for holder in holders:
        keys.update(holder)
    return [form.format(key) for key in sorted(keys.difference(known))]
