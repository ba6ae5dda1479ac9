"""Slurm: one launcher per node, started by srun.

A batch script has SLURM_PROCID, SLURM_NODEID and SLURM_LOCALID too, though no step runs there: only SLURM_STEP_ID
tells a step (sbatch(1), srun(1); measured on 22.05). Numbers from 0xfffffff0 on are Slurm's own pseudo steps: the
batch script's, an interactive shell's.
"""

from __future__ import annotations

import re
from typing import Iterator, List, Mapping, Optional, Tuple

from davincirun.errors import PlatformError
from davincirun.platforms.claim import Claim, Fact, first_number, number

NAME = "slurm"
_FIRST_PSEUDO_STEP = 0xFFFFFFF0


def read(environ: Mapping[str, str]) -> Optional[Claim]:
    """What srun says, or None outside Slurm. PlatformError when it started several launchers on this node."""
    job = environ.get("SLURM_JOB_ID")
    if not job:
        return None
    step = number(environ, "SLURM_STEP_ID")
    if step is None or step.value >= _FIRST_PSEUDO_STEP:
        return _without_step(environ)
    here = tasks_here(environ)
    if here > 1:
        raise PlatformError(
            f"srun started {here} launchers on this node (SLURM_STEP_TASKS_PER_NODE is"
            f" {environ.get('SLURM_STEP_TASKS_PER_NODE')}); one starts all of a node's workers:"
            " srun --ntasks-per-node=1"
        )
    text = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_NODELIST", "")
    hosts = expand(text) if text else ()
    launch_address = environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
    return Claim(
        NAME,
        job_id=_run_id(environ, job, step.value),
        node_rank=first_number(environ, "SLURM_NODEID", "SLURM_PROCID"),
        node_count=first_number(environ, "SLURM_STEP_NUM_NODES", "SLURM_NNODES"),
        hosts=Fact(hosts, f"SLURM_STEP_NODELIST is {text}") if hosts else None,
        host=environ.get("SLURMD_NODENAME"),
        # srun that is reached by a loopback address may have all its nodes on this machine, with names of its own
        meeting_hosts=(*hosts[:1], *([launch_address] if launch_address.startswith("127.") else [])),
    )


def expand(text: str) -> Tuple[str, ...]:
    """The hosts of a node list: `a[1-3,07],b` is a1 a2 a3 a07 b."""
    return tuple(host for part in _split(text) for host in _expanded(part))


def tasks_here(environ: Mapping[str, str]) -> int:
    """How many tasks of the step this node has: SLURM_STEP_TASKS_PER_NODE is `2(x3),1`, in node order."""
    counts: List[int] = []
    for part in environ.get("SLURM_STEP_TASKS_PER_NODE", "").split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match:
            counts += [int(match.group(1))] * int(match.group(2) or 1)
    node = number(environ, "SLURM_NODEID")
    return counts[node.value] if node is not None and node.value < len(counts) else 1


def _without_step(environ: Mapping[str, str]) -> Claim:
    nodes = first_number(environ, "SLURM_JOB_NUM_NODES", "SLURM_NNODES")
    note = None
    if nodes is not None and nodes.value > 1:
        note = (
            f"this Slurm job has {nodes.value} nodes, but srun didn't start davincirun, so this node works alone;"
            " for all of them: srun --ntasks-per-node=1 davincirun ..."
        )
    return Claim(NAME, note=note)


def _run_id(environ: Mapping[str, str], job: str, step: int) -> str:
    """A requeued job runs under its old number: the restart count tells its runs apart."""
    restarts = environ.get("SLURM_RESTART_COUNT") or "0"
    return f"slurm-{job}.{step}" + (f"-{restarts}" if restarts != "0" else "")


def _split(text: str) -> Iterator[str]:
    """The parts of a list at commas that stand outside brackets."""
    return (part for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text) if part)


def _expanded(part: str) -> Iterator[str]:
    match = re.match(r"([^\[]*)\[([^\]]*)\](.*)\Z", part)
    if match is None:
        yield part
        return
    head, ranges, tail = match.groups()
    for text in ranges.split(","):
        first, dash, last = text.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise PlatformError(f"SLURM_STEP_NODELIST: {part!r} is no node list, such as node[1-3,7]")
        for index in range(int(first), int(last if dash else first) + 1):
            for rest in _expanded(tail):
                yield f"{head}{index:0{len(first)}d}{rest}"
