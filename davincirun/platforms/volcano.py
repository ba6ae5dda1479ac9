"""Volcano jobs (vcjob): the env plugin's VC_TASK_INDEX, and the svc plugin's VC_<TASK>_HOSTS and VC_<TASK>_NUM.

A job may have several tasks (`master`, `worker`), each numbered from 0. Nodes are then numbered through: the task
called master first, the rest by name; which task this pod belongs to is told by its host name, `<job>-<task>-<index>`.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping, Optional, Tuple

from davincirun.platforms.claim import Claim, Fact, first_number, names_in, number

NAME = "volcano"
INDEX_VARIABLES = ("VC_TASK_INDEX", "VK_TASK_INDEX")  # newer and older name
_HOSTS = re.compile(r"VC_(.+)_HOSTS\Z")


def read(environ: Mapping[str, str]) -> Optional[Claim]:
    """What Volcano's plugins say, or None where they didn't run."""
    index = first_number(environ, *INDEX_VARIABLES)
    tasks = _tasks(environ)
    if index is None and not tasks:
        return None
    hosts = tuple(host for name in sorted(tasks, key=_order) for host in tasks[name])
    node_rank = index if len(tasks) <= 1 else _rank_among_tasks(environ, hosts)
    own_host = hosts[node_rank.value] if node_rank is not None and node_rank.value < len(hosts) else None
    return Claim(
        NAME,
        job_id=_job_name(hosts),
        node_rank=node_rank,
        node_count=_node_count(environ, tasks),
        hosts=Fact(hosts, f"VC_*_HOSTS name {len(hosts)}") if hosts else None,
        host=own_host,
        meeting_hosts=hosts[:1],
    )


def _tasks(environ: Mapping[str, str]) -> Dict[str, Tuple[str, ...]]:
    tasks = {}
    for variable in environ:
        match = _HOSTS.match(variable)
        hosts = names_in(environ, variable) if match else None
        if match and hosts is not None:
            tasks[match.group(1)] = hosts.value
    return tasks


def _order(task: str) -> Tuple[bool, str]:
    return task != "MASTER", task


def _rank_among_tasks(environ: Mapping[str, str], hosts: Tuple[str, ...]) -> Optional["Fact[int]"]:
    own = environ.get("HOSTNAME", "")
    found = [rank for rank, host in enumerate(hosts) if own and host.split(".", 1)[0] == own.split(".", 1)[0]]
    return Fact(found[0], f"HOSTNAME is {own}, host {found[0]} of VC_*_HOSTS") if len(found) == 1 else None


def _node_count(environ: Mapping[str, str], tasks: Mapping[str, Tuple[str, ...]]) -> Optional["Fact[int]"]:
    counts: List[Fact[int]] = []
    for task in sorted(tasks, key=_order) or ["WORKER"]:
        named = len(tasks.get(task, ()))
        counts.append(number(environ, f"VC_{task}_NUM") or Fact(named, f"VC_{task}_HOSTS names {named}"))
    total = sum(fact.value for fact in counts)
    return Fact(total, " and ".join(fact.source for fact in counts)) if total else None


def _job_name(hosts: Tuple[str, ...]) -> Optional[str]:
    """`<job>` of the first host's `<job>-<task>-<index>.<job>`."""
    match = re.match(r"(.+)-[^-.]+-\d+(\..*)?\Z", hosts[0]) if hosts else None
    return match.group(1) if match else None
