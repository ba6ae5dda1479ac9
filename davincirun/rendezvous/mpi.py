"""Under mpirun, or srun with PMIx: MPI tells who is node 0 and where; the meeting itself is node 0's.

MPI is used for one broadcast and finalised at once: a worker may need it for itself, and MPI can't tell of a node's
end without ending all. The key is drawn at random and known to this run alone.
"""

from __future__ import annotations

import os
from typing import Any, Optional

from davincirun.host import this_host
from davincirun.rendezvous import sockets
from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.client import Client
from davincirun.rendezvous.contribution import Contribution
from davincirun.rendezvous.liaison import Meeting, Orders, Tell
from davincirun.rendezvous.server import Server
from davincirun.rendezvous.terms import Terms


class Mpi(Meeting):
    """A meeting point that MPI has told of."""

    def __init__(self, mine: Contribution, terms: Terms) -> None:
        self._mine = mine
        self._terms = terms
        self._meeting: Optional[Meeting] = None

    def put(self, orders: Orders) -> None:
        mpi = _library()
        world = mpi.COMM_WORLD
        rank, size = world.Get_rank(), world.Get_size()
        if size != self._terms.node_count:
            raise RendezvousError(
                f"MPI has {size} processes, but the job {self._terms.node_count} nodes: start one launcher per node,"
                " mpirun --map-by ppr:1:node"
            )
        mine = self._mine._replace(node_rank=rank)
        if rank == 0:
            key = os.urandom(32)
            server = Server(sockets.Place(("localhost",), (0,)), mine, self._terms._replace(key=key))
            self._meeting = server
            server.put(orders)
            host = this_host()
            world.bcast(((*host.addresses, *host.names, "127.0.0.1"), server.port, key), 0)
        else:
            hosts, port, key = world.bcast(None, 0)
            self._meeting = Client(sockets.Place(hosts, (port,)), mine, self._terms._replace(key=key))
            self._meeting.put(orders)
        mpi.Finalize()

    def wait_for_all(self, orders: Orders, tell: Tell) -> Optional[Agreement]:
        return self._meeting.wait_for_all(orders, tell) if self._meeting is not None else None

    def watch(self, orders: Orders, tell: Tell) -> None:
        if self._meeting is not None:
            self._meeting.watch(orders, tell)

    def close(self) -> None:
        if self._meeting is not None:
            self._meeting.close()


def _library() -> Any:
    from importlib import import_module

    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise RendezvousError(f"--rendezvous mpi needs mpi4py and MPI's libraries: {error}") from None
