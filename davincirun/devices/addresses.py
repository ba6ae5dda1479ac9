"""Which address a device has: the card's own word, then /etc/hccn.conf, which may be stale or renumbered."""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from davincirun.devices import LocalDevice
from davincirun.devices.hccn_conf import HccnConf


class Told(NamedTuple):
    """The addresses that hccn_tool gave for one device."""

    addresses: Tuple[str, ...]
    source: str  # the query that gave them


class Addressed(NamedTuple):
    """The devices with their addresses, and what was odd."""

    devices: Tuple[LocalDevice, ...]
    notes: Tuple[str, ...]


def with_addresses(devices: Sequence[LocalDevice], told: Mapping[int, Told], conf: Optional[HccnConf]) -> Addressed:
    """`devices` with the addresses from `told` (by physical id) or, for those without one, from the file."""
    filed, notes = _filed(devices, conf)
    result: List[LocalDevice] = []
    for device in devices:
        answer, in_file = told.get(device.device_id), filed.get(device.device_id)
        if answer and answer.addresses:
            if in_file and in_file not in answer.addresses:
                notes.append(
                    f"device {device.device_id}: /etc/hccn.conf says {in_file}, the card itself "
                    f"{', '.join(answer.addresses)}: the file is stale and not used"
                )
            result.append(_with(device, ",".join(answer.addresses), answer.source))
        elif in_file:
            result.append(_with(device, in_file, "/etc/hccn.conf"))
        else:
            result.append(device)
    return Addressed(tuple(result), tuple(notes))


def _with(device: LocalDevice, address: str, source: str) -> LocalDevice:
    sources = [device.source] if device.source else []
    return device._replace(device_ip=address, source=", ".join([*sources, f"address: {source}"]))


def _filed(devices: Sequence[LocalDevice], conf: Optional[HccnConf]) -> Tuple[Dict[int, str], List[str]]:
    """The file's addresses by physical id.

    A container's copy may be renumbered from 0 (Paddle's guide says how): if it has none of the physical ids as it
    has as many cards as there are devices, its numbers are logical ids.
    """
    addresses = {number: card.address for number, card in conf.cards.items() if card.address} if conf else {}
    by_device_id = {d.device_id: addresses[d.device_id] for d in devices if d.device_id in addresses}
    if by_device_id or not addresses:
        return by_device_id, []
    if sorted(addresses) == sorted(device.logical_id for device in devices):
        note = "/etc/hccn.conf has no physical id of this machine's devices; its numbers are taken for logical ids"
        return {device.device_id: addresses[device.logical_id] for device in devices}, [note]
    return {}, ["/etc/hccn.conf names other cards than this machine's and is not used"]
