"""Versions 1.0 and 1.2: `server_list[].device[]`, and 1.2's `super_pod_list`."""

from __future__ import annotations

from io import BytesIO
from itertools import chain
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from davincirun.cluster import Cluster, Device, DeviceColumns, Server, SuperPod
from davincirun.ranktable.columns import Entry, are_distinct, decimals, read_lists
from davincirun.ranktable.finding import number

LONGEST_SERVER_ID = 64  # HCCL's SERVERID_MAX_LENGTH
ADDRESS_KEYS = frozenset(("host_ip", "container_ip", "pod_ip", "server_ip"))
_ESCAPED = bytes(range(0x20)) + b'"\\\x7f'  # of ASCII, by `quoted`


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a 1.0 or 1.2 document describes; ValueError, KeyError, TypeError or AttributeError for a bad one."""
    servers: List[Entry] = document["server_list"]
    if "server_count" in document and number(document["server_count"]) != len(servers):
        raise ValueError("server_count")
    columns = read_lists([server["device"] for server in servers], ranked=True)
    in_pods = document["version"] == "1.2"
    made = list(_servers(servers, [column.devices(column.ranks, in_pods) for column in columns]))
    if not in_pods:
        return Cluster.of(made)
    if "super_pod_list" not in document:
        for column in columns:
            if not are_distinct([own_id for own_id in column.own_ids or () if own_id is not None]):
                raise ValueError("super_device_id is not unique")
        return Cluster.of(made)
    own_ids = {server.server_id: column.own_ids for server, column in zip(made, columns)}
    return Cluster.of(made, super_pods=_super_pods(document["super_pod_list"], own_ids))


def _servers(entries: Sequence[Entry], devices: Sequence[Sequence[Device]]) -> Iterator[Server]:
    for entry, own in zip(entries, devices):
        server_id = entry["server_id"]
        if not isinstance(server_id, str) or not 0 < len(server_id) <= LONGEST_SERVER_ID:
            raise ValueError("server_id")
        yield Server._make((server_id, own, () if ADDRESS_KEYS.isdisjoint(entry) else _addresses(entry)))


def _addresses(entry: Entry) -> Tuple[str, ...]:
    return tuple([entry[key] for key in sorted(ADDRESS_KEYS) if isinstance(entry.get(key), str)])


def _super_pods(entries: Sequence[Entry], own_ids_of: Dict[str, Optional[List[Any]]]) -> Tuple[SuperPod, ...]:
    """The super pods; ValueError, KeyError or TypeError when they aren't made of all servers, or share an SDID."""
    pods = []
    for pod in entries:
        members = tuple([server["server_id"] for server in pod["server_list"]])
        own_ids = list(chain.from_iterable([own_ids_of.pop(server_id) or (None,) for server_id in members]))
        if not isinstance(pod["super_pod_id"], str) or None in own_ids or not are_distinct(own_ids):
            raise ValueError("super_pod_list")
        pods.append(SuperPod(pod["super_pod_id"], members))
    if own_ids_of or len({pod.super_pod_id for pod in pods}) != len(pods):
        raise ValueError("super_pod_list")
    return tuple(pods)


def from_servers(servers: Sequence[Server], version: str = "1.0", super_pods: Sequence[SuperPod] = ()) -> bytes:
    """The 1.0 or 1.2 table of `servers`, always the same bytes for the same values.

    No indentation, all scalars strings. `device_ip` is left out where a device has none (a single server, or the inside
    of an A3 super pod, needs none); 1.2 adds `super_device_id` and, when there are any, `super_pod_list`.
    """
    if version not in ("1.0", "1.2"):
        raise ValueError(f"servers can be written as 1.0, 1.2 or 2.0, not as {version}")
    devices_text = _devices_text_1_2 if version == "1.2" else _DevicesText()
    out = BytesIO()  # one copy: getting memory for 131,072 devices takes longer than filling it
    out.write(f'{{"status":"completed","version":"{version}","server_count":"{len(servers)}","server_list":['.encode())
    for index, server in enumerate(servers):
        text = f'{{"server_id":{quoted(server.server_id)},"device":[{devices_text(server.devices)}]}}'
        out.write(f"{',' if index else ''}{text}".encode("ascii"))
    pods = super_pods if version == "1.2" else ()
    pods_text = f',"super_pod_list":[{",".join(map(_super_pod_text, pods))}]' if pods else ""
    out.write(f"]{pods_text}}}".encode("ascii"))
    return out.getvalue()


class _DevicesText:
    """Devices → what stands between the brackets of 1.0's `device`.

    A launch may have to write 131,072 of them: most lists have the same device ids as the one before, for which one
    template serves.
    """

    def __init__(self) -> None:
        self._device_ids: Sequence[int] = ()
        self._template: List[str] = []

    def __call__(self, devices: Sequence[Device]) -> str:
        if not isinstance(devices, DeviceColumns) or not _are_plain(devices.addresses):
            return ",".join(map(_device_text, devices))
        if devices.device_ids != self._device_ids:
            self._device_ids = devices.device_ids
            self._template = _template(devices.device_ids)
        pieces = self._template.copy()
        pieces[1::4] = devices.addresses  # type: ignore[assignment]  # there is no None
        pieces[3::4] = decimals(devices.ranks)
        return "".join(pieces)


def _template(device_ids: Sequence[int]) -> List[str]:
    """The pieces of a list's text: of each device two that stay, and after each an empty one for a value."""
    pieces: List[str] = []
    for device_id in device_ids:
        start = '"},{' if pieces else "{"
        pieces += [f'{start}"device_id":"{device_id}","device_ip":"', "", '","rank_id":"', ""]
    return [*pieces, '"}']


def _are_plain(addresses: Sequence[Optional[str]]) -> bool:
    """Whether all are given, and written as they are."""
    try:
        text = "".join(addresses)  # type: ignore[arg-type]  # a None is what the except is for
    except TypeError:
        return False
    return text.isascii() and len(text.encode("ascii").translate(None, _ESCAPED)) == len(text)


def _device_text(device: Device) -> str:
    address = "" if device.device_ip is None else f'"device_ip":{quoted(device.device_ip)},'
    return f'{{"device_id":"{device.device_id}",{address}"rank_id":"{device.rank}"}}'


def _devices_text_1_2(devices: Sequence[Device]) -> str:
    return ",".join(map(_device_text_1_2, devices))


def _device_text_1_2(device: Device) -> str:
    address = "" if device.device_ip is None else f'"device_ip":{quoted(device.device_ip)},'
    own_id = "" if device.super_device_id is None else f'"super_device_id":{quoted(device.super_device_id)},'
    return f'{{"device_id":"{device.device_id}",{address}{own_id}"rank_id":"{device.rank}"}}'


def _super_pod_text(pod: SuperPod) -> str:
    servers = ",".join([f'{{"server_id":{quoted(server_id)}}}' for server_id in pod.server_ids])
    return f'{{"super_pod_id":{quoted(pod.super_pod_id)},"server_list":[{servers}]}}'
