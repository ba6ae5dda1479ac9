"""The rules of the form without a version, as ModelArts' launcher and HCCL's "Standard" parser read it.

Numbers where strings belong are let through here: the table is converted, and the conversion writes strings.
"""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, List, NamedTuple, Optional

from davincirun.ranktable import group_list
from davincirun.ranktable.finding import Finding, error, number, shown, warning
from davincirun.ranktable.rules import addresses, ranks, shared
from davincirun.ranktable.rules.shared import Entry


class _Pod(NamedTuple):
    where: str
    name: Any  # None in the lab form
    server: str
    entries: List[Entry]


def check(document: Dict[str, Any]) -> Iterator[Finding]:
    """All findings about a completed group_list document."""
    lab = group_list.is_lab(document)
    groups = yield from shared.objects(document, "group_list", "")
    length = len(groups)
    yield from shared.count(document, "group_count", "", length, f"group_list has {length} entries", numbers_pass=True)
    pods: List[_Pod] = []
    for index, group in enumerate(groups):
        members = yield from _group(group, f"group_list[{index}]", lab)
        pods += members
        if not lab:
            yield from _pod_indexes(members, must=index == 0 and len(members) > 1)
    if groups and not pods:
        yield error("no-devices", "group_list", "no group has devices", "is this the table of the right job?")
    entries = [entry for pod in pods for entry in pod.entries]
    if lab:
        yield from ranks.ranks(entries)
    else:
        yield from _pod_names(pods)
        yield from _shared_servers(pods)
    yield from ranks.device_ids(entries)
    yield from addresses.device_ips(entries, needed=len({pod.server for pod in pods}) > 1)


def _group(group: Dict[str, Any], where: str, lab: bool) -> Generator[Finding, None, List[_Pod]]:
    key = "device_num" if lab and "device_count" not in group else "device_count"
    declared = group.get(key)
    if (declared if type(declared) is int else number(declared)) == 0:
        yield from _skipped(group, f"{where}.{key}")
        return []
    if key not in group:
        yield shared.missing(key, where)
    instances = yield from shared.objects(group, "instance_list", where)
    length = len(instances)
    yield from shared.count(group, "instance_count", where, length, f"instance_list has {length} entries", True)
    pods = []
    for index, instance in enumerate(instances):
        pods.append((yield from _instance(instance, f"{where}.instance_list[{index}]", lab)))
    total = sum([len(pod.entries) for pod in pods])
    for finding in shared.count(group, key, where, total, f"the instances hold {total} devices", numbers_pass=True):
        wrong = finding.code == key.replace("_", "-")
        remedy = "the job would wait for cards that nobody starts: correct the one that is wrong"
        yield finding._replace(code="device-count", remedy=remedy) if wrong else finding
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
        yield warning("device-count", where, message, "correct the one that is wrong")


def _instance(instance: Dict[str, Any], where: str, lab: bool) -> Generator[Finding, None, _Pod]:
    server = yield from shared.server_id(instance, where, numbers_pass=True)
    name = None if lab else instance.get("pod_name")
    rank = None
    if lab:
        rank = yield from shared.text_number(instance, "rank_id", where, numbers_pass=True)
    devices = instance.get("devices")
    if devices in (None, []):
        message = f"devices of {'pod ' + shown(name) if name else 'the instance'} is {shown(devices)}"
        yield error("no-devices", f"{where}.devices", message, "has the device plugin annotated the pod?", "EI0014")
        return _Pod(where, name, server, [])
    listed = yield from shared.objects(instance, "devices", where)
    if lab and len(listed) > 1:
        message = f"{len(listed)} devices share one rank_id"
        yield error("lab-devices", f"{where}.devices", message, "give each device its own instance", "EI0014")
    entries = []
    for index, fields in enumerate(listed):
        entries.append((yield from _device(fields, f"{where}.devices[{index}]", server, rank)))
    return _Pod(where, name, server, entries)


def _device(fields: Dict[str, Any], where: str, server: str, rank: Optional[int]) -> Generator[Finding, None, Entry]:
    device_id = yield from shared.text_number(fields, "device_id", where, numbers_pass=True)
    return Entry(where, fields, server, rank, device_id)


def _pod_indexes(pods: List[_Pod], must: bool) -> Iterator[Finding]:
    """Ranks follow the number that ends each pod's name; ModelArts' launcher dies without one in the first group."""
    for pod in pods:
        where = f"{pod.where}.pod_name"
        if pod.name is None:
            yield shared.missing("pod_name", pod.where)
        elif not isinstance(pod.name, str):
            yield shared.not_text(where, pod.name)
        elif not _has_index(pod.name):
            message = f"pod_name {shown(pod.name)} does not end in -<number>, by which pods are ordered"
            if must:
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
            remedy = "each launcher starts its own pod's devices only"
            yield warning("shared-server", f"{pod.where}.server_id", message, remedy)
