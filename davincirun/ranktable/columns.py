"""Devices by the list: what one server or pod holds is read in one go, while it is in the processor's cache.

131,072 devices must not cost more than reading their JSON did, so these loops call no Python function per device.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from davincirun.cluster import Device
from davincirun.ranktable.finding import number

Entry = Dict[str, Any]
_new_device = partial(tuple.__new__, Device)  # Device(…) without its Python frame
_rank_id_of = itemgetter("rank_id")
_device_id_of = itemgetter("device_id")
_PLAIN_ADDRESSES = re.compile(r"[0-9a-fA-F.:,]*\Z")  # a quick look that finds what was never an address


def devices_by_list(
    lists: Iterable[List[Entry]], converted: bool = False, super_pods: bool = False
) -> List[Tuple[Device, ...]]:
    """The devices of each list, ranked by `rank_id`; when `converted`, by position, and ids may be JSON numbers.

    ValueError, KeyError or TypeError for an empty list, an id that is no number, a device that a list has twice,
    an address that is none or there twice.
    """
    result: List[Tuple[Device, ...]] = []
    device_ids: Dict[Tuple[Any, ...], List[int]] = {}  # most lists have the same ones: read them once
    addresses: List[Optional[str]] = []
    for entries in lists:
        id_texts = tuple(map(_device_id_of, entries))
        if id_texts not in device_ids:
            device_ids[id_texts] = _distinct_numbers(id_texts, converted)
        start = len(addresses)
        own_addresses = [entry.get("device_ip") for entry in entries]
        _check_addresses(own_addresses)
        addresses += own_addresses
        ranks = range(start, len(addresses)) if converted else numbers(list(map(_rank_id_of, entries)))
        own_ids = _super_device_ids(entries) if super_pods else repeat(None)
        result.append(tuple(map(_new_device, zip(ranks, device_ids[id_texts], own_addresses, own_ids))))
    _check_unique(addresses)
    return result


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL does; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


def _distinct_numbers(texts: Sequence[Any], numbers_pass: bool) -> List[int]:
    found = numbers([str(text) if numbers_pass and type(text) is int else text for text in texts])
    if not found or len(set(found)) != len(found):
        raise ValueError("no device, or one that is there twice")
    return found


def _check_addresses(values: Sequence[Optional[str]]) -> None:
    """ValueError for something that is no address; TypeError when it isn't even a string."""
    given = values if all(values) else list(filter(None, values))  # "" and None are no addresses
    if _PLAIN_ADDRESSES.match(",".join(given)) is None:  # type: ignore[arg-type]
        from davincirun.ranktable.rules.addresses import family

        if None in [family(address) for value in given for address in value.split(",")]:  # type: ignore[union-attr]
            raise ValueError("device_ip")


def _check_unique(addresses: Sequence[Optional[str]]) -> None:
    if len(set(addresses)) != len(addresses):
        given = list(filter(None, addresses))
        if len(set(given)) != len(given):
            raise ValueError("device_ip is not unique")


def _super_device_ids(entries: Iterable[Entry]) -> List[Optional[str]]:
    values = [entry.get("super_device_id") for entry in entries]
    given = [value for value in values if value is not None]
    if len(set(numbers(given))) != len(given):
        raise ValueError("super_device_id")
    return values
