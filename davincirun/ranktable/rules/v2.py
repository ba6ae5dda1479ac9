"""The rules of version 2.0 (Ascend 950): ids are JSON numbers, each rank lists its network layers."""

from __future__ import annotations

import re
from typing import Any, Dict, Generator, Iterator, Optional

from davincirun.ranktable.finding import Finding, error, kind, shown, warning
from davincirun.ranktable.rules import addresses, ranks, shared, v2_layers
from davincirun.ranktable.rules.shared import Entry, Reading

BACKUP_LOCAL_ID = 64
_EID = re.compile(r"[0-9a-fA-F]{32}\Z")
_NET_TYPES = ("TOPO_FILE_DESC", "CLOS", "1DMESH", "2DMESH", "A3_SERVER", "A2_AX_SERVER")
_ADDRESS_TYPES = ("EID", "IPV4", "IPV6")


def check(document: Dict[str, Any]) -> Iterator[Finding]:
    """All findings about a completed 2.0 document."""
    if document.get("status") != "completed":
        message = f"it is {shown(document.get('status'))}; HCCL doesn't look at it in 2.0, others may"
        yield warning("bad-status", "status", message, 'write "completed"')
    rank_list = yield from shared.objects(document, "rank_list", "")
    count = yield from _number(document, "rank_count", "", range(1, 65537))
    if count is not None and count != len(rank_list):
        message = f"rank_count is {count} but rank_list has {len(rank_list)} entries"
        yield error("rank-count", "rank_count", message, "correct the one that is wrong", "EI0014")
    entries = []
    for index, rank in enumerate(rank_list):
        entries.append((yield from _ids(rank, f"rank_list[{index}]")))
    yield from ranks.ranks(entries)
    for entry in entries:
        yield from _ports_and_layers(entry)
    yield from v2_layers.equal_address_counts(entries)
    if document.get("detour", "true") not in ("true", "false"):
        message = f'{shown(document["detour"])} is neither "true" nor "false"'
        yield error("detour", "detour", message, "correct it or leave it out", "EI0014")


def _ids(rank: Dict[str, Any], where: str) -> Generator[Finding, None, Entry]:
    rank_id = yield from _number(rank, "rank_id", where, range(65536))
    local_id = yield from _number(rank, "local_id", where, range(BACKUP_LOCAL_ID + 1))
    device_id = yield from _number(rank, "device_id", where, range(65))
    if local_id == BACKUP_LOCAL_ID:
        yield from _number(rank, "replaced_local_id", where, range(BACKUP_LOCAL_ID))
    return Entry(where, rank, f"local_id {shown(local_id)},", rank_id, device_id)


def _ports_and_layers(entry: Entry) -> Iterator[Finding]:
    where, rank = entry.where, entry.fields
    for key in ("device_port", "host_port"):
        if key in rank:
            yield from _number(rank, key, where, shared.PORTS, "port-range")
    layers = yield from shared.objects(rank, "level_list", where)
    if len(layers) > 8:
        yield error("net-layer", f"{where}.level_list", f"{len(layers)} layers, HCCL takes 8", hccl="EI0014")
    before = -1
    for index, layer in enumerate(layers):
        place = f"{where}.level_list[{index}]"
        number = yield from _number(layer, "net_layer", place, range(8), "net-layer")
        if number is not None and number <= before:
            message = f"net_layer {number} stands after {before} in rank {shown(entry.rank)}; layers must rise"
            yield error("net-layer", f"{place}.net_layer", message, "sort level_list by net_layer", "EI0014")
        before = before if number is None else number
        yield from _layer(layer, place, number)


def _layer(layer: Dict[str, Any], where: str, number: Optional[int]) -> Iterator[Finding]:
    yield from _text(layer, "net_instance_id", where, 1024)
    net_type = layer.get("net_type")
    if net_type not in _NET_TYPES:
        message = f"{shown(net_type)} is none of {', '.join(_NET_TYPES)}"
        yield error("net-type", f"{where}.net_type", message, "correct it", "EI0014")
    elif number == 0 and net_type == "CLOS":
        yield error("net-type", f"{where}.net_type", "layer 0 can't be CLOS", "write TOPO_FILE_DESC", "EI0014")
    addresses_listed = layer.get("rank_addr_list")
    if addresses_listed in (None, []):
        return
    listed = yield from shared.objects(layer, "rank_addr_list", where)
    if len(listed) > 24:
        yield error("addr-count", f"{where}.rank_addr_list", f"{len(listed)} addresses, HCCL takes 24", hccl="EI0014")
    for index, address in enumerate(listed):
        yield from _address(address, f"{where}.rank_addr_list[{index}]")
    yield from v2_layers.ports_once(layer, where)


def _address(address: Dict[str, Any], where: str) -> Iterator[Finding]:
    addr_type, addr = address.get("addr_type"), address.get("addr")
    if addr_type not in _ADDRESS_TYPES:
        upper = isinstance(addr_type, str) and addr_type.upper() in _ADDRESS_TYPES
        remedy = f"write {addr_type.upper()}" if isinstance(addr_type, str) and upper else "correct it"
        message = f"{shown(addr_type)} is none of {', '.join(_ADDRESS_TYPES)}"
        yield error("addr-type", f"{where}.addr_type", message, remedy, "EI0014")
    elif not isinstance(addr, str) or not _fits(addr_type, addr):
        yield error("bad-addr", f"{where}.addr", f"{shown(addr)} is no {addr_type} address", "correct it", "EI0014")
    ports = address.get("ports")
    if not isinstance(ports, list) or not 1 <= len(ports) <= 16 or not all(_is_port(port) for port in ports):
        message = f'{shown(ports)} must be a list of 1 to 16 strings like "0/4"'
        yield error("addr-ports", f"{where}.ports", message, "name the ports die/port", "EI0014")
    if "plane_id" in address:
        yield from _text(address, "plane_id", where, 1024)


def _fits(addr_type: str, addr: str) -> bool:
    if addr_type == "EID":
        return bool(_EID.match(addr))
    return addresses.family(addr) == (4 if addr_type == "IPV4" else 6)


def _is_port(port: object) -> bool:
    return isinstance(port, str) and 1 <= len(port) <= 32


def _text(holder: Dict[str, Any], key: str, where: str, longest: int) -> Iterator[Finding]:
    value = holder.get(key)
    if key not in holder:
        yield shared.missing(key, where)
    elif not isinstance(value, str) or not 1 <= len(value) <= longest:
        message = f"{shown(value)} must be a string of 1 to {longest} characters"
        yield error("type" if not isinstance(value, str) else "empty", f"{where}.{key}", message, hccl="EI0014")


def _number(holder: Dict[str, Any], key: str, where: str, allowed: range, code: str = "range") -> Reading:
    place = f"{where}.{key}" if where else key
    if key not in holder:
        yield shared.missing(key, where)
        return None
    value = holder[key]
    if type(value) is not int:
        message = f"{shown(value)} is {kind(value)}, it must be a number in version 2.0 (in 1.0 it is the reverse)"
        remedy = f"write {value}" if isinstance(value, str) and value.isdigit() else "write a number"
        yield error("type", place, message, remedy, "EI0014")
        return None
    if value not in allowed:
        yield error(code, place, f"{value} is not within {allowed[0]}-{allowed[-1]}", "correct it", "EI0014")
    return value
