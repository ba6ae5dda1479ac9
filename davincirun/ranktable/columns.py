"""Devices by the list: what one server or pod holds is read in one go, while it is in the processor's cache.

131,072 devices must not cost more than reading their JSON did, so these loops call no Python function per device.
"""

from __future__ import annotations

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


def devices_by_list(
    lists: Iterable[List[Entry]], ranks_given: bool = True, super_pods: bool = False
) -> List[Tuple[Device, ...]]:
    """The devices of each list; their ranks are the entries' `rank_id`, else numbered through all lists.

    ValueError, KeyError or TypeError for an empty list, an id that is no number, a device that a list has twice,
    an address that is no string or there twice.
    """
    result: List[Tuple[Device, ...]] = []
    device_ids: Dict[Tuple[str, ...], List[int]] = {}  # most lists have the same ones: read them once
    addresses: List[Optional[str]] = []
    for entries in lists:
        texts = tuple(map(_device_id_of, entries))
        if texts not in device_ids:
            device_ids[texts] = _distinct_numbers(texts)
        start = len(addresses)
        own_addresses = texts_of("device_ip", entries)
        addresses += own_addresses
        ranks = numbers(list(map(_rank_id_of, entries))) if ranks_given else range(start, len(addresses))
        own_ids = texts_of("super_device_id", entries) if super_pods else repeat(None)
        result.append(tuple(map(_new_device, zip(ranks, device_ids[texts], own_addresses, own_ids))))
    _check_unique(addresses)
    return result


def texts_of(key: str, entries: Iterable[Entry]) -> List[Optional[str]]:
    """The strings under `key`, None where there is none; ValueError for anything else."""
    values = [entry.get(key) for entry in entries]
    try:
        "".join(values)  # type: ignore[arg-type]  # the quickest way to see that all are strings
    except TypeError:
        if not set(map(type, values)) <= {str, type(None)}:
            raise ValueError(f"{key} is no string") from None
    return values


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL reads them; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


def _distinct_numbers(texts: Sequence[Any]) -> List[int]:
    found = numbers([str(text) if type(text) is int else text for text in texts])
    if not found or len(set(found)) != len(found):
        raise ValueError("no device, or one that is there twice")
    return found


def _check_unique(addresses: Sequence[Optional[str]]) -> None:
    if len(set(addresses)) != len(addresses):
        given = list(filter(None, addresses))  # "" is no address
        if len(set(given)) != len(given):
            raise ValueError("device_ip is not unique")
