"""The rules of the form without a version, as ModelArts' launcher and HCCL's "Standard" parser read it."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, List, NamedTuple

from davincirun.ranktable import group_list
from davincirun.ranktable.finding import Finding, error, kind, number, shown, warning
from davincirun.ranktable.rules import addresses, ranks, shared
from davincirun.ranktable.rules.shared import Entry


class _Pod(NamedTuple):
    where: str
    name: Any
    server: str
    lab_rank: Any
    entries: List[Entry]


def check(document: Dict[str, Any]) -> Iterator[Finding]:
    """All findings about a completed group_list document."""
    groups = yield from shared.objects(document, "group_list", "")
    yield from shared.count(document, "group_count", "", len(groups), "group_list has length", numbers_pass=True)
    pods: List[_Pod] = []
    for index, group in enumerate(groups):
        pods += yield from _group(group, f"group_list[{index}]", group_list.is_lab(document), not pods)
    if groups and not pods:
        yield error("no-devices", "group_list", "no group has devices", "is this the table of the right job?")
    if not group_list.is_lab(document):
        yield from _pod_names(pods)
        yield from _shared_servers(pods)
    entries = [entry for pod in pods for entry in pod.entries]
    yield from ranks.device_ids(entries)
    several = len({pod.server for pod in pods}) > 1
    yield from addresses.device_ips(entries, needed=several)


def _group(group: Dict[str, Any], where: str, lab: bool, first: bool) -> Generator[Finding, None, List[_Pod]]:
    key = "device_num" if lab and "device_count" not in group else "device_count"
    if key not in group:
        yield shared.missing(key, where)
    declared = group.get(key)
    if (declared if type(declared) is int else number(declared)) == 0:
        yield from _skipped(group, where)
        return []
    instances = yield from shared.objects(group, "instance_list", where)
    yield from shared.count(
        group, "instance_count", where, len(instances), "instance_list has length", numbers_pass=True
    )
    pods = []
    for index, instance in enumerate(instances):
        pods.append((yield from _instance(instance, f"{where}.instance_list[{index}]")))
    total = sum([len(pod.entries) for pod in pods])
    for finding in shared.count(group, key, where, total, "the instances hold", numbers_pass=True):
        remedy = (
            "a card was not reported: the job would wait for it for ever" if finding.code != "type" else finding.remedy
        )
        yield finding._replace(code=finding.code.replace("device-num", "device-count"), remedy=remedy)
    if not lab:
        yield from _pod_indexes(pods, first)
    return pods


def _skipped(group: Dict[str, Any], where: str) -> Iterator[Finding]:
    instances = group.get("instance_list")
    held = [
        instance
        for instance in (instances if isinstance(instances, list) else [])
        if isinstance(instance, dict) and instance.get("devices")
    ]
    if held:
        message = f"it is 0, so the group is skipped, but {len(held)} of its instances list devices"
        yield warning("device-count", f"{where}.device_count", message, "correct the one that is wrong")


def _instance(instance: Dict[str, Any], where: str) -> Generator[Finding, None, _Pod]:
    server = yield from _server_id(instance, where)
    name = instance.get("pod_name")
    devices = instance.get("devices")
    if devices in (None, []):
        message = f"devices of pod {name} is {shown(devices) if devices is None else 'empty'}"
        yield error("no-devices", f"{where}.devices", message, "has the device plugin annotated the pod?", "EI0014")
        return _Pod(where, name, server, instance.get("rank_id"), [])
    listed = yield from shared.objects(instance, "devices", where)
    entries = []
    for index, fields in enumerate(listed):
        place = f"{where}.devices[{index}]"
        device_id = None
        for finding in _read(fields, place):
            yield finding
        value = fields.get("device_id")
        device_id = value if type(value) is int else number(value)
        entries.append(Entry(place, fields, server, None, device_id))
    return _Pod(where, name, server, instance.get("rank_id"), entries)


def _read(fields: Dict[str, Any], where: str) -> Iterator[Finding]:
    """A device_id that is a number is written as a string when the table is converted, so it does no harm."""
    for finding in shared.text_number(fields, "device_id", where):
        if finding.code == "type" and type(fields["device_id"]) is int and fields["device_id"] >= 0:
            yield warning("type", finding.where, finding.message, "harmless, since the table is converted")
        else:
            yield finding


def _server_id(instance: Dict[str, Any], where: str) -> Generator[Finding, None, str]:
    value = instance.get("server_id")
    if type(value) is int:
        yield warning(
            "type",
            f"{where}.server_id",
            f"{value} is a number, HCCL itself wants a string",
            "harmless, since the table is converted",
        )
        return str(value)
    return (yield from shared.server_id(instance, where))


def _pod_indexes(pods: List[_Pod], first: bool) -> Iterator[Finding]:
    """Ranks follow the number that ends each pod's name, so several pods need one each."""
    for pod in pods:
        where = f"{pod.where}.pod_name"
        if pod.name is None:
            yield shared.missing("pod_name", pod.where)
        elif not isinstance(pod.name, str):
            yield error("type", where, f"{shown(pod.name)} is {kind(pod.name)}, it must be a string", hccl="EI0017")
        elif not _has_index(pod.name):
            message = f"pod_name {shown(pod.name)} does not end in -<number>, by which pods are ordered"
            if first and len(pods) > 1:
                yield error("pod-index", where, message, "rename the pods, or give the table as version 1.0")
            else:
                yield warning("pod-index", where, message, "the file's order stands")


def _has_index(pod_name: str) -> bool:
    try:
        group_list.pod_index(pod_name)
    except ValueError:
        return False
    return True


def _pod_names(pods: List[_Pod]) -> Iterator[Finding]:
    seen: Dict[str, str] = {}
    for pod in pods:
        if isinstance(pod.name, str) and seen.setdefault(pod.name, pod.where) != pod.where:
            message = f"pod_name {pod.name} is already listed at {seen[pod.name]}: was the pod restarted?"
            yield error("pod-duplicate", f"{pod.where}.pod_name", message, "remove the entry that is gone", "EI0014")


def _shared_servers(pods: List[_Pod]) -> Iterator[Finding]:
    first: Dict[str, _Pod] = {}
    for pod in pods:
        other = first.setdefault(pod.server, pod)
        if other is not pod and pod.server:
            message = f"pods {other.name} and {pod.name} share server {pod.server}: one server entry in version 1.0"
            yield warning(
                "shared-server", f"{pod.where}.server_id", message, "each launcher starts only its own pod's devices"
            )
