"""Devices by the list: what one server or pod holds is read in one go, into columns.

131,072 devices must not cost more than reading their JSON did. So these loops call no Python function per device,
and a launch has each list read as soon as the decoder has made it, while it is in the processor's cache.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

from davincirun.cluster import DeviceColumns
from davincirun.ranktable.finding import number

Entry = Dict[str, Any]

_EACH_ADDRESS_UP_TO = 16384  # devices; beyond, telling 131,072 addresses apart takes as long as all the rest


class Columns:
    """A list of devices, read."""

    __slots__ = ("addresses", "device_ids", "joined_addresses", "own_ids", "ranks")

    def __init__(
        self,
        device_ids: List[int],
        addresses: List[Optional[str]],
        joined_addresses: str,
        ranks: Sequence[int],
        own_ids: Optional[List[Any]],
    ) -> None:
        self.device_ids = device_ids
        self.addresses = addresses
        self.joined_addresses = joined_addresses  # those that are given, with commas between
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
        id_texts = tuple([entry["device_id"] for entry in entries])
        device_ids = self._known_ids.get(id_texts)
        if device_ids is None:
            device_ids = self._known_ids[id_texts] = _distinct_numbers(id_texts, not self._ranked)
        addresses = _values(entries, "device_ip")
        ranks = self._ranks([entry["rank_id"] for entry in entries]) if self._ranked else ()
        in_pod = "super_device_id" in entries[0]
        own_ids = _values(entries, "super_device_id") if in_pod else None
        return Columns(device_ids, addresses, _joined(addresses), ranks, own_ids)

    def _ranks(self, texts: List[str]) -> Sequence[int]:
        """Most tables have their ranks in order, and to tell so takes half the time of reading them."""
        expected = range(self._next_rank, self._next_rank + len(texts))
        self._next_rank = expected.stop
        return expected if texts == list(map(str, expected)) else numbers(texts)


def folding() -> Callable[[Entry], Entry]:
    """An `object_hook` for json's decoder that replaces lists of devices by their columns, and raises as `read`."""
    read, read_unranked = ListReader(ranked=True).read, ListReader(ranked=False).read

    def fold(entry: Entry) -> Entry:
        if "device_id" in entry:
            return entry  # a device itself, as nearly all are
        if "device" in entry:
            entry["device"] = read(entry["device"])
        elif "devices" in entry:
            entry["devices"] = read_unranked(entry["devices"])
        return entry

    return fold


def read_lists(lists: Iterable[Union[List[Entry], Columns]], ranked: bool) -> List[Columns]:
    """The columns of all lists of a table.

    Raises as `ListReader.read`, and for an address that is there twice (in big tables: a list of addresses).
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


def _joined(addresses: List[Optional[str]]) -> str:
    """The addresses that are given, "" being none; TypeError or ValueError for what is no address."""
    given: Iterable[Any] = addresses if all(addresses) else filter(None, addresses)
    joined = ",".join(given)
    if "-" in joined or " " in joined:  # an IPv6 zone may have a dash
        from davincirun.ranktable.rules.addresses import family

        if None in [family(address) for address in joined.split(",")]:
            raise ValueError("device_ip is no address")
    return joined


def _refuse_doubles(columns: Sequence[Columns]) -> None:
    """ValueError for an address that is there twice; of a big table only each whole list, as a cloned file has it."""
    seen: Set[str] = set()
    count = 0
    each = sum([len(column.device_ids) for column in columns]) <= _EACH_ADDRESS_UP_TO
    for column in columns:
        if each:
            given = list(filter(None, column.addresses))
            seen.update(given)
            count += len(given)
        elif column.joined_addresses:
            seen.add(column.joined_addresses)
            count += 1
    if len(seen) != count:
        raise ValueError("device_ip is not unique")


def _distinct_numbers(texts: Sequence[Any], numbers_pass: bool) -> List[int]:
    found = numbers([str(text) if numbers_pass and type(text) is int else text for text in texts])
    if not found or len(set(found)) != len(found):
        raise ValueError("no device, or one that is there twice")
    return found
