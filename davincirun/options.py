"""What the user asked for, as one value; `command_line` reads it."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple

from davincirun.values import Value

ENGINES = ("auto", "ascend", "mpi")


class Options(Value):
    """What the user asked for."""

    command: Tuple[str, ...]
    simulate: Optional[str] = None  # a node's cards, as `devices.simulated` reads them
    devices: Optional[str] = None  # logical ids, as `devices.selection` reads them
    require_healthy: bool = False
    detect_timeout_seconds: float = 10.0  # for each run of npu-smi or hccn_tool
    rank_table: Optional[str] = None  # path
    rank_table_timeout_seconds: float = 1800.0
    nodes: Optional[int] = None  # how many the job has
    node_rank: Optional[int] = None  # which of them this is
    rendezvous: Optional[str] = None  # where they meet, as `rendezvous.choice` reads it
    rendezvous_timeout_seconds: float = 1800.0
    node_timeout_seconds: float = 15.0  # without a sign of life; 0: a node is never given up
    log_dir: Optional[str] = None
    job_id: Optional[str] = None
    workdir: Optional[str] = None
    grace_seconds: float = 15.0
    prefix: Optional[bool] = None  # None: as the console is
    dry_run: bool = False
    json: bool = False
    verbosity: int = 0  # -1 quiet, 1 verbose
    engine: str = ENGINES[0]
    hosts: Optional[str] = None  # the job's nodes, as `mpi.hosts` reads them
    hosts_timeout_seconds: float = 600.0


def without_any(argv: Sequence[str], environ: Mapping[str, str]) -> Optional[Options]:
    """The options of a plain `davincirun COMMAND ARG...`; None where some are given and have to be read.

    This is how platforms start us, and it spares them the 10 ms that the reader takes to load.
    """
    if not argv or argv[0].startswith("-") or any(name.startswith("DAVINCIRUN_") for name in environ):
        return None
    return Options(tuple(argv))
