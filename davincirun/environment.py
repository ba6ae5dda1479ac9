"""The variables a worker sees: one row each, with who reads it, its value and when it gives way to the user's.

The tables are OVERWRITTEN, UNLESS_SET, UNLESS_FILLED and REMOVED. A worker's environment is the launcher's own
with `worker_changes` applied, nothing else. What ModelArts' diagnosis and run modes add is in `environment_modes`.
FORCE_COLOR and its like are left alone: a rank's file holds what the rank prints, and shall hold no escape codes.
"""

from __future__ import annotations

import re
from posixpath import join
from typing import Callable, Dict, Mapping, Optional, Tuple

from davincirun.environment_modes import mode_variables
from davincirun.modelarts import channel_changes, wants_device_logs_on_stdout
from davincirun.values import Value

PHYSICAL_DEVICE_ID_DRIVER = "20.1.0"  # the one driver whose runtime counts DEVICE_ID over the whole machine


class Identity(Value):
    """Who one worker is."""

    rank: int  # global, from 0
    local_rank: int  # among the workers of this launcher, from 0
    world_size: int  # workers of the whole job
    local_world_size: int  # workers of this launcher
    logical_device_id: int  # index of the device in its server's list: what the runtime counts by
    physical_device_id: int  # the table's device_id: the N of /dev/davinciN
    node_rank: int  # which launcher, from 0
    node_count: int  # launchers of the whole job
    server_id: str  # the table's name for this machine


class Job(Value):
    """What all workers of this launch share."""

    job_id: str
    log_dir: str
    rank_table_path: str  # version 1.0 or later; empty: no table
    master_addr: str
    master_port: int
    omp_num_threads: Optional[int]  # None: leave unset
    driver_version: Optional[str]  # what `driver_version` makes of driver/version.info
    run_id: str  # the cookie by which left-over processes are found

    @property
    def directory(self) -> str:
        """Where this job's logs below the common log directory lie."""
        return join(self.log_dir, self.job_id)


def device_id(identity: Identity, job: Job) -> int:
    """The number in DEVICE_ID, in the log file's name and in the working directory's: logical, save for one driver."""
    if job.driver_version == PHYSICAL_DEVICE_ID_DRIVER:
        return identity.physical_device_id
    return identity.logical_device_id


def _ascend_device_id(identity: Identity, job: Job) -> Optional[int]:
    return None if job.driver_version == PHYSICAL_DEVICE_ID_DRIVER else identity.logical_device_id


def _process_log_path(identity: Identity, job: Job) -> str:
    return join(job.directory, "ascend", "process_log", f"rank_{identity.rank}")


class Row(Value):
    """One variable: `value` gives its text, or None where it must not be seen at all."""

    name: str
    readers: str
    value: Callable[[Identity, Job], Optional[object]]


# Always ours: an inherited value is another process's identity. (Kubernetes operators preset several per node,
# with node ranks where workers expect their own.)
OVERWRITTEN = (
    Row("RANK_ID", "MindSpore, TensorFlow, HCCL", lambda who, job: who.rank),
    Row("RANK_SIZE", "MindSpore, TensorFlow", lambda who, job: who.world_size),
    Row("DEVICE_ID", "MindSpore, scripts", device_id),
    Row("ASCEND_DEVICE_ID", "TensorFlow, older MindSpore", _ascend_device_id),
    Row("RANK_TABLE_FILE", "HCCL through all frameworks", lambda who, job: job.rank_table_path or None),
    Row("JOB_ID", "older MindSpore, TensorFlow", lambda who, job: job.job_id),
    Row("RANK", "PyTorch", lambda who, job: who.rank),
    Row("LOCAL_RANK", "PyTorch", lambda who, job: who.local_rank),
    Row("WORLD_SIZE", "PyTorch", lambda who, job: who.world_size),
    Row("LOCAL_WORLD_SIZE", "PyTorch", lambda who, job: who.local_world_size),
    Row("GROUP_RANK", "PyTorch", lambda who, job: who.node_rank),
    Row("NODE_RANK", "Lightning, scripts", lambda who, job: who.node_rank),
    Row("DEVICE_NUM", "MindSpore's sample scripts: the cards of one node", lambda who, job: who.local_world_size),
    Row("SERVER_ID", "scripts: the table's server_id; the node's index is NODE_RANK", lambda who, job: who.server_id),
    # MindSpore heeds these three only with MS_ROLE, so they do no harm and tell scripts the job's shape.
    Row("MS_WORKER_NUM", "scripts written for msrun", lambda who, job: who.world_size),
    Row("MS_LOCAL_WORKER", "scripts written for msrun", lambda who, job: who.local_world_size),
    Row("MS_NODE_RANK", "scripts written for msrun", lambda who, job: who.node_rank),
    Row("DAVINCIRUN_RUN_ID", "davincirun, to find left-over processes", lambda who, job: job.run_id),
)

# The user's value stands, an empty one too (PYTHONUNBUFFERED= means "buffered").
UNLESS_SET = (
    Row("HCCL_CONNECT_TIMEOUT", "HCCL, seconds; its own 120 is short of a slow rank", lambda who, job: 1800),
    Row("ASCEND_PROCESS_LOG_PATH", "CANN's logs", _process_log_path),
    Row("PYTHONUNBUFFERED", "Python: through a pipe, output comes in blocks of 8 KiB", lambda who, job: 1),
    Row("OMP_NUM_THREADS", "OpenMP, numpy: else every rank takes all cores", lambda who, job: job.omp_num_threads),
)

