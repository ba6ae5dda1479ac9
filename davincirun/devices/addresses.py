"""Which address a device has: the card's own word, then /etc/hccn.conf, which may be stale or renumbered."""

from __future__ import annotations

from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from davincirun.devices import LocalDevice
from davincirun.devices.hccn_conf import HccnConf
from davincirun.devices.reading import is_address
from davincirun.values import Value


class Told(Value):
    """What hccn_tool answered for one device."""

    addresses: Tuple[str, ...] = ()
    query: str = "hccn_tool -ip"  # the one that gave the addresses
    reason: str = ""  # why there are none
    eid: Optional[str] = None  # of a 950
    ports: Tuple[str, ...] = ()


class Addressed(Value):
    """The devices with their addresses, and what was odd."""

    devices: Tuple[LocalDevice, ...]
    notes: Tuple[str, ...]


def with_addresses(devices: Sequence[LocalDevice], told: Mapping[int, Told], conf: Optional[HccnConf]) -> Addressed:
    """`devices` with the addresses from `told` (by physical id) or, for those without one, from the file."""
    filed, notes = _filed(devices, conf)
    result: List[LocalDevice] = []
    reasons: Dict[str, List[int]] = {}
    for found in devices:
        answer, in_file = told.get(found.device_id, Told()), filed.get(found.device_id)
        device = found._replace(eid=answer.eid, ports=answer.ports)
        if answer.addresses:
            if in_file and in_file not in answer.addresses:
                notes.append(
                    f"device {device.device_id}: /etc/hccn.conf says {in_file}, the card itself "
                    f"{', '.join(answer.addresses)}: the file is stale and not used"
                )
            result.append(_with(device, ",".join(answer.addresses), answer.query))
        elif in_file:
            result.append(_with(device, in_file, "/etc/hccn.conf"))
        else:
            result.append(device)
            reasons.setdefault(answer.reason, []).append(device.device_id)
    notes += [_without_address(reason, device_ids, conf) for reason, device_ids in reasons.items()]
    return Addressed(tuple(result), tuple(notes))


def _with(device: LocalDevice, address: str, source: str) -> LocalDevice:
    sources = [device.source] if device.source else []
    return device._replace(device_ip=address, source=", ".join([*sources, f"address: {source}"]))


def _without_address(reason: str, device_ids: Sequence[int], conf: Optional[HccnConf]) -> str:
    who = f"device {device_ids[0]} has" if len(device_ids) == 1 else f"devices {_listed(device_ids)} have"
    file = "/etc/hccn.conf has none" if conf else "there is no /etc/hccn.conf"
    return f"{who} no address, which a job on several machines needs: {reason or 'hccn_tool was not asked'}; {file}"


def _filed(devices: Sequence[LocalDevice], conf: Optional[HccnConf]) -> Tuple[Dict[int, str], List[str]]:
    """The file's addresses by physical id.

    A container's copy may be renumbered from 0, as Paddle's guide does it: if the file has none of the physical ids
    but as many cards as there are devices, its numbers are logical ids.
    """
    notes = [f"/etc/hccn.conf: {problem}" for problem in (conf.problems if conf else ())]
    addresses: Dict[int, str] = {}
    for number, card in conf.cards.items() if conf else ():
        if card.address and is_address(card.address):
            addresses[number] = card.address
        elif card.address:
            notes.append(f"/etc/hccn.conf: address_{number}={card.address} is not an IP address and not used")
    by_device_id = {d.device_id: addresses[d.device_id] for d in devices if d.device_id in addresses}
    if by_device_id or not addresses:
        return by_device_id, notes
    if sorted(addresses) == [device.logical_id for device in devices]:
        notes.append("/etc/hccn.conf has no physical id of these devices; its numbers are taken for logical ids")
        return {device.device_id: addresses[device.logical_id] for device in devices}, notes
    notes.append(f"/etc/hccn.conf is about other cards ({_listed(sorted(addresses))}) and not used")
    return {}, notes


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
