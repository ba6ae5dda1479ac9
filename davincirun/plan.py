"""The whole launch as one frozen value: `--dry-run` prints it, the supervisor carries out that very object.

Planning decides and creates nothing.
"""

from __future__ import annotations

from posixpath import join
from typing import Dict, Mapping, Optional, Tuple

from davincirun.environment import Identity, Job, device_id, directories, worker_changes
from davincirun.identity import Me
from davincirun.values import Value


class TableFile(Value):
    """The rank table that workers are given."""

    path: str
    data: Optional[bytes]  # to be written there first; None: the file is used as it is
    origin: str  # where it comes from, for people


class Settings(Value):
    """What the options, the platform and this machine lay down for the launch."""

    command: Tuple[str, ...]
    job: Job
    workspace: Optional[str]  # each worker gets its own `device<N>` in it; None: `workdir` for all
    workdir: str
    grace_seconds: float
    cpu_ids: Tuple[int, ...]
    visible_devices: Optional[str]  # ASCEND_RT_VISIBLE_DEVICES for the workers, when cards were chosen


class WorkerSpec(Value):
    """One worker to start."""

    rank: int
    local_rank: int
    device_id: int  # in DEVICE_ID, in the log's name, in the working directory's
    physical_device_id: int
    device_ip: Optional[str]
    argv: Tuple[str, ...]
    cwd: str
    log_path: str
    changes: Dict[str, Optional[str]]  # to the launcher's environment; None removes
    directories: Tuple[str, ...]  # that must exist before it starts


class LaunchPlan(Value):
    """All that a launch on this node does."""

    job_id: str
    world_size: int
    node_rank: int
    node_count: int
    server_id: str
    identity_reason: str
    table: TableFile
    log_dir: str
    grace_seconds: float
    cpu_ids: Tuple[int, ...]
    run_id: str
    workers: Tuple[WorkerSpec, ...]


def make_plan(settings: Settings, table: TableFile, me: Me, world_size: int, environ: Mapping[str, str]) -> LaunchPlan:
    """The plan for starting `me`'s devices out of a job of `world_size` ranks."""
    job = settings.job
    workers = tuple(_worker(settings, me, local_rank, world_size, environ) for local_rank in range(len(me.devices)))
    return LaunchPlan(
        job_id=job.job_id,
        world_size=world_size,
        node_rank=me.node_rank,
        node_count=me.node_count,
        server_id=me.server_id,
        identity_reason=me.reason,
        table=table,
        log_dir=job.log_dir,
        grace_seconds=settings.grace_seconds,
        cpu_ids=settings.cpu_ids,
        run_id=job.run_id,
        workers=workers,
    )


def environment(worker: WorkerSpec, base: Mapping[str, str]) -> Dict[str, str]:
    """The whole environment of a worker: the launcher's own and the changes."""
    env = dict(base)
    for name, value in worker.changes.items():
        if value is None:
            env.pop(name, None)
        else:
            env[name] = value
    return env


def _worker(settings: Settings, me: Me, local_rank: int, world_size: int, environ: Mapping[str, str]) -> WorkerSpec:
    device = me.devices[local_rank]
    identity = Identity(
        rank=device.rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=len(me.devices),
        logical_device_id=local_rank,
        physical_device_id=device.device_id,
        node_rank=me.node_rank,
        node_count=me.node_count,
        server_id=me.server_id,
    )
    changes = worker_changes(identity, settings.job, environ)
    if settings.visible_devices is not None:
        changes["ASCEND_RT_VISIBLE_DEVICES"] = settings.visible_devices
    number = device_id(identity, settings.job)
    name = f"{settings.job.job_id}-proc-rank-{device.rank}-device-{number}.txt"
    return WorkerSpec(
        rank=device.rank,
        local_rank=local_rank,
        device_id=number,
        physical_device_id=device.device_id,
        device_ip=device.device_ip,
        argv=settings.command,
        cwd=settings.workdir if settings.workspace is None else join(settings.workspace, f"device{number}"),
        log_path=join(settings.job.log_dir, name),
        changes=changes,
        directories=directories({**environ, **changes}),
    )