# As above, but an empty value counts as unset: no framework can do anything with it.
UNLESS_FILLED = (
    Row("MASTER_ADDR", "PyTorch", lambda who, job: job.master_addr),
    Row("MASTER_PORT", "PyTorch", lambda who, job: job.master_port),
)

# Inherited from another launcher, and believed before what we set.
REMOVED: Mapping[str, str] = {
    "MS_ROLE": "MindSpore then joins a dynamic cluster instead of using RANK_ID and the table",
    "MS_SCHED_HOST": "the same, in newer MindSpore",
    "MS_NODE_ID": "MindSpore's name for one process of a dynamic cluster",
    "OMPI_COMM_WORLD_RANK": "MindSpore puts it in place of RANK_ID",
    "OMPI_COMM_WORLD_SIZE": "MindSpore puts it in place of RANK_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK": "MindSpore puts it in place of DEVICE_ID",
    "OMPI_COMMAND": "MindSpore takes it for a launch by mpirun, without a table",
    "TORCHELASTIC_USE_AGENT_STORE": "PyTorch's rank 0 then expects torchrun's store and serves none",
    "GROUP_WORLD_SIZE": "torchrun's count of its agents",
    "ROLE_RANK": "torchrun's rank within a role",
    "ROLE_WORLD_SIZE": "torchrun's count of a role's workers",
    "ROLE_NAME": "torchrun's name of a role",
    "CM_CHIEF_IP": "TensorFlow's start without a table, which excludes RANK_ID and RANK_TABLE_FILE",
    "CM_CHIEF_PORT": "the same",
    "CM_CHIEF_DEVICE": "the same",
    "CM_WORKER_SIZE": "the same",
    "CM_WORKER_IP": "the same",
    "CM_LOCAL_WORKER": "the same",
    "CM_RANK": "the same",
}

_PROMISED_DIRECTORIES = (
    ("ASCEND_PROCESS_LOG_PATH", ""),
    ("NPU_COLLECT_PATH", "extra-info/graph"),
    ("GLOG_log_dir", ""),
    ("MS_RDR_PATH", ""),
    ("MS_OM_PATH", ""),
    ("MS_DIAGNOSTIC_DATA_PATH", ""),
)


def worker_changes(identity: Identity, job: Job, base: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """What one worker's environment has other than `base`, the launcher's own; None means: remove it."""
    changes: Dict[str, Optional[str]] = dict.fromkeys(REMOVED)
    changes.update((row.name, _text(row.value(identity, job))) for row in OVERWRITTEN)
    changes.update(_defaults(identity, job, base))
    changes.update(_table_path_changes(job, base))
    changes["ASCEND_RT_VISIBLE_DEVICES"] = _visible_devices(base.get("ASCEND_RT_VISIBLE_DEVICES", ""))
    if wants_device_logs_on_stdout(base):
        changes["SLOG_PRINT_TO_STDOUT"] = "1"
    changes.update(channel_changes(base))
    return {name: value for name, value in changes.items() if value != base.get(name)}


def directories(variables: Mapping[str, Optional[str]]) -> Tuple[str, ...]:
    """The directories that `variables` promise to CANN and MindSpore, in a stable order, each once.

    Given `worker_changes` alone they are ours; given a worker's whole environment, the user's as well.
    """
    promised = (
        join(path, below) if below else path
        for path, below in ((variables.get(name), below) for name, below in _PROMISED_DIRECTORIES)
        if path
    )
    return tuple(dict.fromkeys(promised))


def driver_version(version_info: str) -> Optional[str]:
    """The version in the text of /usr/local/Ascend/driver/version.info, whose first line is `Version=20.1.0`."""
    match = re.match(r"\s*Version\s*=\s*(\S+)", version_info.split("\n", 1)[0])
    return match.group(1) if match else None


def _defaults(identity: Identity, job: Job, base: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """The variables that give way to the user's."""
    rows = [row for row in UNLESS_SET if row.name not in base]
    rows += [row for row in UNLESS_FILLED if not base.get(row.name)]
    defaults = {row.name: _text(row.value(identity, job)) for row in rows}
    for name, value in mode_variables(base, job.directory, identity.rank).items():
        if name not in base:
            defaults[name] = value
    return defaults


def _table_path_changes(job: Job, base: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """MindSpore prefers this older name to RANK_TABLE_FILE: where it is set, both must name one table."""
    if "MINDSPORE_HCCL_CONFIG_PATH" in base:
        return {"MINDSPORE_HCCL_CONFIG_PATH": job.rank_table_path or None}
    return {}


def _visible_devices(users: str) -> Optional[str]:
    """The user's choice as CANN's runtime reads it: it refuses "" and falling ids, and a blank ends its reading."""
    ids = [part.strip() for part in users.split(",")]
    if all(re.fullmatch("[0-9]+", part) for part in ids):
        return ",".join(map(str, sorted({int(part) for part in ids})))
    return users if users.strip() else None


def _text(value: Optional[object]) -> Optional[str]:
    return None if value is None else str(value)
