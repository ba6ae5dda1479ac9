"""Devices by the list: what one server or pod holds is read in one go, while it is in the processor's cache.

131,072 devices must not cost more than reading their JSON did, so these loops call no Python function per device.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from davincirun.cluster import Device
from davincirun.ranktable.finding import number

Entry = Dict[str, Any]
Addresses = Sequence[Optional[str]]

_EACH_ADDRESS_UP_TO = 16384  # devices; beyond, telling 131,072 addresses apart takes as long as all the rest
_new_device = partial(tuple.__new__, Device)  # Device(…) without its Python frame
_ids_and_addresses = itemgetter("device_id", "device_ip")
_rank_id_of = itemgetter("rank_id")


def devices_by_list(
    lists: Sequence[List[Entry]], converted: bool = False, super_pods: bool = False
) -> List[Tuple[Device, ...]]:
    """The devices of each list, ranked by `rank_id`; when `converted`, by position, and ids may be JSON numbers.

    ValueError, KeyError or TypeError for an empty list, an id that is no number, a device that a list has twice,
    an address that is none or there twice (in big tables: a list of addresses that is there twice).
    """
    result: List[Tuple[Device, ...]] = []
    device_ids: Dict[Tuple[Any, ...], List[int]] = {}  # most lists have the same ones: read them once
    unique = _Unique(sum(map(len, lists)))
    start = 0
    for entries in lists:
        id_texts, addresses = ids_and_addresses(entries)
        if id_texts not in device_ids:
            device_ids[id_texts] = _distinct_numbers(id_texts, converted)
        unique.check(addresses)
        ranks = range(start, start + len(entries)) if converted else numbers(tuple(map(_rank_id_of, entries)))
        own_ids = _super_device_ids(entries) if super_pods else repeat(None)
        result.append(tuple(map(_new_device, zip(ranks, device_ids[id_texts], addresses, own_ids))))
        start += len(entries)
    return result


def ids_and_addresses(entries: List[Entry]) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    """`device_id` and `device_ip` of all entries, None for an address that isn't there; ValueError without entries."""
    try:
        device_ids, addresses = zip(*map(_ids_and_addresses, entries))
    except KeyError:
        device_ids, addresses = zip(*[(entry["device_id"], entry.get("device_ip")) for entry in entries])
    return device_ids, addresses


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL does; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


class _Unique:
    """Refuses an address that was there before; in a big table only a whole list of them, as a cloned file gives."""

    def __init__(self, total: int) -> None:
        self._each = total <= _EACH_ADDRESS_UP_TO
        self._seen: Set[str] = set()

    def check(self, addresses: Addresses) -> None:
        """ValueError for one that is no address or was there before; TypeError when it isn't even a string."""
        given: Any = addresses if all(addresses) else list(filter(None, addresses))  # "" and None are no addresses
        joined = ",".join(given)
        if "-" in joined or " " in joined:  # an IPv6 zone may have a dash
            _check_each(given)
        elif not given:
            return
        before = len(self._seen)
        self._seen.update(given if self._each else (joined,))
        if len(self._seen) != before + (len(given) if self._each else 1):
            raise ValueError("device_ip is not unique")


def _check_each(addresses: Iterable[str]) -> None:
    from davincirun.ranktable.rules.addresses import family

    if None in [family(one) for address in addresses for one in address.split(",")]:
        raise ValueError("device_ip is no address")


def _distinct_numbers(texts: Sequence[Any], numbers_pass: bool) -> List[int]:
    found = numbers([str(text) if numbers_pass and type(text) is int else text for text in texts])
    if len(set(found)) != len(found):
        raise ValueError("a device is there twice")
    return found


def _super_device_ids(entries: Iterable[Entry]) -> List[Optional[str]]:
    values = [entry.get("super_device_id") for entry in entries]
    given = [value for value in values if value is not None]
    if len(set(numbers(given))) != len(given):
        raise ValueError("super_device_id is not unique")
    return values
