"""The meeting that a choice stands for, ready to be held."""

from __future__ import annotations

import os
from typing import List, Optional, Sequence

from davincirun.cluster import Server as TableServer
from davincirun.errors import UsageError
from davincirun.platforms import JobContext
from davincirun.rendezvous.choice import POINT, Choice, choose, ports_of
from davincirun.rendezvous.contribution import Contribution
from davincirun.rendezvous.liaison import Meeting
from davincirun.rendezvous.terms import Terms
from davincirun.rendezvous.wire import job_key


def meeting(option: Optional[str], run: str, mine: Contribution, terms: Terms, context: JobContext) -> Meeting:
    """How all nodes of `run` come to an agreement. UsageError where nothing says how."""
    chosen = choose(option, context, run)
    if chosen.kind == POINT:
        from davincirun.rendezvous import sockets
        from davincirun.rendezvous.client import Client

        return Client(sockets.Place(chosen.hosts, chosen.ports), mine, terms)
    if chosen.kind == "tcp":
        return _at_node_0(chosen, mine, terms)
    if chosen.kind == "mpi":
        from davincirun.rendezvous.mpi import Mpi

        return Mpi(mine, terms)
    from davincirun.rendezvous.store_meeting import StoreMeeting

    name = (run or "job").replace("/", "_")
    if chosen.kind == "etcd":
        from davincirun.rendezvous.etcd import Etcd

        members = list(zip(chosen.hosts, chosen.ports))
        return StoreMeeting(Etcd(members, name, chosen.is_tls, terms.silence_seconds), mine, terms)
    from davincirun.rendezvous.directory import Directory

    return StoreMeeting(Directory(os.path.join(os.path.abspath(chosen.path), name)), mine, terms)


def in_touch(
    mine: Contribution, terms: Terms, servers: Sequence[TableServer], context: Optional[JobContext], table_path: str
) -> Meeting:
    """How the nodes of a given table hear of each other: at the server of rank 0, with a key made from the table.

    Where the same table is read at another path, that is another job: two jobs with one table can't be told apart
    otherwise.
    """
    ordered = sorted(servers, key=lambda server: min(device.rank for device in server.devices))
    shape = repr([(server.server_id, [tuple(device) for device in server.devices]) for server in ordered])
    key = job_key(terms.key.hex(), shape, table_path)
    hosts: List[str] = [ordered[0].server_id, *ordered[0].addresses]
    if context is not None:
        hosts += context.meeting_hosts
    chosen = Choice("tcp", hosts=tuple(dict.fromkeys(hosts)), ports=ports_of(key.hex()))
    return _at_node_0(chosen, mine, terms._replace(key=key))


def _at_node_0(chosen: Choice, mine: Contribution, terms: Terms) -> Meeting:
    if mine.node_rank is None:
        raise UsageError(
            "at a meeting point each node has to know its rank: give --node-rank, or a directory that all nodes share"
            " as --rendezvous"
        )
    from davincirun.rendezvous import sockets

    place = sockets.Place(chosen.hosts, chosen.ports)
    if mine.node_rank == 0:
        from davincirun.rendezvous.server import Server

        return Server(place, mine, terms)
    from davincirun.rendezvous.client import Client

    return Client(place, mine, terms)
