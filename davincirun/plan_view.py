"""The plan as people read it, and as programs do."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from davincirun.environment_secrets import is_secret
from davincirun.plan import LaunchPlan, WorkerSpec
from davincirun.report import ranges

_REMOVED = "(removed)"


def as_json(plan: LaunchPlan) -> str:
    """One JSON object; a worker's `env` holds only what we add or change, a null value what we remove."""
    return json.dumps(
        {
            "job_id": plan.job_id,
            "world_size": plan.world_size,
            "node_rank": plan.node_rank,
            "node_count": plan.node_count,
            "rank_table_path": plan.table.path,
            "server_id": plan.server_id,
            "workers": [_worker(worker) for worker in plan.workers],
        },
        indent=2,
    )


def as_text(plan: LaunchPlan) -> str:
    """A table of the workers, then the variables: what differs per rank, and what all have."""
    head = (
        f"job {plan.job_id}: {len(plan.workers)} of {plan.world_size} ranks here,"
        f" node {plan.node_rank} of {plan.node_count}\n"
        f"server {plan.server_id}: {plan.identity_reason}\n"
        f"rank table {plan.table.path or '(none)'}: {plan.table.origin}\n"
        f"command: {' '.join(map(_quoted, plan.workers[0].argv)) if plan.workers else ''}\n"
    )
    cores = ranges(plan.cpu_ids)
    rows = [("rank", "device", "physical", "address", "cores", "working directory", "log")]
    rows += [
        (
            str(worker.rank),
            str(worker.device_id),
            str(worker.physical_device_id),
            worker.device_ip or "-",
            cores,
            worker.cwd,
            worker.log_path,
        )
        for worker in plan.workers
    ]
    return "\n".join((head, _aligned(rows), _variables(plan.workers)))


def _worker(worker: WorkerSpec) -> Dict[str, Any]:
    return {
        "rank": worker.rank,
        "local_rank": worker.local_rank,
        "device_id": worker.device_id,
        "physical_device_id": worker.physical_device_id,
        "device_ip": worker.device_ip,
        "argv": list(worker.argv),
        "cwd": worker.cwd,
        "log_path": worker.log_path,
        "env": _redacted(worker.changes),
    }


def _redacted(variables: Mapping[str, Optional[str]]) -> Dict[str, Optional[str]]:
    return {
        name: "(secret)" if value is not None and is_secret(name) else value
        for name, value in sorted(variables.items())
    }


def _variables(workers: Sequence[WorkerSpec]) -> str:
    if not workers:
        return ""
    changes = [_redacted(worker.changes) for worker in workers]
    names = sorted({name for one in changes for name in one})
    common = [name for name in names if all(name in one and one[name] == changes[0].get(name) for one in changes)]
    differing = [name for name in names if name not in common]
    lines = ["variables of all workers:"]
    lines += [f"  {name}={_shown(changes[0][name])}" for name in common]
    if differing:
        lines.append("variables per rank:")
        rows: List[Tuple[str, ...]] = [("  rank", *differing)]
        rows += [
            (f"  {worker.rank}", *(_shown(one.get(name)) for name in differing))
            for worker, one in zip(workers, changes)
        ]
        lines.append(_aligned(rows).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _shown(value: Optional[str]) -> str:
    return _REMOVED if value is None else _quoted(value)


def _quoted(text: str) -> str:
    """As a shell would need it, but only where it would."""
    import shlex

    return shlex.quote(text) if text else "''"


def _aligned(rows: Sequence[Tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() + "\n" for row in rows)
