"""The rules of version 1.2's super pods (Atlas A3)."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, List, Sequence, Tuple

from davincirun.ranktable.finding import Finding, error, kind, number, shown
from davincirun.ranktable.rules import shared
from davincirun.ranktable.rules.ranks import Place
from davincirun.ranktable.rules.shared import Entry


def check(
    document: Dict[str, Any], entries: Sequence[Entry], places: Sequence[Place]
) -> Generator[Finding, None, bool]:
    """Findings about super pods; returns whether all servers are in one, where devices need no address."""
    if document.get("version") != "1.2":
        return False
    listed = "super_pod_list" in document
    yield from _own_ids(entries, listed)
    if not listed:
        return False
    pods = yield from shared.objects(document, "super_pod_list", "")
    pod_of = yield from _members(pods, {place.server_id for place in places})
    for place in places:
        if pods and place.server_id and place.server_id not in pod_of:
            message = f"server {place.server_id} is in no super pod"
            yield error("superpod-server", f"{place.where}.server_id", message, "list it in super_pod_list", "EI0014")
    yield from _unique(entries, pod_of)
    return len(pods) == 1


def _own_ids(entries: Sequence[Entry], needed: bool) -> Iterator[Finding]:
    for entry in entries:
        if "super_device_id" not in entry.fields and not needed:
            continue
        value = entry.fields.get("super_device_id")
        where = f"{entry.where}.super_device_id"
        rank = "?" if entry.rank is None else entry.rank
        remedy = f"npu-smi info -t spod-info -i {entry.device_id or 0} -c 0 shows it"
        if value is None or value == "":
            yield error("super-device-id", where, f"it is empty on rank {rank}", remedy, "EI0014")
        elif not isinstance(value, str):
            yield error("type", where, f"{shown(value)} is {kind(value)}, it must be a string", remedy, "EI0017")
        elif number(value) is None:
            yield error("super-device-id", where, f"{shown(value)} on rank {rank} is no number", remedy, "EI0014")


def _members(pods: List[Dict[str, Any]], known: "set[str]") -> Generator[Finding, None, Dict[str, str]]:
    """Which super pod each server is in."""
    pod_of: Dict[str, str] = {}
    seen: Dict[str, str] = {}
    for index, pod in enumerate(pods):
        where = f"super_pod_list[{index}]"
        pod_id = pod.get("super_pod_id")
        if not isinstance(pod_id, str) or not pod_id:
            message = f"super_pod_id is {shown(pod_id)}, it must be a string that isn't empty"
            yield error("super-pod-id", f"{where}.super_pod_id", message, "name the super pod", "EI0014")
            pod_id = where
        elif seen.setdefault(pod_id, where) != where:
            message = f"super pod {pod_id} is already listed at {seen[pod_id]}"
            yield error("super-pod-id", f"{where}.super_pod_id", message, "give it one entry", "EI0014")
        members = yield from shared.objects(pod, "server_list", where)
        for position, member in enumerate(members):
            place = f"{where}.server_list[{position}]"
            server_id = yield from shared.server_id(member, place)
            if server_id and server_id not in known:
                message = f"super_pod_list names {server_id}, which is not in server_list"
                yield error("superpod-server", f"{place}.server_id", message, "correct the name", "EI0014")
            elif pod_of.setdefault(server_id, pod_id) != pod_id:
                message = f"server {server_id} is in super pod {pod_of[server_id]} too"
                yield error("superpod-server", f"{place}.server_id", message, "list it once", "EI0014")
    return pod_of


def _unique(entries: Sequence[Entry], pod_of: Dict[str, str]) -> Iterator[Finding]:
    first: Dict[Tuple[str, int], Entry] = {}
    for entry in entries:
        own_id = number(entry.fields.get("super_device_id"))
        if own_id is None or entry.server not in pod_of:
            continue
        other = first.setdefault((pod_of[entry.server], own_id), entry)
        if other is not entry:
            message = (
                f"{own_id} is there twice in super pod {shown(pod_of[entry.server])}: {other.name} and {entry.name}"
            )
            remedy = "npu-smi info -t spod-info shows each device's own"
            yield error("super-device-id", f"{entry.where}.super_device_id", message, remedy, "EI0014")
