"""What the user asked for, as one value; `command_line` reads it."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence, Tuple

from davincirun.values import Value


class Options(Value):
    """What the user asked for."""

    command: Tuple[str, ...]
    simulate: Optional[str] = None  # a node's cards, as `devices.simulated` reads them
    devices: Optional[str] = None  # logical ids, as `devices.selection` reads them
    require_healthy: bool = False
    detect_timeout_seconds: Optional[float] = None  # for each run of npu-smi or hccn_tool; None: the usual one
    rank_table: Optional[str] = None  # path
    rank_table_timeout_seconds: float = 1800.0
    log_dir: Optional[str] = None
    job_id: Optional[str] = None
    workdir: Optional[str] = None
    grace_seconds: float = 15.0
    prefix: Optional[bool] = None  # None: as the console is
    dry_run: bool = False
    json: bool = False
    verbosity: int = 0  # -1 quiet, 1 verbose


def without_any(argv: Sequence[str], environ: Mapping[str, str]) -> Optional[Options]:
    """The options of a plain `davincirun COMMAND ARG...`; None where some are given and have to be read.

    This is how platforms start us, and it spares them the 10 ms that the reader takes to load.
    """
    if not argv or argv[0].startswith("-") or any(name.startswith("DAVINCIRUN_") for name in environ):
        return None
    return Options(tuple(argv))
