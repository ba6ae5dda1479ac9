"""All contributions → one cluster, the same bytes whoever computes it; or why there can't be one.

Pure: the order in which nodes came doesn't show. Nodes go by their rank where they have one, else by their server
id read numerically, so that 10.0.0.9 stands before 10.0.0.10.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import Any, Dict, List, Optional, Sequence, Tuple

from davincirun import ranktable
from davincirun.cluster import Device, Server, SuperPod
from davincirun.devices.simulated import simulate
from davincirun.errors import DavincirunError
from davincirun.rendezvous.contribution import Card, Contribution, cards_of
from davincirun.values import Value

_MOST_BYTES = 256 << 20


class RendezvousError(DavincirunError):
    """The nodes of the job didn't come to an agreement."""


class Node(Value):
    """One node of the agreed cluster, as all know it."""

    nonce: str
    server_id: str
    host: str
    addresses: Tuple[str, ...]
    first_rank: int
    card_count: int


class Agreement(Value):
    """What all nodes have agreed on."""

    table: bytes
    job_id: str
    nodes: Tuple[Node, ...]  # by node rank
    notes: Tuple[str, ...]

    def rank_of(self, nonce: str) -> Optional[int]:
        """The node rank of the launcher with this nonce; None: it is no part of the agreement."""
        return next((rank for rank, node in enumerate(self.nodes) if node.nonce == nonce), None)


def combine(contributions: Sequence[Contribution]) -> Agreement:
    """The agreement of these nodes; RendezvousError names the nodes that don't go together."""
    ordered = _ordered(contributions)
    _check_alike(ordered)
    ordered = [_distinct(one, index) for index, one in enumerate(ordered)]
    ids = _server_ids(ordered)
    servers = []
    first_rank = 0
    for one, server_id in zip(ordered, ids):
        devices = tuple(_device(first_rank + index, card) for index, card in enumerate(one.cards))
        servers.append(Server(server_id, devices, one.names))
        first_rank += len(devices)
    _check_addresses(ordered)
    super_pods = _super_pods(ordered, ids)
    version = ranktable.version_for(_generation(ordered), bool(super_pods))
    nodes = tuple(
        Node(one.nonce, server.server_id, one.host, one.names, server.devices[0].rank, len(server.devices))
        for one, server in zip(ordered, servers)
    )
    table = ranktable.from_servers(servers, version, super_pods)
    return Agreement(table, ordered[0].job_id, nodes, tuple(_notes(ordered)))


def dumps(agreement: Agreement) -> bytes:
    """The agreement for all others, packed: tables are much alike in themselves, and N nodes read N servers."""
    value = {**agreement._asdict(), "table": agreement.table.decode("ascii")}
    return zlib.compress(json.dumps(value).encode("ascii"), 1)


def loads(data: bytes) -> Agreement:
    """The agreement in `data`, which comes from a launcher that knows the job's key; ValueError if it is damaged."""
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data, _MOST_BYTES)
        if unpacking.unconsumed_tail:
            raise ValueError("an agreement of more bytes than any table has")
        return _from_json(json.loads(text.decode("ascii")))
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _from_json(value: Dict[str, Any]) -> Agreement:
    try:
        nodes = tuple(
            [
                Node(nonce, server_id, host, tuple(addresses), first_rank, card_count)
                for nonce, server_id, host, addresses, first_rank, card_count in value["nodes"]
            ]
        )
        return Agreement(value["table"].encode("ascii"), value["job_id"], nodes, tuple(value["notes"]))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no agreement: {error!r}") from None


