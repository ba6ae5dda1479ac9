"""What differs between two tables, in the words of ranks and servers."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

from davincirun.cluster import Cluster, Device
from davincirun.ranktable.document import RankTable
from davincirun.ranktable.finding import shown
from davincirun.ranktable.launch import to_cluster
from davincirun.ranktable.order import ranges


class Difference(NamedTuple):
    """The answer to "do these tables make the same job?"."""

    cluster: List[str]  # servers, ranks, devices and addresses that differ
    text: List[str]  # with equal clusters: other values that differ, which HCCL's checksum notices all the same


def diff(before: RankTable, before_path: str, after: RankTable, after_path: str) -> Difference:
    """Compare two usable tables of any forms; RankTableError when one isn't usable."""
    old, new = to_cluster(before, before_path), to_cluster(after, after_path)
    cluster = [*_servers(old, new), *_ranks(old, new), *_super_pods(old, new)]
    if cluster:
        return Difference(cluster, [])
    if before.form != after.form:
        return Difference([], [f"form: {before.form} -> {after.form}"])
    return Difference([], list(_values(before.document, after.document, "")))


def _servers(old: Cluster, new: Cluster) -> Iterator[str]:
    mine = {server.server_id: server for server in old.servers}
    others = {server.server_id: server for server in new.servers}
    for server_id, server in mine.items():
        if server_id not in others:
            yield f"- server {server_id}: ranks {ranges([device.rank for device in server.devices])}"
    for server_id, server in others.items():
        if server_id not in mine:
            yield f"+ server {server_id}: ranks {ranges([device.rank for device in server.devices])}"
        elif sorted(mine[server_id].addresses) != sorted(server.addresses):
            yield f"  server {server_id}: known as {_list(mine[server_id].addresses)} -> {_list(server.addresses)}"


def _ranks(old: Cluster, new: Cluster) -> Iterator[str]:
    mine, others = dict(_by_rank(old)), dict(_by_rank(new))
    if len(mine) != len(others):
        yield f"  ranks: {len(mine)} -> {len(others)}"
    for rank in sorted(set(mine) & set(others)):
        (server, device), (other_server, other) = mine[rank], others[rank]
        if (server, device.device_id) != (other_server, other.device_id):
            yield f"  rank {rank}: {server} device {device.device_id} -> {other_server} device {other.device_id}"
        for name, a, b in (
            ("device_ip", device.device_ip, other.device_ip),
            ("super_device_id", device.super_device_id, other.super_device_id),
        ):
            if (a or None) != (b or None):
                yield f"  rank {rank}: {name} {a or 'none'} -> {b or 'none'}"


def _by_rank(cluster: Cluster) -> Iterator[Tuple[int, Tuple[str, Device]]]:
    for server in cluster.servers:
        for device in server.devices:
            yield device.rank, (server.server_id, device)


def _super_pods(old: Cluster, new: Cluster) -> Iterator[str]:
    mine = {pod.super_pod_id: sorted(pod.server_ids) for pod in old.super_pods}
    others = {pod.super_pod_id: sorted(pod.server_ids) for pod in new.super_pods}
    for pod_id in sorted(set(mine) | set(others)):
        if mine.get(pod_id) != others.get(pod_id):
            yield f"  super pod {pod_id}: {_list(mine.get(pod_id))} -> {_list(others.get(pod_id))}"


def _list(names: Optional[Any]) -> str:
    return ", ".join(names) if names else "none"


def _values(a: Any, b: Any, where: str) -> Iterator[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *[key for key in b if key not in a]]:
            place = f"{where}.{key}" if where else key
            if key not in b:
                yield f"- {place}: {shown(a[key])}"
            elif key not in a:
                yield f"+ {place}: {shown(b[key])}"
            else:
                yield from _values(a[key], b[key], place)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (x, y) in enumerate(zip(a, b)):
            yield from _values(x, y, f"{where}[{index}]")
    elif a != b or type(a) is not type(b):
        yield f"  {where}: {shown(a)} -> {shown(b)}"
