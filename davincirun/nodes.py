"""This launch among the other nodes of its job: which it is, how it meets them, how they fail together.

On one node nothing of this happens, and nothing of it is loaded.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Tuple, Type

from davincirun import __version__
from davincirun.cluster import Cluster, Server
from davincirun.errors import DavincirunError, UsageError
from davincirun.host import this_host
from davincirun.identity import Me
from davincirun.lifecycle import Event, Launch
from davincirun.messages import Messages
from davincirun.options import Options
from davincirun.pausing import Pause

if TYPE_CHECKING:
    from davincirun.devices import Detected
    from davincirun.platforms import JobContext
    from davincirun.rendezvous.agreement import Agreement
    from davincirun.rendezvous.companions import Companions
    from davincirun.rendezvous.contribution import Card, Contribution
    from davincirun.rendezvous.liaison import Meeting
    from davincirun.rendezvous.terms import Terms

KEY_VARIABLE = "DAVINCIRUN_RENDEZVOUS_KEY"
_LINGER_SECONDS = 5.0
_POINT = "point://"  # who started us expects us there, be we one alone
_MARKS = ("SLURM_JOB_ID", "VC_", "VK_TASK_", "OMPI_COMM_WORLD_", "PET_", "MA_NUM_HOSTS", "DLS_TASK_", "LOCAL_RANK")


class Nodes:
    """The job's nodes; the way to the others is open from the agreement, or the table, until the `with` block ends."""

    def __init__(self, options: Options, environ: Mapping[str, str], pause: Pause, messages: Messages) -> None:
        self._options = options
        self._environ = environ
        self._pause = pause
        self._messages = messages
        self._companions: Optional[Companions] = None
        self.context = _context(options, environ)
        for note in () if self.context is None else self.context.notes:
            messages.warning(note)

    @property
    def job_id(self) -> Optional[str]:
        """The platform's name of this run."""
        return None if self.context is None else self.context.job_id

    @property
    def host(self) -> str:
        """What messages call this machine: the platform's name of it, else its own."""
        return (None if self.context is None else self.context.host) or os.uname().nodename

    @property
    def are_to_be_started(self) -> bool:
        """Whether --hosts asks us to start the launchers of all nodes: nobody has told us which of them we are."""
        return self._options.hosts is not None and (self.context is None or self.context.node_rank is None)

    @property
    def are_several(self) -> bool:
        """Whether there are others to meet, for want of a table. UsageError when nothing says how many."""
        options = self._options
        if self.context is None:
            return False
        if self.context.node_count == 0 and (options.node_rank is not None or options.rendezvous is not None):
            raise UsageError("nothing says how many nodes the job has, and there is no rank table: give --nodes")
        return self.context.node_count > 1 or self._is_started_by_hosts

    @property
    def _is_started_by_hosts(self) -> bool:
        return (self._options.rendezvous or "").startswith(_POINT)

    @property
    def simulated_index(self) -> int:
        """Which machine of several simulated ones this is."""
        return 0 if self.context is None else self.context.node_rank or 0

    def agree(self, chosen: Detected, job_id: str) -> Tuple[Agreement, Cluster, Me]:
        """Bring our cards to the meeting of all nodes: what is agreed on, as a cluster, and who we are in it."""
        from davincirun.rendezvous import contribution as contributions

        context = self._several()
        mine = self._contribution(context, contributions.cards_of(chosen), chosen.super_pod_id, job_id)
        self._messages.info(f"{context.node_count} nodes ({', '.join(context.reasons)}): meeting the others")
        self._companions = self._meet(mine, context)
        timeout_seconds = self._options.rendezvous_timeout_seconds
        agreement = self._companions.agree(mine.nonce, timeout_seconds, self._pause)
        cluster = _cluster(agreement)
        rank = self._companions.node_rank
        how = f"node {rank} of {len(agreement.nodes)}, as agreed"
        me = Me(agreement.nodes[rank].server_id, tuple(cluster.servers[rank].devices), rank, len(agreement.nodes), how)
        return agreement, cluster, me

    def keep_in_touch(self, servers: Sequence[Server], me: Me, job_id: str, table_path: str) -> None:
        """With nothing but a table in common, hear of the others' failures all the same, where node 0 can be reached.

        Never fails a healthy job: silence is only said, and so is not reaching node 0 at all (with -v).
        """
        if self._companions is not None or me.node_count < 2 or self._options.node_timeout_seconds <= 0:
            return
        from davincirun.rendezvous.contribution import Card
        from davincirun.rendezvous.ways import in_touch

        cards = tuple(Card(device.device_id, device.device_ip, None) for device in me.devices)
        mine = self._contribution(self.context, cards, None, job_id)
        mine = mine._replace(node_rank=me.node_rank, node_count=me.node_count)
        terms = self._terms(job_id, me.node_count, (), agrees=False)
        meeting = in_touch(mine, terms, servers, self.context, table_path)
        self._companions = self._joined(meeting, me.node_rank, is_light=True)

    @property
    def fd(self) -> Optional[int]:
        """Readable when `events` has something to say; None: nothing ever will be."""
        return None if self._companions is None else self._companions.fd

    def events(self) -> Sequence[Event]:
        return () if self._companions is None else self._companions.events()

    def report(self, launch: Launch) -> None:
        """Tell the others why the launch ends here, once it does."""
        if self._companions is not None:
            self._companions.report(launch)

    def settle(self, launch: Launch) -> Launch:
        """At the end: `launch` with what the other nodes had to say."""
        return launch if self._companions is None else self._companions.settle(launch, self._pause)

    def status_to_end_with(self, status: int) -> int:
        """`status`, or 0 for mpirun where whoever started it has heard `status` at the meeting.

        Open MPI 4.1 takes three seconds to end after a process of another status, and for nothing: all have ended.
        """
        is_heard = self._companions is not None and self._companions.has_left
        return 0 if is_heard and self._is_started_by_hosts else status

    def __enter__(self) -> Nodes:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if self._companions is not None:
            status = error.exit_status if isinstance(error, DavincirunError) else 1
            self._companions.close(None if error is None else (status, str(error)))

    def _several(self) -> JobContext:
        if self.context is None:
            raise ValueError("there is one node only")
        return self.context

    def _contribution(
        self, context: Optional[JobContext], cards: Tuple[Card, ...], super_pod_id: Optional[str], job_id: str
    ) -> Contribution:
        from davincirun.rendezvous.contribution import Contribution, shown_command

        host = this_host()
        told = self._environ.get("MA_CURRENT_HOST_IP") or (context.address if context is not None else None)
        names = (*filter(None, [told]), *host.addresses, *host.names)
        return Contribution(
            nonce=os.urandom(16).hex(),
            node_rank=None if context is None else context.node_rank,
            node_count=1 if context is None else context.node_count,
            host=self.host,
            names=tuple(dict.fromkeys(names)),
            cards=cards,
            super_pod_id=super_pod_id,
            simulated=self._options.simulate,
            version=__version__,
            command=shown_command(self._options.command),
            job_id=job_id,
            pid=os.getpid(),
        )

    def _meet(self, mine: Contribution, context: JobContext) -> Companions:
        from davincirun.rendezvous.ways import meeting

        run = self._options.job_id or context.job_id or ""
        terms = self._terms(run, context.node_count, context.hosts, agrees=True)
        return self._joined(meeting(self._options.rendezvous, run, mine, terms, context), context.node_rank or 0)

    def _terms(self, run: str, node_count: int, hosts: Tuple[str, ...], agrees: bool) -> Terms:
        from davincirun.rendezvous.terms import Terms
        from davincirun.rendezvous.wire import job_key

        options = self._options
        return Terms(
            key=job_key(run, self._environ.get(KEY_VARIABLE, "")),
            node_count=node_count,
            hosts=hosts,
            timeout_seconds=options.rendezvous_timeout_seconds,
            silence_seconds=options.node_timeout_seconds,
            linger_seconds=options.grace_seconds + _LINGER_SECONDS,
            agrees=agrees,
        )

    def _joined(self, meeting: Meeting, node_rank: int, is_light: bool = False) -> Companions:
        from davincirun.rendezvous.companions import Companions

        linger_seconds = self._options.grace_seconds + _LINGER_SECONDS
        return Companions(meeting, self._messages, self.host, node_rank, None if is_light else linger_seconds)


