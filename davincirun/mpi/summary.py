"""What node 0 says at the end: the first failure with its evidence, or one line that all is well."""

from __future__ import annotations

import signal
from typing import List, Optional, Sequence, Tuple

from davincirun.lifecycle import GuardianDied, Launch, SignalReceived, StartFailed, WorkerExited, signal_name
from davincirun.report import duration, ranges
from davincirun.values import Value


class Fate(Value):
    """Where a rank ran and what it left."""

    host: str
    pid: int
    log_path: str
    tail: Tuple[str, ...] = ()


def summary(
    launch: Launch, ranks: int, nodes: int, fate: Optional[Fate], mpirun_log: str, seconds: float, left: Sequence[str]
) -> str:
    """The closing lines; `fate` is the failed rank's, `left` names processes of this node that wouldn't die."""
    cause = launch.cause
    lines: List[str] = []
    if cause is None:
        on = f" on {nodes} nodes" if nodes > 1 else ""
        lines.append(f"davincirun: {ranks} worker{'' if ranks == 1 else 's'}{on} finished in {duration(seconds)}")
    elif isinstance(cause, WorkerExited):
        lines += _failure(cause, fate)
    elif isinstance(cause, StartFailed):
        where = f" on {fate.host}" if fate else ""
        lines.append(f"davincirun: rank {cause.rank}{where}: {cause.problem}")
        lines.append(f"  what mpirun said about it: {mpirun_log}")
    elif isinstance(cause, SignalReceived):
        lines.append(f"davincirun: stopped by {signal_name(cause.signum)} after {duration(seconds)}")
    elif isinstance(cause, GuardianDied):
        lines.append(f"davincirun: the launcher was killed after {duration(seconds)}; the job was killed with it")
    if launch.killed:
        lines.append(f"  had to be killed: rank{'s' if len(launch.killed) > 1 else ''} {ranges(launch.killed)}")
    elif launch.was_killed and cause is None:
        lines.append("  mpirun had to be ended: all ranks had finished, but it hadn't noticed")
    if left:
        lines.append("  left on this node, and can't be killed:")
        lines += [f"    {process}" for process in left]
    else:
        lines.append("  0 processes left on this node")
    return "\n".join(lines) + "\n"


def _failure(cause: WorkerExited, fate: Optional[Fate]) -> List[str]:
    how = f"died of {cause.exit}" if cause.exit.signum is not None else f"ended with {cause.exit}"
    lines = [f"davincirun: rank {cause.rank} failed first: it {how} after {duration(cause.seconds)}"]
    if cause.exit.signum == signal.SIGKILL:
        lines.append("  it was killed from outside: by a user, the platform or the kernel when memory ran out")
    if fate is None:
        return lines
    lines.append(f"  host {fate.host}, pid {fate.pid}; log: {fate.log_path} there")
    if any(line.strip() for line in fate.tail):
        lines.append("  its last lines:")
        lines += [f"  | {line}" for line in fate.tail]
    else:
        lines.append("  it printed nothing")
    return lines
