"""The book that the gathering node keeps: who has come, who is refused and why, who is missing. Pure."""

from __future__ import annotations

from typing import Dict, Hashable, List, Optional, Sequence, Tuple

from davincirun.rendezvous.contribution import Contribution

_SHOWN = 8


class Roll:
    """The nodes of one run as they come in."""

    def __init__(self, node_count: int, hosts: Sequence[str]) -> None:
        self._node_count = node_count
        self._hosts = tuple(hosts)
        self._by_nonce: Dict[str, Contribution] = {}
        self._by_place: Dict[Hashable, Contribution] = {}
        self.is_closed = False  # the agreement is made: nobody else gets in

    @property
    def is_complete(self) -> bool:
        return len(self._by_nonce) == self._node_count

    @property
    def contributions(self) -> Tuple[Contribution, ...]:
        return tuple(self._by_nonce.values())

    def add(self, one: Contribution) -> Optional[str]:
        """Enter a node, again if need be; the reason when it is refused."""
        if one.nonce in self._by_nonce:
            return None
        if one.node_count != self._node_count:
            return f"{one.title} was told of {one.node_count} nodes, this job has {self._node_count}: correct --nodes"
        if one.node_rank is not None and one.node_rank >= self._node_count:
            return f"{one.title} can't be in a job of {self._node_count} nodes, which are numbered from 0"
        twin = self._by_place.get(_place(one))
        if twin is not None:
            return come_already(twin)
        if self.is_closed or self.is_complete:
            return self.too_late(one)
        self._by_nonce[one.nonce] = self._by_place[_place(one)] = one
        return None

    def too_late(self, one: Contribution) -> str:
        return f"the job has its {self._node_count} nodes already; {one.title} comes too late or isn't one of them"

    def remove(self, nonce: str) -> None:
        """A node has gone before the agreement."""
        one = None if self.is_closed else self._by_nonce.pop(nonce, None)
        if one is not None:
            del self._by_place[_place(one)]

    def missing(self) -> str:
        """Who hasn't come, by rank and host as far as they are known."""
        came = self._by_nonce.values()
        absent = self._node_count - len(self._by_nonce)
        if all(one.node_rank is not None for one in came):
            ranks = sorted(set(range(self._node_count)) - {one.node_rank for one in came if one.node_rank is not None})
            return _listed([node_title(rank, self._hosts) for rank in ranks])
        names = {_label(name) for one in came for name in (one.host, *one.names)}
        hosts = [host for host in self._hosts if _label(host) not in names]
        if len(hosts) == absent:
            return _listed(hosts)
        there = _listed(sorted(one.host for one in came))
        return f"{absent} of {self._node_count} nodes (there are: {there or 'none'})"


def come_already(twin: Contribution) -> str:
    """Why a second launcher in the place of `twin` is refused."""
    return f"{twin.title} has come already (pid {twin.pid} on {twin.host}): is the command started twice there?"


def node_title(rank: int, hosts: Sequence[str]) -> str:
    """node 3 (host), as far as the host is known."""
    return f"node {rank} ({hosts[rank]})" if rank < len(hosts) else f"node {rank}"


def _place(one: Contribution) -> Hashable:
    """What only one launcher may be: a rank, else a machine; simulated ones may share theirs."""
    if one.node_rank is not None:
        return one.node_rank
    return one.names[0] if one.simulated is None else one.nonce


def _label(name: str) -> str:
    return name if name.replace(".", "").isdigit() else name.split(".", 1)[0]


def _listed(titles: List[str]) -> str:
    more = f" and {len(titles) - _SHOWN} more" if len(titles) > _SHOWN else ""
    return ", ".join(titles[:_SHOWN]) + more
