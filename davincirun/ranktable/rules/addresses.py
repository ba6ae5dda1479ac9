"""Rules about `device_ip` and the other addresses of versions 1.0 and 1.2 and of the group_list form."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from davincirun.ranktable.finding import Finding, error, kind, shown, warning
from davincirun.ranktable.rules.shared import Entry

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}\Z")


def family(address: str) -> Optional[int]:
    """4 or 6, or None when HCCL can't take `address`; IPv6 may name a zone (fe80::1%eth0)."""
    if _IPV4.match(address):
        return 4
    if ":" not in address:
        return None
    try:
        ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return None
    return 6


def device_ips(entries: Sequence[Entry], needed: bool) -> Iterator[Finding]:
    """Each address is one, there once, of the family and the number of the others; `needed`: none may be missing."""
    seen: Dict[str, Entry] = {}
    first: Optional[Tuple[Entry, List[Optional[int]]]] = None  # the first device's families, which all must share
    for entry in entries:
        value = entry.fields.get("device_ip")
        if (value is None and "device_ip" in entry.fields) or not isinstance(value, (str, type(None))):
            message = f"{shown(value)} is {kind(value)}, it must be a string"
            yield error("type", _place(entry), message, hccl="EI0017")
        elif not value:
            if needed:
                yield _no_device_ip(entry)
        else:
            addresses = value.split(",")
            families = []
            for address in addresses:
                families.append(family(address))
                if families[-1] is None:
                    yield _bad_device_ip(entry, address, _place(entry))
                other = seen.setdefault(address, entry)
                if other is not entry and families[-1] is not None:
                    yield _double(entry, other, address, _place(entry))
            first = first or (entry, families)
            if needed and families != first[1] and None not in families:
                yield from _unlike(entry, families, first, _place(entry))


def _place(entry: Entry) -> str:
    return f"{entry.where}.device_ip"


def host_address(fields: Dict[str, Any], key: str, where: str) -> Iterator[Finding]:
    """`key` may be left out, but what it holds must be an address: HCCL parses it, the empty string too."""
    if key not in fields:
        return
    value = fields[key]
    if not isinstance(value, str):
        yield error("type", f"{where}.{key}", f"{shown(value)} is {kind(value)}, it must be a string", hccl="EI0017")
    elif family(value) is None:
        message = f"{shown(value)} is no address, which recent releases of HCCL refuse"
        yield error("bad-host-ip", f"{where}.{key}", message, f"give the host's address or leave {key} out", "EI0014")


def backup_ip(entry: Entry) -> Iterator[Finding]:
    """The other die's address, which HCCL looks at on A3 with retries only."""
    value = entry.fields.get("backup_device_ip")
    where = f"{entry.where}.backup_device_ip"
    if not value:
        return
    if not isinstance(value, str) or None in map(family, value.split(",")):
        yield warning("bad-device-ip", where, f"{shown(value)} is no address", "give the other die's address")
    elif value == entry.fields.get("device_ip"):
        yield warning(
            "backup-is-own", where, f"{shown(value)} is the device's own address", "give the other die's address"
        )


def _no_device_ip(entry: Entry) -> Finding:
    card = "N" if entry.device_id is None else entry.device_id
    message = (
        f"{entry.name} has no device_ip; with several servers every device needs one (not inside one A3 super pod)"
    )
    return error("no-device-ip", entry.where, message, f"hccn_tool -i {card} -ip -g shows it", "EI0014")


def _bad_device_ip(entry: Entry, address: str, where: str) -> Finding:
    card = "N" if entry.device_id is None else entry.device_id
    if address != address.strip() and family(address.strip()) is not None:
        return error("bad-device-ip", where, f"{shown(address)} begins or ends with a blank", "strip it", "EI0014")
    message = f"{shown(address)} is no address: the NPU's network port may have none configured"
    return error("bad-device-ip", where, message, f"see hccn_tool -i {card} -ip -g", "EI0014")


def _double(entry: Entry, other: Entry, address: str, where: str) -> Finding:
    message = f"{address} is device_ip of {entry.name} and of {other.name}"
    return error("dup-device-ip", where, message, "was /etc/hccn.conf cloned?", "EI0014")


def _unlike(
    entry: Entry, families: List[Optional[int]], first: Tuple[Entry, List[Optional[int]]], where: str
) -> Iterator[Finding]:
    model, wanted = first
    if len(families) != len(wanted):
        message = f"{entry.name} has {len(families)} addresses, {model.name} has {len(wanted)}"
        yield error("device-ip-count", where, message, "give every device as many", "EI0014")
    elif wanted[0] is not None and families[0] != wanted[0]:
        message = f"{model.name} has an IPv{wanted[0]} device_ip, {entry.name} an IPv{families[0]} one"
        yield error("ip-family", where, message, "use one family in the whole table", "EI0001")
