"""From options, platform, machine and table to the plan: the names of things, the port, the cores, the directories."""

from __future__ import annotations

import os
from posixpath import join
from typing import Mapping, Optional

from davincirun import files, modelarts
from davincirun.environment import Job, driver_version
from davincirun.errors import PlatformError
from davincirun.options import Options
from davincirun.plan import LaunchPlan, Settings, make_plan
from davincirun.tables import GROUP_LIST_NAME, Found, Places
from davincirun.values import Value

_VERSION_INFO = "/usr/local/Ascend/driver/version.info"


class Names(Value):
    """What the launch and its files are called."""

    job_id: str
    is_shared: bool  # all nodes of the job know it by this id; else it is the host's name
    run_id: str
    log_dir: str
    places: Places


def names(options: Options, environ: Mapping[str, str], scheduler_job_id: Optional[str]) -> Names:
    """The names of this launch. PlatformError when a relative path can't be made absolute."""
    shared_id = options.job_id or modelarts.job_id(environ, scheduler_job_id or "")
    job_id = shared_id or os.uname().nodename
    log_dir = _absolute(options.log_dir or modelarts.log_dir(environ, os.path.isdir), "--log-dir")
    run_id = os.urandom(8).hex()
    base = modelarts.base_dir(environ, os.path.isdir) or join(log_dir, job_id)
    own = join(log_dir, job_id, "rank_table", f"hccl_{run_id}.json")
    places = Places(join(base, "rank_table", GROUP_LIST_NAME), own, job_id)
    return Names(job_id, bool(shared_id), run_id, log_dir, places)


def plan(options: Options, environ: Mapping[str, str], names: Names, found: Found) -> LaunchPlan:
    """The plan of this launch on this machine; nothing is created."""
    job_id = found.job_id or names.job_id
    seed = job_id if found.job_id or names.is_shared else ",".join(server.server_id for server in found.servers)
    cpu_ids = tuple(sorted(os.sched_getaffinity(0)))
    job = Job(
        job_id=job_id,
        log_dir=names.log_dir,
        rank_table_path=found.file.path,
        master_addr=_master_addr(found),
        master_port=_master_port(seed, found.me.node_count),
        omp_num_threads=max(len(cpu_ids) // len(found.me.devices), 1),
        driver_version=_driver_version(),
        run_id=names.run_id,
    )
    settings = Settings(
        command=options.command,
        job=job,
        workspace=None if options.workdir else modelarts.workspace(environ, os.path.isdir),
        workdir=_absolute(options.workdir or ".", "--workdir"),
        grace_seconds=options.grace_seconds,
        cpu_ids=cpu_ids,
        visible_devices=found.visible_devices,
    )
    return make_plan(settings, found.file, found.me, found.world_size, environ)


def _absolute(path: str, option: str) -> str:
    try:
        return os.path.abspath(path)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise PlatformError(f"the current directory is gone ({reason}): {option} takes a full path") from None


def _master_addr(found: Found) -> str:
    """Where rank 0 is reached: ourselves on one node, else the first address that its server is known by."""
    if found.me.node_count == 1:
        return "127.0.0.1"
    first = min(found.servers, key=lambda server: server.lowest_rank)
    names = (first.server_id, *first.addresses)
    return next((name for name in names if ":" in name or name.replace(".", "").isdigit()), first.server_id)


def _master_port(seed: str, node_count: int) -> int:
    """On one node a port that is free now; on several one that all derive from the same `seed`.

    The latter lies below the ports that Linux hands out by itself and clear of HCCL's 16666 and 60000.
    """
    if node_count > 1:
        import zlib

        return 20000 + zlib.crc32(seed.encode("utf-8", "surrogateescape")) % 10000
    import _socket  # the C half of `socket`, which alone does what is needed here and loads 15 ms faster

    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    finally:
        probe.close()
    return port


def _driver_version() -> Optional[str]:
    try:
        return driver_version(files.read(_VERSION_INFO).decode("utf-8", "replace"))
    except OSError:
        return None
