"""Devices by the list: what one server or pod holds is read in one go, while it is in the processor's cache.

131,072 devices must not cost more than reading their JSON did, so these loops call no Python function per device.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from davincirun.cluster import Device
from davincirun.ranktable.finding import number

Entry = Dict[str, Any]

_EACH_ADDRESS_UP_TO = 16384  # devices; beyond, telling 131,072 addresses apart takes as long as all the rest
_new_device = partial(tuple.__new__, Device)  # Device(…) without its Python frame


def devices_by_list(
    lists: Sequence[List[Entry]], converted: bool = False, super_pods: bool = False
) -> List[Tuple[Device, ...]]:
    """The devices of each list, ranked by `rank_id`; when `converted`, by position, and ids may be JSON numbers.

    ValueError, KeyError or TypeError for an empty list, an id that is no number, a device that a list has twice,
    an address that is none or there twice (in big tables: a list of addresses that is there twice).
    """
    result: List[Tuple[Device, ...]] = []
    device_ids: Dict[Tuple[Any, ...], List[int]] = {}  # most lists have the same ones: read them once
    seen = _Addresses(each=sum(map(len, lists)) <= _EACH_ADDRESS_UP_TO)
    start = 0
    for entries in lists:
        id_texts, addresses = ids_and_addresses(entries)
        if id_texts not in device_ids:
            device_ids[id_texts] = _distinct_numbers(id_texts, converted)
        seen.add(addresses)
        ranks = range(start, start + len(entries)) if converted else numbers([entry["rank_id"] for entry in entries])
        own_ids = _super_device_ids(entries) if super_pods else repeat(None)
        result.append(tuple(map(_new_device, zip(ranks, device_ids[id_texts], addresses, own_ids))))
        start += len(entries)
    return result


def ids_and_addresses(entries: List[Entry]) -> Tuple[Tuple[Any, ...], List[Any]]:
    """`device_id` and `device_ip` of all entries, None for an address that isn't there."""
    try:
        return tuple([entry["device_id"] for entry in entries]), [entry["device_ip"] for entry in entries]
    except KeyError:
        return tuple([entry["device_id"] for entry in entries]), [entry.get("device_ip") for entry in entries]


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL does; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


class _Addresses:
    """The addresses met so far: each of them, or in a big table only each whole list, as a cloned file repeats it."""

    def __init__(self, each: bool) -> None:
        self._each = each
        self._seen: Set[str] = set()

    def add(self, addresses: List[Optional[str]]) -> None:
        """ValueError for one that is no address or was there before; TypeError when it isn't even a string."""
        given: Any = list(filter(None, addresses)) if self._each or None in addresses else addresses
        joined = ",".join(given)
        if "-" in joined or " " in joined:  # an IPv6 zone may have a dash
            _check_each(given)
        new = given if self._each else [joined] if joined.strip(",") else []
        before = len(self._seen)
        self._seen.update(new)
        if len(self._seen) != before + len(new):
            raise ValueError("device_ip is not unique")


def _check_each(addresses: Iterable[str]) -> None:
    from davincirun.ranktable.rules.addresses import family

    if None in [family(one) for address in addresses if address for one in address.split(",")]:
        raise ValueError("device_ip is no address")


def _distinct_numbers(texts: Sequence[Any], numbers_pass: bool) -> List[int]:
    found = numbers([str(text) if numbers_pass and type(text) is int else text for text in texts])
    if not found or len(set(found)) != len(found):
        raise ValueError("no device, or one that is there twice")
    return found


def _super_device_ids(entries: Iterable[Entry]) -> List[Optional[str]]:
    values = [entry.get("super_device_id") for entry in entries]
    given = [value for value in values if value is not None]
    if len(set(numbers(given))) != len(given):
        raise ValueError("super_device_id is not unique")
    return values
