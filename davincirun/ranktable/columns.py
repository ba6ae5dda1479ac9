"""Devices by the list: what one server or pod holds is read in one go, while it is in the processor's cache.

131,072 devices must not cost more than reading their JSON did, so these loops call no Python function per device.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple

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
    keys = ("device_id", "device_ip") if converted else ("device_id", "device_ip", "rank_id")
    refuse_doubles = _doubles_refuser(each=sum(map(len, lists)) <= _EACH_ADDRESS_UP_TO)
    start = 0
    for entries in lists:
        id_texts, addresses, *rank_texts = columns_of(entries, keys)
        if id_texts not in device_ids:
            device_ids[id_texts] = _distinct_numbers(id_texts, converted)
        refuse_doubles(addresses)
        ranks = numbers(rank_texts[0]) if rank_texts else range(start, start + len(entries))
        own_ids = _super_device_ids(entries) if super_pods else repeat(None)
        result.append(tuple(map(_new_device, zip(ranks, device_ids[id_texts], addresses, own_ids))))
        start += len(entries)
    return result


def columns_of(entries: List[Entry], keys: Tuple[str, ...]) -> Iterable[Tuple[Any, ...]]:
    """The values under each of `keys`, None for a `device_ip` that isn't there; KeyError for others."""
    try:
        return zip(*map(itemgetter(*keys), entries))
    except KeyError:
        return zip(*[itemgetter(*keys)({"device_ip": None, **entry}) for entry in entries])


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL does; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


def _doubles_refuser(each: bool) -> Callable[[Tuple[Any, ...]], None]:
    """A function that raises ValueError for an address that is none or that it has met, TypeError for no string.

    It remembers `each` address, or, in a big table, only each whole list, as a cloned file repeats it.
    """
    seen: Set[str] = set()

    def refuse(addresses: Tuple[Any, ...]) -> None:
        given = addresses if all(addresses) else tuple(filter(None, addresses))  # None and "" are no addresses
        joined = ",".join(given)
        if "-" in joined or " " in joined:  # an IPv6 zone may have a dash
            _check_each(given)
        new = given if each else (joined,) if given else ()
        before = len(seen)
        seen.update(new)
        if len(seen) != before + len(new):
            raise ValueError("device_ip is not unique")

    return refuse


def _check_each(addresses: Iterable[str]) -> None:
    from davincirun.ranktable.rules.addresses import family

    if None in [family(one) for address in addresses for one in address.split(",")]:
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
