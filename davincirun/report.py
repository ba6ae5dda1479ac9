"""What is said at the end: the first failure with its evidence, or one line that all is well."""

from __future__ import annotations

import signal
from typing import Dict, List, Sequence

from davincirun.lifecycle import (
    NO_NODE,
    Exit,
    GuardianDied,
    Launch,
    NodeFailed,
    SignalReceived,
    StartFailed,
    WorkerExited,
    signal_name,
)
from davincirun.plan import LaunchPlan, WorkerSpec

TAIL_LINES = 20
_SHOWN_PROCESSES = 10


def summary(
    launch: Launch,
    plan: LaunchPlan,
    host_name: str,
    pids: Dict[int, int],
    tail: Sequence[str],
    left: Sequence[str],
    seconds: float,
) -> str:
    """The closing lines; `tail` is what the failed rank said last, `left` names processes that wouldn't die."""
    cause = launch.cause
    lines: List[str] = []
    if cause is None:
        lines.append(f"davincirun: {_count(len(launch.exits), 'worker')} finished in {duration(seconds)}")
    elif isinstance(cause, WorkerExited):
        lines += _failure(cause, plan, host_name, pids, tail)
    elif isinstance(cause, StartFailed):
        lines.append(f"davincirun: rank {cause.rank} can't be started: {cause.problem}")
    elif isinstance(cause, SignalReceived):
        lines.append(f"davincirun: stopped by {signal_name(cause.signum)} after {duration(seconds)}")
    elif isinstance(cause, GuardianDied):
        lines.append(f"davincirun: the launcher was killed after {duration(seconds)}; the job was killed with it")
    elif isinstance(cause, NodeFailed):
        lines.append(f"davincirun: {failed_node(cause)}; the job's other nodes were stopped")
    lines += _aftermath(launch, left)
    return "\n".join(lines) + "\n"


def news(launch: Launch, plan: LaunchPlan, host: str) -> str:
    """What is said at once when the launch has got a cause to end, where anybody is there to be stopped."""
    cause = launch.cause
    if isinstance(cause, NodeFailed):
        return f"{failed_node(cause)}; stopping the workers here"
    if not isinstance(cause, WorkerExited) or not (launch.running or plan.node_count > 1):
        return ""
    if plan.node_count == 1:
        return f"rank {cause.rank}: {cause.exit} after {duration(cause.seconds)}; stopping the others"
    here = NodeFailed(plan.node_rank, host, cause.exit.status, cause.rank, cause.exit, cause.seconds)
    return f"{failed_node(here)}; stopping the others"


def failed_node(failure: NodeFailed) -> str:
    """node 3 (host): rank 17 died of SIGSEGV after 2 h 4 min."""
    what = failure.problem
    if failure.exit is not None:
        what = f"rank {failure.rank} {_ended(failure.exit)} after {duration(failure.seconds or 0)}"
    return f"{failure.host if failure.node_rank == NO_NODE else f'node {failure.node_rank} ({failure.host})'}: {what}"


def duration(seconds: float) -> str:
    """A time span as people say it: 0.42 s, 12 s, 3 min 12 s, 2 h 4 min, 3 d 5 h."""
    if seconds < 10:
        return f"{seconds:.2g} s" if seconds >= 0.095 else f"{seconds:.2f} s"
    whole = int(seconds + 0.5)
    for unit, size, smaller, smaller_size in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller_size} {smaller}"
    return f"{whole} s"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers as people list them: 0-2, 5."""
    texts: List[str] = []
    start = previous = None
    for number in [*sorted(numbers), None]:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if previous is not None:
            texts.append(f"{start}" if start == previous else f"{start}-{previous}")
        start = previous = number
    return ", ".join(texts)


def _failure(
    cause: WorkerExited, plan: LaunchPlan, host_name: str, pids: Dict[int, int], tail: Sequence[str]
) -> List[str]:
    worker = next(worker for worker in plan.workers if worker.rank == cause.rank)
    lines = [f"davincirun: rank {cause.rank} failed first: it {_ended(cause.exit)} after {duration(cause.seconds)}"]
    if cause.exit.signum == signal.SIGKILL:
        lines.append("  it was killed from outside: by a user, the platform or the kernel when memory ran out")
    lines.append(f"  {_place(worker)}, host {host_name}, pid {pids.get(cause.rank, '?')}; log: {worker.log_path}")
    if any(line.strip() for line in tail):
        lines.append("  its last lines:")
        lines += [f"  | {line}" for line in tail]
    else:
        lines.append("  it printed nothing")
    return lines


def _ended(exit: Exit) -> str:
    return f"died of {exit}" if exit.signum is not None else f"ended with {exit}"


def _place(worker: WorkerSpec) -> str:
    return f"device {worker.device_id} (/dev/davinci{worker.physical_device_id})"


def _aftermath(launch: Launch, left: Sequence[str]) -> List[str]:
    lines = []
    if launch.was_killed:
        who = (
            f"rank{'s' if len(launch.killed) > 1 else ''} {ranges(launch.killed)}"
            if launch.killed
            else "what workers left behind"
        )
        why = "" if launch.is_hurried else f" after the grace of {duration(launch.grace_seconds)}"
        lines.append(f"  had to be killed{why}: {who}")
    if not left:
        lines.append("  0 processes left")
    else:
        lines.append(f"  {_count(len(left), 'process', 'es')} left that can't be killed; the machine needs a look:")
        lines += [f"    {process}" for process in left[:_SHOWN_PROCESSES]]
    return lines


def _count(number: int, thing: str, plural: str = "s") -> str:
    return f"{number} {thing}{'' if number == 1 else plural}"