def numeric_key(text: str) -> Tuple[Tuple[bool, int, str], ...]:
    """Sorts texts with the numbers in them read as numbers."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)


def _ordered(contributions: Sequence[Contribution]) -> List[Contribution]:
    ranked = [one for one in contributions if one.node_rank is not None]
    if ranked and len(ranked) < len(contributions):
        without = next(one for one in contributions if one.node_rank is None)
        raise RendezvousError(
            f"{ranked[0].title} knows its node rank, {without.host} doesn't: give --node-rank on all nodes or on none"
        )
    if ranked:
        return sorted(contributions, key=lambda one: one.node_rank or 0)
    return sorted(contributions, key=lambda one: (numeric_key(one.names[0]), one.nonce))


def _check_alike(ordered: Sequence[Contribution]) -> None:
    first = ordered[0]
    for one in ordered[1:]:
        if one.version != first.version:
            raise RendezvousError(
                f"{first.title} runs davincirun {first.version}, {one.title} runs {one.version}:"
                " install one version on all nodes"
            )
        if (one.simulated is None) != (first.simulated is None):
            raise RendezvousError(
                f"{first.title} and {one.title} differ in --simulate: give it on all nodes or on none"
            )
    if len(ordered) > 1 and first.simulated is None:
        is_one_super_pod = len({one.super_pod_id for one in ordered}) == 1
        for one in ordered:
            _check_network(one, is_one_super_pod)


def _check_network(one: Contribution, is_one_super_pod: bool) -> None:
    """HCCL reaches another server's card by that card's own address, save inside one A3 super pod."""
    for card in one.cards:
        if not card.device_ip and not (is_one_super_pod and one.super_pod_id and card.super_device_id):
            raise RendezvousError(
                f"{one.title}: card {card.device_id} has no network address, which several nodes need:"
                f" hccn_tool -i {card.device_id} -ip -g must show one"
            )


def _distinct(one: Contribution, index: int) -> Contribution:
    """Simulated cards get the addresses of their node's place, however many nodes run on one machine."""
    if one.simulated is None:
        return one
    ids = {card.device_id for card in one.cards}
    cards = tuple(card for card in cards_of(simulate(one.simulated, index)) if card.device_id in ids)
    return one._replace(cards=cards)


def _server_ids(ordered: Sequence[Contribution]) -> List[str]:
    """Each node's first name that no other node has too: a bridge's 172.17.0.1 is every machine's."""
    counts: Dict[str, int] = {}
    for one in ordered:
        for name in set(one.names):
            counts[name] = counts.get(name, 0) + 1
    ids = []
    for index, one in enumerate(ordered):
        own = next((name for name in one.names if counts[name] == 1), None)
        if own is None and one.simulated is None:
            other = next(two for two in ordered if two is not one and set(two.names) & set(one.names))
            raise RendezvousError(
                f"{one.title} and {other.title} are one machine, {', '.join(one.names[:2])}: start one launcher per"
                " machine, or tell the containers apart by MA_CURRENT_HOST_IP"
            )
        ids.append(own or f"{one.names[0]}-node{index}")
    return ids


def _check_addresses(ordered: Sequence[Contribution]) -> None:
    owners: Dict[str, Contribution] = {}
    for one in ordered:
        for card in one.cards:
            if card.device_ip and owners.setdefault(card.device_ip, one) is not one:
                raise RendezvousError(
                    f"{owners[card.device_ip].title} and {one.title} both have a card with the address"
                    f" {card.device_ip}: set each card's own with hccn_tool -i N -ip -s"
                )


def _device(rank: int, card: Card) -> Device:
    ports = tuple(card.ports.split(",")) if card.ports else ()
    return Device(rank, card.device_id, card.device_ip, card.super_device_id, card.eid, ports)


def _generation(ordered: Sequence[Contribution]) -> str:
    """Ascend 950s alone tell their ports, and a table of any other version is none of theirs."""
    return "950" if all(card.ports for one in ordered for card in one.cards) else "unknown"


def _super_pods(ordered: Sequence[Contribution], ids: Sequence[str]) -> Tuple[SuperPod, ...]:
    if not all(one.super_pod_id and all(card.super_device_id for card in one.cards) for one in ordered):
        return ()
    members: Dict[str, List[str]] = {}
    for one, server_id in zip(ordered, ids):
        members.setdefault(one.super_pod_id or "", []).append(server_id)
    return tuple(SuperPod(pod, tuple(servers)) for pod, servers in members.items())


def _notes(ordered: Sequence[Contribution]) -> List[str]:
    first = ordered[0]
    differing = [one for one in ordered[1:] if one.command != first.command]
    if not differing:
        return []
    more = f" (and {len(differing) - 1} more nodes)" if len(differing) > 1 else ""
    one = differing[0]
    return [f"the nodes start different commands: {first.title} {first.command}; {one.title} {one.command}{more}"]
