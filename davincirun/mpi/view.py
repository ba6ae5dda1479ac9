"""The mpirun plan as people read it, and as programs do."""

from __future__ import annotations

import json
import shlex
from typing import List

from davincirun.environment_secrets import is_secret
from davincirun.mpi.command import as_shell
from davincirun.mpi.plan import MpiPlan


def as_text(plan: MpiPlan) -> str:
    """What is started where, what became of the OPENMPI_ variables, and a line for a shell."""
    nodes = ", ".join(plan.nodes.hosts)
    lines = [
        f"job {plan.job_id}: {plan.ranks} ranks on {len(plan.nodes.nodes)} nodes: {nodes} ({plan.nodes.origin})",
        f"this is node {plan.place.node_rank}: {plan.place.reason}",
        f"ranks: {plan.cards}",
        f"mpirun: {plan.mpirun_path}, Open MPI {plan.version.text}",
        f"command of each rank: {_joined(plan.orders.argv)}",
        f"working directory: {plan.orders.cwd}",
        f"logs: {plan.orders.log_dir}/{plan.job_id}-proc-rank-N-device-M.txt",
    ]
    lines += [f"rewritten: {note}" for note in plan.command.notes]
    lines += [f"note: {note}" for note in (*plan.notes[len(plan.command.notes) :], *plan.warnings)]
    return "\n".join([*lines, "", *_shell(plan)]) + "\n"


def as_json(plan: MpiPlan) -> str:
    """One JSON object; `env` holds what mpirun's environment has other than ours."""
    return json.dumps(
        {
            "engine": "mpi",
            "job_id": plan.job_id,
            "world_size": plan.ranks,
            "node_rank": plan.place.node_rank,
            "node_count": len(plan.nodes.nodes),
            "hosts": list(plan.nodes.hosts),
            "sshd_port": plan.nodes.port,
            "open_mpi": plan.version.text,
            "argv": list(plan.command.argv),
            "env": {name: _hidden(name, value) for name, value in sorted(plan.command.changes.items())},
            "files": [{"path": file.path, "mode": oct(file.mode)} for file in plan.files],
            "worker_argv": list(plan.orders.argv),
            "cwd": plan.orders.cwd,
            "log_dir": plan.orders.log_dir,
            "notes": [*plan.notes, *plan.warnings],
        },
        indent=2,
    )


def _shell(plan: MpiPlan) -> List[str]:
    """The host file and mpirun, ready to paste."""
    lines = []
    for file in plan.files:
        if file.mode & 0o077:  # the other one is for looking only and holds secrets
            folder = shlex.quote(file.path.rpartition("/")[0])
            text = _joined(file.data.decode().splitlines())
            lines.append(f"mkdir -p {folder} && printf '%s\\n' {text} > {shlex.quote(file.path)}")
    hidden = [name for name in plan.command.changes if is_secret(name)]
    return [*lines, as_shell(plan.command, hidden)]


def _hidden(name: str, value: str) -> str:
    return "(secret)" if is_secret(name) else value


def _joined(words: "tuple[str, ...] | list[str]") -> str:
    return " ".join(map(shlex.quote, words))
