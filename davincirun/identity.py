"""Which entry of the rank table this launcher is: decided from what the platform says and from our own addresses.

Never "the first one that comes along": several candidates, or none, are an error that lists them. The exception
is the platform's own rule for the group_list form, where a pod that isn't told its name is the first instance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Mapping, Optional, Sequence, Tuple

from davincirun.cluster import Cluster, Device, Pod, Server
from davincirun.errors import IdentityError
from davincirun.values import Value

if TYPE_CHECKING:
    from davincirun.platforms import JobContext

_POD_VARIABLES = ("BATCH_TASK_CURRENT_INSTANCE", "MA_CURRENT_INSTANCE_NAME")  # first and second platform generation
_HOST_VARIABLE = "MA_CURRENT_HOST_IP"
_INDEX_VARIABLES = ("VC_TASK_INDEX", "VK_TASK_INDEX")  # the pod's index, from 0
_SHOWN = 8


class Me(Value):
    """Our part of the cluster."""

    server_id: str
    devices: Tuple[Device, ...]  # the cards we start workers on, in table order
    node_rank: int  # our place among the launchers, ordered by their lowest rank
    node_count: int
    reason: str  # how we know


class Host(Value):
    """What this machine knows of itself."""

    addresses: Tuple[str, ...]  # without loopback
    names: Tuple[str, ...]


def find_me(
    cluster: Cluster,
    environ: Mapping[str, str],
    this_host: Callable[[], Host],
    context: Optional[JobContext] = None,
) -> Me:
    """Our entry of `cluster`, or an IdentityError; `this_host` is asked only where our own addresses matter.

    The node's rank, as the platform's variables or the user tell it, decides where no name and no address does.
    """
    by_rank = _by_node_rank(cluster, context)
    if by_rank is not None and context is not None and context.is_rank_explicit:
        return by_rank
    if cluster.pods:
        return _pod(cluster.pods, environ, by_rank)
    if len(cluster.servers) == 1:
        return _me(cluster, cluster.servers[0], "the table has one server")
    if not cluster.names_servers:
        return _by_index(cluster, environ)
    told = environ.get(_HOST_VARIABLE)
    if told:
        named = [server for server in cluster.servers if told in (server.server_id, *server.addresses)]
        if len(named) == 1:
            return _me(cluster, named[0], f"{_HOST_VARIABLE} is {told}")
    return _by_address(cluster, this_host(), told, by_rank)


def _by_node_rank(cluster: Cluster, context: Optional[JobContext]) -> Optional[Me]:
    """The entry at our node rank, where the job has as many nodes as the table has pods or servers."""
    if context is None or context.node_rank is None:
        return None
    reason = context.reasons[-1]
    count = len(cluster.pods or cluster.servers)
    if context.node_count not in (0, count) or context.node_rank >= count:
        if context.is_rank_explicit:
            raise IdentityError(f"{', '.join(context.reasons)}, but the rank table has {count} nodes")
        return None
    if cluster.pods:
        pod = cluster.pods[context.node_rank]
        return Me(pod.server_id, tuple(pod.devices), context.node_rank, count, reason)
    order = sorted(cluster.servers, key=lambda one: one.lowest_rank)
    return _me(cluster, order[context.node_rank], reason)


def _pod(pods: Sequence[Pod], environ: Mapping[str, str], by_rank: Optional[Me]) -> Me:
    for variable in _POD_VARIABLES:
        name = environ.get(variable)
        if not name:
            continue
        for index, pod in enumerate(pods):
            if pod.pod_name == name:
                return Me(pod.server_id, tuple(pod.devices), index, len(pods), f"{variable} is {name}")
        raise IdentityError(
            f"{variable} is {name}, but the rank table has no such pod: {_listed([pod.pod_name for pod in pods])}"
        )
    if by_rank is not None:
        return by_rank
    first = pods[0]
    reason = (
        "the table has one pod" if len(pods) == 1 else f"the first pod, since {' and '.join(_POD_VARIABLES)} are unset"
    )
    return Me(first.server_id, tuple(first.devices), 0, len(pods), reason)


def _by_index(cluster: Cluster, environ: Mapping[str, str]) -> Me:
    """Version 2.0 says nothing of machines: only the platform knows which ranks are ours."""
    for variable in _INDEX_VARIABLES:
        text = environ.get(variable, "")
        if text.isdigit() and int(text) < len(cluster.servers):
            return _me(cluster, cluster.servers[int(text)], f"{variable} is {text}")
    raise IdentityError(
        f"a rank table of version 2.0 doesn't say which of its {len(cluster.servers)} nodes this is:"
        f" set {_INDEX_VARIABLES[0]} to this node's index, 0 to {len(cluster.servers) - 1}"
    )


def _by_address(cluster: Cluster, host: Host, told: Optional[str], by_rank: Optional[Me]) -> Me:
    ours = {*host.addresses, *map(_first_label, host.names), *host.names}
    found = [server for server in cluster.servers if ours.intersection(_called(server))]
    if len(found) == 1:
        name = next(name for name in _called(found[0]) if name in ours)
        return _me(cluster, found[0], f"{name} is this machine")
    if by_rank is not None and not told and (not found or by_rank.server_id in [one.server_id for one in found]):
        return by_rank._replace(reason=f"{by_rank.reason}; no address of the table tells")
    hint = (
        f"{_HOST_VARIABLE} is {told}, which names none of them; "
        if told
        else f"set {_HOST_VARIABLE} to its server_id; "
    )
    servers = _listed([server.server_id for server in found or cluster.servers])
    problem = (
        "several servers of the rank table are this machine" if found else "no server of the rank table is this machine"
    )
    raise IdentityError(f"{problem}: {servers}; {hint}our own addresses are {_listed([*host.addresses, *host.names])}")


def _me(cluster: Cluster, server: Server, reason: str) -> Me:
    lowest = server.lowest_rank
    node_rank = sum([other.lowest_rank < lowest for other in cluster.servers])
    return Me(server.server_id, tuple(server.devices), node_rank, len(cluster.servers), reason)


def _called(server: Server) -> Tuple[str, ...]:
    """A server's names: a host name with a domain goes by its first label too."""
    names = (server.server_id, *server.addresses)
    return (*names, *(_first_label(name) for name in names if not _is_address(name)))


def _first_label(name: str) -> str:
    return name if _is_address(name) else name.split(".", 1)[0]


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
