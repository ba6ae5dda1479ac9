"""Who we are among the nodes, told from variables: each row is what a real platform sets on one node."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import pytest

from davincirun.errors import PlatformError, UsageError
from davincirun.platforms import Explicit, find_context, slurm

SLURM = {
    "SLURM_JOB_ID": "812",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_NODES": "3",
    "SLURM_NNODES": "3",
    "SLURM_STEP_NODELIST": "atlas[07-09]",
    "SLURM_STEP_TASKS_PER_NODE": "1(x3)",
    "SLURM_NODEID": "2",
    "SLURM_PROCID": "2",
    "SLURMD_NODENAME": "atlas09",
    "SLURM_LAUNCH_NODE_IPADDR": "10.3.0.7",
}
BATCH = {
    "SLURM_JOB_ID": "812",
    "SLURM_NNODES": "3",
    "SLURM_PROCID": "0",
    "SLURM_NODEID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODELIST": "atlas[07-09]",
}
VOLCANO = {
    "VC_TASK_INDEX": "1",
    "VC_WORKER_NUM": "2",
    "VC_WORKER_HOSTS": "bert-worker-0.bert,bert-worker-1.bert",
    "HOSTNAME": "bert-worker-1",
}
MODELARTS = {
    **VOLCANO,
    "MA_NUM_HOSTS": "2",
    "MA_VJ_NAME": "ma-job-77",
    "MA_CURRENT_HOST_IP": "192.168.3.9",
    "MA_CURRENT_INSTANCE_NAME": "bert-worker-1",
}
MODELARTS_1 = {
    "BATCH_JOB_ID": "job77",
    "DLS_TASK_INDEX": "0",
    "DLS_TASK_NUMBER": "2",
    "BATCH_CUSTOM0_HOSTS": "job77-custom-0.ns:6666",
    "BATCH_CUSTOM1_HOSTS": "job77-custom-1.ns:6667",
}
MASTER_AND_WORKERS = {
    "VC_TASK_INDEX": "0",
    "VC_MASTER_NUM": "1",
    "VC_MASTER_HOSTS": "gpt-master-0.gpt",
    "VC_WORKER_NUM": "2",
    "VC_WORKER_HOSTS": "gpt-worker-0.gpt,gpt-worker-1.gpt",
    "HOSTNAME": "gpt-worker-0",
}
OPENMPI_4 = {
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "OMPI_MCA_ess_base_jobid": "2468216833",
}
OPENMPI_5 = {
    "OMPI_COMM_WORLD_SIZE": "3",
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
    "PMIX_NAMESPACE": "prterun-node0-61@1",
    "PMIX_RANK": "1",
}
KUBEFLOW = {
    "PET_NNODES": "4",
    "PET_NODE_RANK": "3",
    "PET_MASTER_ADDR": "bert-master-0",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "bert-master-0",
}
ASCEND_OPERATOR = {
    "RANK": "1",
    "LOCAL_RANK": "{0,1,2,3,4,5,6,7}",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "MASTER_ADDR": "10.0.3.4",
    "MASTER_PORT": "2222",
}
LEFT_OVER = {
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "5",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_RANK": "5",
}


@pytest.mark.parametrize(
    ("environ", "platform", "job_id", "node_rank", "node_count", "hosts", "meeting_hosts"),
    [
        ({}, "standalone", None, None, 0, (), ()),
        (LEFT_OVER, "standalone", None, None, 0, (), ()),
        (SLURM, "slurm", "slurm-812.0", 2, 3, ("atlas07", "atlas08", "atlas09"), ("atlas07",)),
        (BATCH, "slurm", None, None, 0, (), ()),
        ({**SLURM, "SLURM_STEP_ID": "4294967290"}, "slurm", None, None, 0, (), ()),
        (VOLCANO, "volcano", "bert", 1, 2, ("bert-worker-0.bert", "bert-worker-1.bert"), ("bert-worker-0.bert",)),
        (
            MASTER_AND_WORKERS,
            "volcano",
            "gpt",
            1,
            3,
            ("gpt-master-0.gpt", "gpt-worker-0.gpt", "gpt-worker-1.gpt"),
            ("gpt-master-0.gpt",),
        ),
        (
            MODELARTS,
            "modelarts",
            "modelarts-job-77",
            1,
            2,
            ("bert-worker-0.bert", "bert-worker-1.bert"),
            ("bert-worker-0.bert",),
        ),
        (MODELARTS_1, "modelarts", "job77", 0, 2, ("job77-custom-0.ns", "job77-custom-1.ns"), ("job77-custom-0.ns",)),
        (OPENMPI_4, "openmpi", "mpi-2468216833", 1, 3, (), ()),
        (OPENMPI_5, "openmpi", "mpi-prterun-node0-61@1", 1, 3, (), ()),
        ({**SLURM, **OPENMPI_5}, "openmpi", "mpi-prterun-node0-61@1", 1, 3, (), ()),
        (KUBEFLOW, "kubernetes", None, 3, 4, (), ("bert-master-0",)),
        (ASCEND_OPERATOR, "kubernetes", None, 1, 2, (), ("10.0.3.4",)),
    ],
)
def test_variables_tell_the_place_in_the_job(
    environ: Dict[str, str],
    platform: str,
    job_id: Optional[str],
    node_rank: Optional[int],
    node_count: int,
    hosts: Tuple[str, ...],
    meeting_hosts: Tuple[str, ...],
) -> None:
    found = find_context(environ)
    assert (found.platform, found.job_id, found.node_rank, found.node_count) == (
        platform,
        job_id,
        node_rank,
        node_count,
    )
    assert (found.hosts, found.meeting_hosts) == (hosts, meeting_hosts)


@pytest.mark.parametrize(
    ("environ", "shown"),
    [
        ({**MODELARTS, "MA_NUM_HOSTS": "3"}, ("MA_NUM_HOSTS is 3", "VC_WORKER_NUM is 2", "--nodes")),
        ({**MODELARTS, "DLS_TASK_INDEX": "0"}, ("DLS_TASK_INDEX is 0", "VC_TASK_INDEX is 1", "--node-rank")),
        ({**VOLCANO, "VC_TASK_INDEX": "2"}, ("node 2 (VC_TASK_INDEX is 2)", "VC_WORKER_NUM is 2")),
        ({**VOLCANO, "VC_TASK_INDEX": "one"}, ("VC_TASK_INDEX is 'one'",)),
        ({**SLURM, "SLURM_STEP_TASKS_PER_NODE": "1,1,8"}, ("8 launchers", "--ntasks-per-node=1")),
        ({**OPENMPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "8"}, ("8 launchers", "ppr:1:node")),
        ({**SLURM, "VC_TASK_INDEX": "0", "VC_WORKER_NUM": "3"}, ("SLURM_NODEID is 2", "VC_TASK_INDEX is 0")),
    ],
)
def test_a_contradiction_is_an_error_that_shows_both_sources(environ: Dict[str, str], shown: Tuple[str, ...]) -> None:
    with pytest.raises(PlatformError) as error:
        find_context(environ)
    assert all(text in str(error.value) for text in shown), str(error.value)


def test_options_win_over_any_variable() -> None:
    found = find_context({**MODELARTS, "MA_NUM_HOSTS": "3"}, Explicit(nodes=4, node_rank=3))
    assert (found.node_rank, found.node_count) == (3, 4)
    assert found.reasons == ("--nodes is 4", "--node-rank is 3")
    found = find_context({}, Explicit(node_rank=1, hosts=("a", "b", "c")))
    assert (found.node_rank, found.node_count, found.hosts, found.meeting_hosts) == (1, 3, ("a", "b", "c"), ("a",))


@pytest.mark.parametrize(
    "explicit", [Explicit(nodes=2, node_rank=2), Explicit(nodes=0), Explicit(nodes=3, hosts=("a", "b"))]
)
def test_options_that_make_no_sense_are_refused(explicit: Explicit) -> None:
    with pytest.raises(UsageError):
        find_context({}, explicit)


def test_a_batch_script_without_srun_is_told_that_it_works_alone() -> None:
    (note,) = find_context(BATCH).notes
    assert "3 nodes" in note and "srun" in note


def test_a_requeued_slurm_job_is_another_run() -> None:
    assert find_context({**SLURM, "SLURM_RESTART_COUNT": "2"}).job_id == "slurm-812.0-2"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node1", "node1"),
        ("a,b", "a b"),
        ("n[1-3]", "n1 n2 n3"),
        ("n[08-10,12],m", "n08 n09 n10 n12 m"),
        ("r[1-2]n[0-1]", "r1n0 r1n1 r2n0 r2n1"),
        ("n[1-2].hpc", "n1.hpc n2.hpc"),
    ],
)
def test_node_lists_expand(text: str, hosts: str) -> None:
    assert slurm.expand(text) == tuple(hosts.split())
