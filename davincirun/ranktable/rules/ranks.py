"""Rules about ranks, device ids and servers as a whole."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

from davincirun.ranktable.finding import Finding, error, warning
from davincirun.ranktable.rules.shared import Entry


class Place(NamedTuple):
    """A server, and where it stands."""

    where: str
    server_id: str


def ranks(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Ranks are 0..N-1, each once."""
    first: Dict[int, Entry] = {}
    doubles = False
    for entry in entries:
        if entry.rank is None:
            continue
        other = first.setdefault(entry.rank, entry)
        if other is not entry:
            doubles = True
            yield error(
                "rank-duplicate",
                f"{entry.where}.rank_id",
                f"rank {entry.rank} of {entry.name} is already used by {other.name}",
                "merge the servers' tables with merge_hccl, which numbers anew",
                "EI0014",
            )
    if not doubles and first and len(first) == len(entries):
        yield from _gaps(sorted(first), first)


def device_ids(entries: Sequence[Entry]) -> Iterator[Finding]:
    """No device twice in one server: HCCL doesn't look, and two workers would share it."""
    first: Dict[Tuple[str, int], Entry] = {}
    for entry in entries:
        if entry.device_id is None:
            continue
        other = first.setdefault((entry.server, entry.device_id), entry)
        if other is not entry:
            message = f"device {entry.device_id} is already listed for {entry.server} at {other.where}"
            yield error("device-duplicate", f"{entry.where}.device_id", message, "list each device once")
        if entry.device_id > 63:
            message = f"device {entry.device_id} is beyond what a server holds (/dev/davinciN)"
            yield warning("device-id-range", f"{entry.where}.device_id", message, "give the physical id", "EI0014")


def servers(places: Sequence[Place]) -> Iterator[Finding]:
    """Server ids are unique, and a loopback address can't tell servers apart."""
    first: Dict[str, Place] = {}
    for place in places:
        if not place.server_id:
            continue
        other = first.setdefault(place.server_id, place)
        loopback = is_loopback(place.server_id)
        if other is not place and loopback:
            message = f"{place.server_id} is there twice: both hosts resolved their own name to loopback (/etc/hosts)"
            yield error(
                "loopback-server", f"{place.where}.server_id", message, "make the tables with --server_ip", "EI0014"
            )
        elif other is not place:
            message = f"{place.server_id} has two entries, here and at {other.where}"
            yield error(
                "server-duplicate",
                f"{place.where}.server_id",
                message,
                "give it one entry with all its devices",
                "EI0014",
            )
        elif loopback and len(places) > 1:
            message = f"{place.server_id} is a loopback address, by which no machine can be found"
            yield warning("loopback-server", f"{place.where}.server_id", message, "make the table with --server_ip")


def interleaving(entries: Sequence[Entry]) -> Iterator[Finding]:
    """The manual wants each server's ranks together; HCCL's parser doesn't look."""
    by_rank = sorted([(entry.rank, entry) for entry in entries if entry.rank is not None], key=lambda pair: pair[0])
    left = set()
    before = None
    for rank, entry in by_rank:
        if entry.server != before and entry.server in left:
            message = f"the ranks of {entry.server} interleave with others (rank {rank} comes after {before}'s)"
            yield warning(
                "rank-interleaved",
                f"{entry.where}.rank_id",
                message,
                "number server by server, as the CANN manual asks",
            )
            return
        if before is not None and entry.server != before:
            left.add(before)
        before = entry.server


def is_loopback(server_id: str) -> bool:
    return server_id.startswith("127.") or server_id in ("::1", "localhost")


def _gaps(found: List[int], first: Dict[int, Entry]) -> Iterator[Finding]:
    where = f"{first[found[0]].where}.rank_id"
    if found == list(range(found[0], found[0] + len(found))):
        if found[0] != 0:
            yield error("rank-base", where, f"rank ids start at {found[0]}; they start at 0", "number from 0", "EI0014")
        return
    absent = sorted(set(range(found[-1] if found[-1] < 2 * len(found) else len(found))) - set(found))
    names = ", ".join(map(str, absent[:8])) + (" …" if len(absent) > 8 else "")
    message = f"{len(found)} ranks up to {found[-1]}: {names} missing; ranks are 0..{len(found) - 1} without a gap"
    yield error("rank-gap", f"{first[found[-1]].where}.rank_id", message, "number without gaps", "EI0014")
