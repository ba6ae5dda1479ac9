"""Several tables → one, with ranks numbered anew. Every key of the parts is kept; nothing may be there twice."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from davincirun.errors import RankTableError
from davincirun.ranktable import group_list
from davincirun.ranktable.document import GROUP_LIST, RankTable
from davincirun.ranktable.finding import number
from davincirun.ranktable.launch import to_cluster
from davincirun.ranktable.order import natural
from davincirun.ranktable.rules.ranks import is_loopback

ORDERS = ("given", "server", "pod")

Document = Dict[str, Any]


class Part(NamedTuple):
    """One of the tables to merge."""

    path: str
    table: RankTable


def merge(parts: Sequence[Part], order: str = "given") -> Document:
    """One document of all `parts`, which must have one form.

    `order`: "given" numbers ranks part after part, "server" by server id (numbers in it as numbers), "pod" by the
    number that ends the pod's name or server's id. RankTableError for mixed forms and for doubles.
    """
    forms = {part.table.form for part in parts}
    if len(forms) != 1:
        names = " and ".join(sorted(forms))
        raise RankTableError(
            parts[1].path, "", f"tables of form {names} can't be merged: convert them to one form first"
        )
    form = forms.pop()
    if form not in _MERGERS:
        raise RankTableError(parts[0].path, "", f"tables of version {form} can't be merged")
    for part in parts:
        to_cluster(part.table, part.path)
    document = _MERGERS[form](parts, order)
    to_cluster(RankTable(form, document, b""), "the merged table")
    return document


def _merge_v1(parts: Sequence[Part], order: str) -> Document:
    servers: List[Tuple[Part, int, Document]] = []  # with the number of ranks in the parts before
    offset = 0
    for part in parts:
        own = part.table.document["server_list"]
        servers += [(part, offset, server) for server in own]
        offset += sum([len(server["device"]) for server in own])
    _refuse_doubles("server_id", [(server["server_id"], part.path) for part, _, server in servers])
    _refuse_doubles("device_ip", _addresses([(part, server["device"]) for part, _, server in servers]))
    document = _rest(parts, ("server_list", "server_count", "super_pod_list"))
    document["server_count"] = str(len(servers))
    if order == "given":
        document["server_list"] = [_renumbered(server, offset) for _, offset, server in servers]
    else:
        document["server_list"] = _numbered_by_server([server for _, _, server in servers], order)
    if any("super_pod_list" in part.table.document for part in parts):
        document["super_pod_list"] = _super_pods(parts)
    return document


def _renumbered(server: Document, offset: int) -> Document:
    devices = [{**device, "rank_id": str(offset + _rank(device))} for device in server["device"]]
    return {**server, "device": devices}


def _rank(device: Document) -> int:
    return number(device["rank_id"]) or 0


def _numbered_by_server(servers: List[Document], order: str) -> List[Document]:
    """Servers sorted by id, devices keep the order their ranks gave them."""
    rank = 0
    result = []
    for server in sorted(servers, key=lambda server: _key(server["server_id"], order)):
        devices = []
        for device in sorted(server["device"], key=_rank):
            devices.append({**device, "rank_id": str(rank)})
            rank += 1
        result.append({**server, "device": devices})
    return result


def _super_pods(parts: Sequence[Part]) -> List[Document]:
    """The super pods of all parts; one that several parts name holds the servers of all of them."""
    pods: Dict[str, Document] = {}
    for part in parts:
        for pod in part.table.document.get("super_pod_list", []):
            known = pods.setdefault(pod["super_pod_id"], {**pod, "server_list": []})
            known["server_list"] = known["server_list"] + pod["server_list"]
    return list(pods.values())


def _merge_group_list(parts: Sequence[Part], order: str) -> Document:
    groups: Dict[str, Document] = {}
    instances: Dict[str, List[Document]] = {}
    pods: List[Tuple[str, str]] = []
    devices: List[Tuple[Part, List[Document]]] = []
    for part in parts:
        for group in part.table.document["group_list"]:
            name = str(group.get("group_name", ""))
            groups.setdefault(name, group)
            members = group.get("instance_list") or []
            instances.setdefault(name, []).extend(members)
            pods += [(str(instance.get("pod_name")), part.path) for instance in members]
            devices += [(part, instance["devices"] or []) for instance in members]
    if not group_list.is_lab(parts[0].table.document):
        _refuse_doubles("pod_name", pods)
    _refuse_doubles("device_ip", _addresses(devices))
    document = _rest(parts, ("group_list", "group_count"))
    document["group_count"] = str(len(groups))
    document["group_list"] = [_group(group, instances[name], order) for name, group in groups.items()]
    return document


def _group(group: Document, instances: List[Document], order: str) -> Document:
    if order != "given":
        key = "pod_name" if order == "pod" else "server_id"
        instances = sorted(instances, key=lambda instance: _key(str(instance[key]), order))
    count = str(sum([len(instance["devices"] or []) for instance in instances]))
    device_key = "device_num" if "device_num" in group else "device_count"
    return {**group, device_key: count, "instance_count": str(len(instances)), "instance_list": instances}


def _merge_v2(parts: Sequence[Part], order: str) -> Document:
    if order != "given":
        raise RankTableError(parts[0].path, "", "2.0 names no servers to order by: give the tables in order")
    ranks: List[Document] = []
    for part in parts:
        offset = len(ranks)
        ranks += [{**rank, "rank_id": rank["rank_id"] + offset} for rank in part.table.document["rank_list"]]
    _refuse_doubles("addr", [pair for part in parts for pair in _layer_addresses(part)])
    document = _rest(parts, ("rank_list", "rank_count"))
    document["rank_count"] = len(ranks)
    document["rank_list"] = ranks
    return document


def _layer_addresses(part: Part) -> Iterable[Tuple[str, str]]:
    """Each address of the part once per layer: planes of one device may share one inside a table."""
    own = {
        f"layer {layer.get('net_layer')}: {address.get('addr')}"
        for rank in part.table.document["rank_list"]
        for layer in rank.get("level_list") or []
        for address in layer.get("rank_addr_list") or []
    }
    return [(address, part.path) for address in sorted(own)]


def _rest(parts: Sequence[Part], merged: Sequence[str]) -> Document:
    """The other keys: lists are joined, what else differs between parts has no right value."""
    document: Document = {}
    for part in parts:
        for key, value in part.table.document.items():
            if key in merged:
                document.setdefault(key, None)  # keeps the first part's order of keys
            elif key not in document:
                document[key] = value
            elif isinstance(value, list) and isinstance(document[key], list):
                document[key] = document[key] + value
            elif value != document[key]:
                raise RankTableError(part.path, key, f"it differs from {parts[0].path}'s: make them equal first")
    return {key: value for key, value in document.items() if key != "super_pod_list"}


def _addresses(devices: Iterable[Tuple[Part, List[Document]]]) -> List[Tuple[str, str]]:
    return [(entry["device_ip"], part.path) for part, entries in devices for entry in entries if entry.get("device_ip")]


def _refuse_doubles(key: str, values: Iterable[Tuple[str, str]]) -> None:
    first: Dict[str, str] = {}
    for value, path in values:
        if first.setdefault(value, path) != path:
            hint = "both hosts resolved their own name to loopback: give --server_ip" if is_loopback(value) else ""
            remedy = hint or "was a file given twice, or made on the same machine?"
            raise RankTableError(path, key, f"{value} is in {first[value]} too; {remedy}")


def _key(name: str, order: str) -> Any:
    if order == "server":
        return natural(name)
    try:
        return (group_list.pod_index(name), natural(name))
    except ValueError:
        raise RankTableError("", name, "it does not end in -<number>, by which --order pod sorts") from None


_MERGERS: Dict[str, Callable[[Sequence[Part], str], Document]] = {
    GROUP_LIST: _merge_group_list,
    "1.0": _merge_v1,
    "1.2": _merge_v1,
    "2.0": _merge_v2,
}
