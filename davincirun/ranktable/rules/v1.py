"""The rules of versions 1.0 and 1.2 (HCCL's "Concise" parser and the CANN manual's rank_table_config pages)."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, List, Sequence, Tuple

from davincirun.ranktable.finding import Finding, error
from davincirun.ranktable.rules import addresses, ranks, shared, super_pods
from davincirun.ranktable.rules.shared import Entry

_PORT_KEYS = frozenset(("device_port", "device_vnic_port", "backup_device_port", "host_port"))


def check(document: Dict[str, Any]) -> Iterator[Finding]:
    """All findings about a completed 1.0 or 1.2 document."""
    servers = yield from shared.objects(document, "server_list", "")
    yield from shared.count(document, "server_count", "", len(servers), f"server_list has {len(servers)} entries")
    entries: List[Entry] = []
    places: List[ranks.Place] = []
    for index, server in enumerate(servers):
        where = f"server_list[{index}]"
        server_id = yield from shared.server_id(server, where)
        places.append(ranks.Place(where, server_id))
        entries += yield from _devices(server, where, server_id)
    yield from ranks.servers(places)
    yield from ranks.ranks(entries)
    yield from ranks.device_ids(entries)
    yield from ranks.interleaving(entries)
    one_pod = yield from super_pods.check(document, entries, places)
    yield from addresses.device_ips(entries, needed=len(servers) > 1 and not one_pod)
    for place, server in zip(places, servers):
        yield from addresses.host_address(server, "host_ip", place.where)
    yield from _ports(entries)


def _devices(server: Dict[str, Any], where: str, server_id: str) -> Generator[Finding, None, List[Entry]]:
    if server.get("device") in (None, []):
        hint = (
            "the key is device in this form, not devices" if "devices" in server else "list its devices or leave it out"
        )
        yield error("no-devices", f"{where}.device", f"server {server_id} has no devices", hint, "EI0014")
        return []
    devices = yield from shared.objects(server, "device", where)
    entries = []
    for index, fields in enumerate(devices):
        place = f"{where}.device[{index}]"
        device_id = yield from shared.text_number(fields, "device_id", place)
        rank = yield from shared.text_number(fields, "rank_id", place)
        entries.append(Entry(place, fields, server_id, rank, device_id))
    return entries


def _ports(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Ports are ports, host ports distinct in a server, and the backup address is the other die's."""
    taken: Dict[Tuple[str, int], str] = {}
    for entry in entries:
        fields, where = entry.fields, entry.where
        if not _PORT_KEYS.isdisjoint(fields):
            for key in ("device_port", "device_vnic_port", "backup_device_port"):
                yield from shared.port(fields, key, where)
            port = yield from shared.port(fields, "host_port", where)
            if port is not None and taken.setdefault((entry.server, port), where) != where:
                message = f"host_port {port} is already used at {taken[entry.server, port]}"
                yield error("port-duplicate", f"{where}.host_port", message, "give each device of a server its own")
        if "backup_device_ip" in fields:
            yield from addresses.backup_ip(entry)
