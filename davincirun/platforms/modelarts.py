"""ModelArts: the first platform generation (DLS_…, BATCH_…), the second (MA_…), and Lite, which is plain Volcano."""

from __future__ import annotations

from typing import List, Mapping, Optional, Tuple

from davincirun import modelarts
from davincirun.platforms.claim import Claim, Fact, number, without_port

NAME = "modelarts"


def read(environ: Mapping[str, str]) -> Optional[Claim]:
    """What ModelArts' own variables say, or None elsewhere; its Volcano part is read by `volcano`."""
    if not modelarts.is_modelarts(environ):
        return None
    hosts = _batch_hosts(environ)
    return Claim(
        NAME,
        job_id=modelarts.job_id(environ, "") or None,
        node_rank=number(environ, "DLS_TASK_INDEX"),
        node_count=_node_count(environ),
        hosts=Fact(hosts, f"BATCH_CUSTOM0_HOSTS and so on name {len(hosts)}") if hosts else None,
        host=environ.get("MA_CURRENT_INSTANCE_NAME") or environ.get("BATCH_TASK_CURRENT_INSTANCE"),
        address=environ.get("MA_CURRENT_HOST_IP") or environ.get("MA_CURRENT_IP"),
    )


def _node_count(environ: Mapping[str, str]) -> Optional["Fact[int]"]:
    """MA_NUM_HOSTS; a 0 there stands for "not known"."""
    for name in ("MA_NUM_HOSTS", "DLS_TASK_NUMBER"):
        fact = number(environ, name)
        if fact is not None and fact.value > 0:
            return fact
    return None


def _batch_hosts(environ: Mapping[str, str]) -> Tuple[str, ...]:
    """The first generation names node N in BATCH_CUSTOM<N>_HOSTS, with a port."""
    hosts: List[str] = []
    while environ.get(f"BATCH_CUSTOM{len(hosts)}_HOSTS"):
        hosts.append(without_port(environ[f"BATCH_CUSTOM{len(hosts)}_HOSTS"]))
    return tuple(hosts)
