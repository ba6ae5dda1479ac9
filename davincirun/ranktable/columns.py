"""Devices by the list: what one server or pod holds is read in one go, into columns.

131,072 devices must not cost more than reading their JSON did. So these loops call no Python function per device,
and of a big table each list is read as soon as it is there, while it is in the processor's cache.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from davincirun.cluster import DeviceColumns
from davincirun.ranktable.finding import number

Entry = Dict[str, Any]

_EACH_ADDRESS_UP_TO = 16384  # devices; beyond, telling 131,072 addresses apart takes as long as all the rest


class Columns:
    """A list of devices, read."""

    __slots__ = ("addresses", "device_ids", "own_ids", "ranks")

    def __init__(
        self,
        device_ids: List[int],
        addresses: List[Optional[str]],
        ranks: Sequence[int],
        own_ids: Optional[List[Any]],
    ) -> None:
        self.device_ids = device_ids
        self.addresses = addresses
        self.ranks = ranks  # empty for pods, whose ranks follow from their order
        self.own_ids = own_ids  # the super_device_ids, unchecked; None where the first device has none

    def __len__(self) -> int:
        return len(self.device_ids)

    def devices(self, ranks: Sequence[int], in_super_pods: bool = False) -> DeviceColumns:
        """The devices, made when they are looked at."""
        return DeviceColumns(ranks, self.device_ids, self.addresses, self.own_ids if in_super_pods else None)


class ListReader:
    """Makes columns of lists of devices; `ranked` ones have a `rank_id`, in others ids may be JSON numbers."""

    def __init__(self, ranked: bool) -> None:
        self._ranked = ranked
        self._next_rank = 0
        self._known_ids: Dict[Tuple[Any, ...], List[int]] = {}  # most lists have the same ones: read them once

    def read(self, entries: Union[List[Entry], Columns]) -> Columns:
        """The columns of `entries`, which may have been read before.

        ValueError, KeyError or TypeError for an empty list, an id that is no number, a device that is there twice, an
        address that is none.
        """
        if isinstance(entries, Columns):
            return entries
        values = {"device_id": [entry["device_id"] for entry in entries], "device_ip": _values(entries, "device_ip")}
        if self._ranked:
            values["rank_id"] = [entry["rank_id"] for entry in entries]
        else:
            values["device_id"] = [str(own_id) if type(own_id) is int else own_id for own_id in values["device_id"]]
        if entries and "super_device_id" in entries[0]:
            values["super_device_id"] = _values(entries, "super_device_id")
        return self.read_values(values)

    def read_values(self, values: Mapping[str, List[Any]]) -> Columns:
        """As `read`, of what the devices of a list have under each key."""
        id_texts = tuple(values["device_id"])
        device_ids = self._known_ids.get(id_texts)
        if device_ids is None:
            device_ids = self._known_ids[id_texts] = _distinct_numbers(id_texts)
        addresses = values["device_ip"] if "device_ip" in values else [None] * len(id_texts)
        ranks = self._ranks(values["rank_id"]) if self._ranked else ()
        _check_addresses(addresses)
        return Columns(device_ids, addresses, ranks, values.get("super_device_id"))

    def _ranks(self, texts: List[str]) -> Sequence[int]:
        """Most tables have their ranks in order, and to tell so takes a fraction of the time of reading them."""
        expected = range(self._next_rank, self._next_rank + len(texts))
        self._next_rank = expected.stop
        return expected if texts == decimals(expected) else numbers(texts)


def read_lists(lists: Iterable[Union[List[Entry], Columns]], ranked: bool) -> List[Columns]:
    """The columns of all lists of a table.

    Raises as `ListReader.read`, and for an address that is there twice (in big tables: at the head of two lists).
    """
    columns = list(map(ListReader(ranked).read, lists))
    _refuse_doubles(columns)
    return columns


def numbers(texts: Sequence[str]) -> List[int]:
    """The numbers `texts` hold, read as HCCL does; ValueError when one holds none, TypeError when it is no string."""
    joined = "".join(texts)
    if joined.isdigit() and joined.isascii():
        return list(map(int, texts))
    found = [number(text) for text in texts]
    if None in found:
        raise ValueError("not a number")
    return found  # type: ignore[return-value]


def decimals(ranks: Sequence[int]) -> Sequence[str]:
    """The numbers as texts. To look up those of ranks that follow each other takes a fraction of the time of `str`."""
    if isinstance(ranks, range) and ranks.step == 1 and ranks and ranks[0] >= 1000:
        thousand, first = divmod(ranks[0], 1000)
        if first + len(ranks) <= 1000:
            return _decimals_of_thousand(thousand)[first : first + len(ranks)]
    return list(map(str, ranks))


@lru_cache(maxsize=2)
def _decimals_of_thousand(thousand: int) -> Sequence[str]:
    """What starts with the digits of `thousand`: joined and split again, in a quarter of the time of `str` for each."""
    start = str(thousand)
    return (start + f",{start}".join(_three_digits())).split(",")


@lru_cache(maxsize=1)
def _three_digits() -> Sequence[str]:
    return [f"{number:03}" for number in range(1000)]


def are_distinct(texts: List[Any]) -> bool:
    """Whether the numbers `texts` hold are; raises as `numbers`. Where no text has leading zeros, the texts tell."""
    joined = f",{','.join(texts)},"
    digits = joined.replace(",", "")
    are_digits = digits.isdigit() and digits.isascii() and ",," not in joined and joined.count(",") == len(texts) + 1
    if are_digits and joined.count(",0") == joined.count(",0,"):
        return len(set(texts)) == len(texts)
    return len(set(numbers(texts))) == len(texts)


def _values(entries: List[Entry], key: str) -> List[Optional[str]]:
    """What the devices have under `key`, which nearly all of them have or none; None where one hasn't."""
    try:
        return [entry[key] for entry in entries]
    except KeyError:
        return [entry.get(key) for entry in entries]


def _check_addresses(addresses: List[Optional[str]]) -> None:
    """TypeError or ValueError for what is no address; "" and None are none."""
    given: Iterable[Any] = addresses if all(addresses) else filter(None, addresses)
    joined = ",".join(given)
    if "-" in joined or " " in joined:  # an IPv6 zone may have a dash
        from davincirun.ranktable.rules.addresses import family

        if None in [family(address) for address in joined.split(",")]:
            raise ValueError("device_ip is no address")


def _refuse_doubles(columns: Sequence[Columns]) -> None:
    """ValueError for an address that is there twice; of a big table only each list's first, as a copied list has it."""
    lists = [column.addresses for column in columns]
    is_big = sum(map(len, lists)) > _EACH_ADDRESS_UP_TO
    addresses = [next(filter(None, own), None) for own in lists] if is_big else chain.from_iterable(lists)
    given = list(filter(None, addresses))
    if len(set(given)) != len(given):
        raise ValueError("device_ip is not unique")


def _distinct_numbers(texts: Sequence[str]) -> List[int]:
    found = numbers(texts)
    if not found or len(set(found)) != len(found):
        raise ValueError("no device, or one that is there twice")
    return found
