"""Who we are among the nodes of a job, told from variables alone: which platform, which node of how many.

Each platform module turns the environment into what it claims, or None where it isn't there; `find_context` takes
all claims together. What the user says with an option stands; sources that contradict each other are an error that
shows both, because any choice between them would start a job that hangs.
"""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple

from davincirun.errors import PlatformError, UsageError
from davincirun.platforms import kubeflow, modelarts, openmpi, slurm, volcano
from davincirun.platforms.claim import Claim, Fact
from davincirun.values import Value

STANDALONE = "standalone"


class JobContext(Value):
    """This launcher's place in its job, as far as variables and options tell."""

    platform: str
    job_id: Optional[str]  # the platform's name of this run; the same on all nodes
    node_rank: Optional[int]
    node_count: int  # 0: nothing tells
    hosts: Tuple[str, ...]  # by node rank; empty: unknown
    host: Optional[str]  # what the platform calls this machine
    address: Optional[str]  # by which the other nodes reach it
    meeting_hosts: Tuple[str, ...]  # where node 0 can be reached, the best first
    reasons: Tuple[str, ...]  # how we know, for people
    notes: Tuple[str, ...]  # what the user should know
    is_rank_explicit: bool = False  # an option says it


class Explicit(Value):
    """What the options say."""

    nodes: Optional[int] = None
    node_rank: Optional[int] = None
    hosts: Tuple[str, ...] = ()


def find_context(environ: Mapping[str, str], explicit: Explicit = Explicit()) -> JobContext:  # noqa: B008
    """Our place in the job. PlatformError for contradictions and for engines that started one launcher per card."""
    claims = [claim for claim in (read(environ) for read in _READERS) if claim is not None]
    if any(claim.platform == openmpi.NAME for claim in claims):
        # mpirun starts its own helpers through Slurm, and then the step's variables speak of those.
        claims = [claim for claim in claims if claim.platform != slurm.NAME]
    node_rank = _agreed("node rank", [claim.node_rank for claim in claims], explicit.node_rank, "--node-rank")
    node_count = _node_count(claims, explicit)
    hosts = explicit.hosts or next((claim.hosts.value for claim in claims if claim.hosts is not None), ())
    _check(node_rank, node_count, explicit)
    known = len(hosts) == node_count.value
    return JobContext(
        platform=claims[0].platform if claims else STANDALONE,
        job_id=next((claim.job_id for claim in claims if claim.job_id), None),
        node_rank=None if node_rank is None else node_rank.value,
        node_count=node_count.value,
        hosts=hosts if known else (),
        host=next((claim.host for claim in claims if claim.host), None),
        address=next((claim.address for claim in claims if claim.address), None),
        meeting_hosts=_meeting_hosts(claims, explicit, hosts if known else ()),
        reasons=tuple(fact.source for fact in (node_count, node_rank) if fact is not None and fact.source),
        notes=tuple(claim.note for claim in claims if claim.note),
        is_rank_explicit=explicit.node_rank is not None,
    )


_READERS = (openmpi.read, slurm.read, modelarts.read, volcano.read, kubeflow.read)


def _meeting_hosts(claims: Sequence[Claim], explicit: Explicit, hosts: Sequence[str]) -> Tuple[str, ...]:
    told = [host for claim in claims for host in claim.meeting_hosts]
    return tuple(dict.fromkeys([*explicit.hosts[:1], *(told or hosts[:1])]))


def _node_count(claims: Sequence[Claim], explicit: Explicit) -> "Fact[int]":
    by_hosts = Fact(len(explicit.hosts), f"--hosts names {len(explicit.hosts)}") if explicit.hosts else None
    if by_hosts is not None and explicit.nodes not in (None, by_hosts.value):
        raise UsageError(f"--nodes is {explicit.nodes}, but {by_hosts.source} hosts: leave out either or correct it")
    told = explicit.nodes if by_hosts is None else by_hosts.value
    found = _agreed("number of nodes", [claim.node_count for claim in claims], told, "--nodes")
    return found or Fact(0, "")


def _agreed(
    what: str, facts: Sequence[Optional["Fact[int]"]], told: Optional[int], option: str
) -> Optional["Fact[int]"]:
    """The one value that all sources give, or the option's; PlatformError showing two that differ."""
    if told is not None:
        return Fact(told, f"{option} is {told}")
    there = [fact for fact in facts if fact is not None]
    for fact in there[1:]:
        if fact.value != there[0].value:
            raise PlatformError(
                f"the {what} is {there[0].value} ({there[0].source}) and also {fact.value} ({fact.source}):"
                f" unset the variable that is left over from elsewhere, or say it with {option}"
            )
    return there[0] if there else None


def _check(node_rank: Optional["Fact[int]"], node_count: "Fact[int]", explicit: Explicit) -> None:
    if explicit.nodes == 0:
        raise UsageError("--nodes is 0: wanted 1 or more")
    if node_rank is None or node_count.value == 0 or 0 <= node_rank.value < node_count.value:
        return
    problem = f"this is node {node_rank.value} ({node_rank.source}) of {node_count.value} ({node_count.source})"
    if explicit.node_rank is not None:
        raise UsageError(f"{problem}: nodes are numbered from 0; --nodes says how many there are")
    raise PlatformError(f"{problem}, which can't be: give --nodes and --node-rank")