def _context(options: Options, environ: Mapping[str, str]) -> Optional[JobContext]:
    """Our place in the job; None where nothing speaks of several nodes."""
    is_asked = any(value is not None for value in (options.nodes, options.node_rank, options.rendezvous, options.hosts))
    if not is_asked and not any(name.startswith(_MARKS) for name in environ):
        return None
    from davincirun.platforms import Explicit, find_context

    hosts = tuple(filter(None, (options.hosts or "").replace(",", " ").split()))
    return find_context(environ, Explicit(options.nodes, options.node_rank, hosts))


def _cluster(agreement: Agreement) -> Cluster:
    """The agreed table, with the addresses by which its servers are reached.

    Which ranks are whose, the agreement says and not the table: version 2.0 names no servers.
    """
    from davincirun import ranktable

    table = ranktable.parse(agreement.table, "the agreed rank table")
    if isinstance(table, ranktable.NotYet):
        raise ValueError(table.reason)
    cluster = ranktable.to_cluster(table, "the agreed rank table")
    devices = sorted([device for server in cluster.servers for device in server.devices])
    return Cluster.of(
        [
            Server(
                node.server_id,
                tuple(devices[node.first_rank : node.first_rank + node.card_count]),
                node.addresses,
            )
            for node in agreement.nodes
        ],
        super_pods=cluster.super_pods,
    )
