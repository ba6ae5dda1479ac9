"""Kubeflow's training operator (PET_…) and MindCluster's ascend-operator, which both count nodes, not workers.

ascend-operator presets what workers expect of a launcher, per node: RANK is the node's, LOCAL_RANK a text such as
{0,1,2,3}, WORLD_SIZE counts all cards. That text is the only sure sign of it: a bare RANK or WORLD_SIZE may be left
over from anything, and is never believed.
"""

from __future__ import annotations

import re
from typing import Mapping, Optional, Tuple

from davincirun.platforms.claim import Claim, Fact, number

NAME = "kubernetes"


def read(environ: Mapping[str, str]) -> Optional[Claim]:
    """What the operator says, or None where none did anything."""
    if environ.get("PET_NNODES"):
        return Claim(
            NAME,
            node_rank=number(environ, "PET_NODE_RANK"),
            node_count=_fixed_count(environ["PET_NNODES"]),
            meeting_hosts=_set(environ, "PET_MASTER_ADDR", "MASTER_ADDR"),
        )
    if re.match(r"\{[\d, ]*\}\Z", environ.get("LOCAL_RANK", "")):
        return Claim(
            NAME,
            node_rank=number(environ, "RANK"),
            node_count=_operator_count(environ),
            address=environ.get("XDL_IP"),
            meeting_hosts=_set(environ, "MASTER_ADDR"),
        )
    return None


def _set(environ: Mapping[str, str], *names: str) -> Tuple[str, ...]:
    return tuple(dict.fromkeys(environ[name] for name in names if environ.get(name)))


def _fixed_count(text: str) -> Optional["Fact[int]"]:
    """PET_NNODES may be a range, `2:4`, of which only an equal pair is a number of nodes."""
    low, _, high = text.partition(":")
    if low.isdigit() and high in ("", low):
        return Fact(int(low), f"PET_NNODES is {text}")
    return None


def _operator_count(environ: Mapping[str, str]) -> Optional["Fact[int]"]:
    cards = number(environ, "WORLD_SIZE")
    here = number(environ, "LOCAL_WORLD_SIZE")
    if cards is None or here is None or here.value == 0 or cards.value % here.value:
        return None
    return Fact(cards.value // here.value, f"{cards.source} and {here.source}")
