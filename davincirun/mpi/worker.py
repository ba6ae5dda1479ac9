"""Who a rank is, from what Open MPI tells its shim, and the variables its worker sees."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from davincirun.environment import OVERWRITTEN, REMOVED, UNLESS_FILLED, UNLESS_SET, Identity, Job
from davincirun.errors import PlatformError
from davincirun.mpi.gpus import chosen
from davincirun.mpi.payload import Orders
from davincirun.values import Value

HUB_VARIABLE = "DAVINCIRUN_HUB"
KEY_VARIABLE = "DAVINCIRUN_HUB_KEY"

# Read by Ascend's libraries alone: on a GPU node they would only puzzle.
_ASCENDS = ("ASCEND_DEVICE_ID", "ASCEND_PROCESS_LOG_PATH", "HCCL_CONNECT_TIMEOUT", "RANK_TABLE_FILE")


class Rank(Value):
    """What Open MPI says of one rank."""

    rank: int
    size: int
    local_rank: int
    local_size: int


def rank_of(environ: Mapping[str, str]) -> Rank:
    """This process's rank. PlatformError: Open MPI didn't start it."""
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    try:
        return Rank(*(int(environ[f"OMPI_COMM_WORLD_{name}"]) for name in names))
    except (KeyError, ValueError) as error:
        raise PlatformError(f"not started by Open MPI's mpirun: {error}") from None


def node_index(hosts: Sequence[str], names: Sequence[str], rank: Rank) -> int:
    """Which node a rank runs on: where one of the machine's own names and addresses says, else as slots are filled."""
    for index, host in enumerate(hosts):
        if host in names or (not host.replace(".", "").isdigit() and host.split(".", 1)[0] in names):
            return index
    return min(rank.rank // rank.local_size, len(hosts) - 1)


def worker_changes(
    rank: Rank, node: int, orders: Orders, host: str, cpu_count: int, base: Mapping[str, str]
) -> Dict[str, Optional[str]]:
    """What a worker's environment has other than `base`, the shim's own; None means: remove it.

    Open MPI's own variables stay: MPI itself, Horovod and MindSpore's GPU backend live on them.
    """
    identity, job = _identity(rank, node, orders, host), _job(rank, orders, cpu_count)
    changes: Dict[str, Optional[str]] = {name: None for name in REMOVED if not name.startswith("OMPI_")}
    changes.update(dict.fromkeys((HUB_VARIABLE, KEY_VARIABLE, "RANK_TABLE_FILE")))
    rows = [row for row in OVERWRITTEN if row.name not in _ASCENDS]
    rows += [row for row in UNLESS_SET if row.name not in base and row.name not in _ASCENDS]
    rows += [row for row in UNLESS_FILLED if not base.get(row.name)]
    changes.update((row.name, str(row.value(identity, job))) for row in rows)
    if orders.has_own_gpu:
        changes["CUDA_VISIBLE_DEVICES"] = _own_gpu(rank.local_rank, base.get("CUDA_VISIBLE_DEVICES", ""))
    return changes


def environment(changes: Mapping[str, Optional[str]], base: Mapping[str, str]) -> Dict[str, str]:
    """`base` with `changes` applied."""
    kept = {name: value for name, value in base.items() if name not in changes}
    return {**kept, **{name: value for name, value in changes.items() if value is not None}}


def _identity(rank: Rank, node: int, orders: Orders, host: str) -> Identity:
    return Identity(
        rank=rank.rank,
        local_rank=rank.local_rank,
        world_size=rank.size,
        local_world_size=rank.local_size,
        logical_device_id=rank.local_rank,
        physical_device_id=rank.local_rank,
        node_rank=node,
        node_count=len(orders.hosts),
        server_id=host,
    )


def _job(rank: Rank, orders: Orders, cpu_count: int) -> Job:
    return Job(
        job_id=orders.job_id,
        log_dir=orders.log_dir,
        rank_table_path="",
        master_addr=orders.master_addr,
        master_port=orders.master_port,
        omp_num_threads=max(cpu_count // rank.local_size, 1),
        driver_version=None,
        run_id=orders.run_id,
    )


def _own_gpu(local_rank: int, visible: str) -> str:
    devices = chosen(visible)
    return devices[local_rank % len(devices)] if devices else str(local_rank)
