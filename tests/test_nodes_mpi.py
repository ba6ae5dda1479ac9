"""Launchers that a real mpirun started, one per "node" (all on this machine): MPI tells them where to meet."""

from __future__ import annotations

import os
import re
import subprocess
from typing import List

import pytest
from helpers.launcher import ROOT
from lab.open_mpi import OpenMpi, installed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not installed(), reason="no mpirun here"),
]
# mpirun counts the machine's processes, which here stand for nodes.
AS_A_NODE = 'OMPI_COMM_WORLD_LOCAL_SIZE=1 exec "$0" -m davincirun --simulate 2 --no-prefix --log-dir "$LOGS" "$@"'


@pytest.fixture(params=installed(), ids=str)
def mpi(request) -> OpenMpi:
    found: OpenMpi = request.param
    if not found.has_mpi4py:
        pytest.skip("no mpi4py beside this mpirun")
    return found


def run(mpi: OpenMpi, log_dir: str, *command: str) -> "subprocess.CompletedProcess[str]":
    options = ["--oversubscribe", "--bind-to", "none", "-np", "3", "--stdin", "none", "-x", "PYTHONPATH", "-x", "LOGS"]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    env = {**os.environ, **root, "PATH": mpi.path, "PYTHONPATH": ROOT, "LOGS": log_dir}
    argv: List[str] = [os.path.join(mpi.folder, "mpirun"), *options, "sh", "-c", AS_A_NODE, mpi.python, *command]
    return subprocess.run(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        timeout=90,
    )


def test_launchers_under_mpirun_agree_through_mpi(mpi: OpenMpi, tmp_path) -> None:
    done = run(mpi, str(tmp_path), "sh", "-c", "echo rank $RANK_ID of $RANK_SIZE on node $NODE_RANK; sleep 0.5")
    assert done.returncode == 0, done.stdout
    said = sorted(re.findall(r"rank (\d) of 6 on node (\d)", done.stdout))
    assert said == [(str(rank), str(rank // 2)) for rank in range(6)], done.stdout


def test_a_failure_under_mpirun_ends_all_with_its_status(mpi: OpenMpi, tmp_path) -> None:
    done = run(mpi, str(tmp_path), "sh", "-c", "[ $RANK_ID != 3 ] || { sleep 1; exit 6; }; sleep 100")
    assert done.returncode == 6, done.stdout
    assert len(re.findall(r"node 1 \(\S+\): rank 3 ended with exit status 6", done.stdout)) >= 3, done.stdout
