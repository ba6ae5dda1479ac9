"""The rules of version 1.1 (HCCL's "Heterog" parser)."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, Optional

from davincirun.ranktable import heterog
from davincirun.ranktable.finding import Finding, error, kind, shown
from davincirun.ranktable.rules import addresses, ranks, shared
from davincirun.ranktable.rules.shared import Entry


def check(document: Dict[str, Any]) -> Iterator[Finding]:
    """All findings about a completed 1.1 document."""
    collective_id = document.get("collective_id")
    if not isinstance(collective_id, str) or len(collective_id) > 127:
        message = f"{shown(collective_id)} must be a string of at most 127 characters"
        yield error("collective-id", "collective_id", message, "name the group", "EI0017")
    if document.get("mode", "tcp") not in ("tcp", "rdma"):
        yield error("mode", "mode", f"{shown(document['mode'])} is neither tcp nor rdma", "correct it", "EI0014")
    if document.get("heterog_sub_version", "1.2") != "1.2":
        value = shown(document["heterog_sub_version"])
        yield error("unknown-version", "heterog_sub_version", f'{value} is not "1.2"', "correct it", "EI0014")
    nodes = yield from shared.objects(document, "node_list", "")
    entries = []
    places = []
    for index, node in enumerate(nodes):
        where = f"node_list[{index}]"
        node_addr = yield from shared.server_id(node, where, "node_addr")
        yield from addresses.host_address(node, "node_addr", where)
        places.append(ranks.Place(where, node_addr))
        listed = yield from shared.objects(node, "ranks", where)
        for position, rank in enumerate(listed):
            entries.append((yield from _rank(rank, f"{where}.ranks[{position}]", node_addr)))
    for finding in ranks.servers(places):
        yield finding._replace(where=finding.where.replace("server_id", "node_addr"))
    yield from ranks.ranks(entries)


def _rank(rank: Dict[str, Any], where: str, node_addr: str) -> Generator[Finding, None, Entry]:
    rank_id = yield from shared.text_number(rank, "rank_id", where)
    device_id = yield from _signed(rank, "device_id", where)
    if "port" in rank:
        yield from shared.port(rank, "port", where)
    if rank.get("rank_ip") != "":
        yield from addresses.host_address(rank, "rank_ip", where)
    return Entry(where, rank, node_addr, rank_id, device_id)


def _signed(rank: Dict[str, Any], key: str, where: str) -> shared.Reading:
    value: Optional[Any] = rank.get(key)
    if key not in rank:
        yield shared.missing(key, where)
    elif not isinstance(value, str):
        yield error("type", f"{where}.{key}", f"{shown(value)} is {kind(value)}, it must be a string", hccl="EI0017")
    else:
        try:
            number = heterog.signed_number(value)
        except ValueError:
            number = heterog.HOST_DEVICE_ID - 1
        if number >= heterog.HOST_DEVICE_ID:
            return number
        message = f"{shown(value)} is no device id (-1 is the host)"
        yield error("not-a-number", f"{where}.{key}", message, "write decimal digits", "EI0014")
    return None
