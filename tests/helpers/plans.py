"""A plan to look at, made of plain values."""

from __future__ import annotations

from typing import Mapping

from davincirun.cluster import Device
from davincirun.environment import Job
from davincirun.identity import Me
from davincirun.plan import LaunchPlan, Settings, TableFile, make_plan

JOB = Job(
    job_id="job",
    log_dir="/logs",
    rank_table_path="/logs/job/rank_table/hccl.json",
    master_addr="10.0.0.1",
    master_port=29500,
    omp_num_threads=4,
    driver_version=None,
    run_id="0123456789abcdef",
)
SETTINGS = Settings(
    command=("python", "train.py", "--name", "two words"),
    job=JOB,
    workspace=None,
    workdir="/work dir",
    grace_seconds=15.0,
    cpu_ids=(0, 1, 2, 3, 8),
    visible_devices=None,
)
TABLE = TableFile("/logs/job/rank_table/hccl.json", b"{}", "made from the cards of this machine")
ONE_NODE = Me("10.0.0.1", (Device(0, 4, "10.1.0.5"), Device(1, 5, None)), 0, 1, "this machine")
SECOND_NODE = Me(
    "10.0.0.2", (Device(2, 0, "10.1.1.1"), Device(3, 1, "10.1.1.2")), 1, 2, "MA_CURRENT_HOST_IP is 10.0.0.2"
)
ENVIRON = {"PATH": "/bin", "MS_ROLE": "MS_WORKER", "PYTHONUNBUFFERED": "", "RANK": "9"}


def plan(
    settings: Settings = SETTINGS, me: Me = ONE_NODE, world_size: int = 2, environ: Mapping[str, str] = ENVIRON
) -> LaunchPlan:
    """A plan that differs from the usual one in what is given."""
    return make_plan(settings, TABLE, me, world_size, environ)
