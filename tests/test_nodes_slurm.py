"""davincirun under a real srun: three nodes, with names that are Slurm's alone, on this machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from typing import Iterator, List

import pytest
from helpers.launcher import ROOT, WORKERS
from helpers.nodes import wait_until
from helpers.slurm import Slurm, missing

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing()), reason=f"not here: {', '.join(missing())}"),
]
STEP = ("srun", "-N3", "--ntasks-per-node=1")
LAUNCHER = (sys.executable, "-m", "davincirun")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    folder = tempfile.mkdtemp(prefix="slurm.")  # a socket's path has to be short
    try:
        with Slurm(folder, 3) as cluster:
            yield cluster
    finally:
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, slurm: Slurm, marker: str, tmp_path) -> None:
    name, _, value = marker.partition("=")
    slurm.environ.update({"PYTHONPATH": ROOT, "DAVINCIRUN_LOG_DIR": str(tmp_path / "log"), name: value})


def worker(name: str, *arguments: str) -> List[str]:
    return [sys.executable, "-S", os.path.join(WORKERS, name), *arguments]


def test_one_launcher_per_node_makes_twelve_ranks_with_one_table(slurm: Slurm) -> None:
    shows = "echo rank $RANK_ID of $RANK_SIZE on node $NODE_RANK: $(md5sum <$RANK_TABLE_FILE)"
    done = slurm.call(*STEP, *LAUNCHER, "--simulate", "4", "sh", "-c", shows)
    assert done.returncode == 0, done.stdout
    said = sorted(re.findall(r"^rank (\d+) of 12 on node (\d): (\w+)", done.stdout, re.M), key=lambda one: int(one[0]))
    assert [(int(rank), int(node)) for rank, node, _ in said] == [(rank, rank // 4) for rank in range(12)], done.stdout
    assert len({table for _, _, table in said}) == 1
    assert "SLURM_STEP_NUM_NODES is 3" in done.stdout


def test_one_rank_s_failure_ends_the_step_with_its_status(slurm: Slurm) -> None:
    fails = "[ $RANK_ID != 6 ] || { sleep 1; date +%s.%N >&2; exit 7; }; sleep 100"
    done = slurm.call(*STEP, *LAUNCHER, "--simulate", "4", "sh", "-c", fails)
    ended = time.time()
    assert done.returncode == 7, done.stdout
    failed = float(re.findall(r"^(\d+\.\d+)$", done.stdout, re.M)[0])
    assert ended - failed < 6  # 2 s on a machine that has nothing else to do
    assert len(re.findall(r"node 1 \(fake1\): rank 6 ended with exit status 7", done.stdout)) >= 3, done.stdout


def test_scancel_leaves_nothing_and_is_status_143(slurm: Slurm) -> None:
    step = slurm.start(*STEP, "--job-name=cancelled", *LAUNCHER, "--simulate", "4", *worker("waits.py"))
    try:
        assert step.stdout is not None
        said = ""
        while said.count("ready") < 12:
            said += step.stdout.readline()
        assert slurm.call("scancel", "--name=cancelled").returncode == 0
        rest, _ = step.communicate(timeout=30)
    finally:
        step.kill()
        step.communicate()
    assert step.returncode == 143, said + rest
    assert wait_until(lambda: not slurm.call("squeue", "-h").stdout, 30)


def test_a_launcher_per_card_is_an_error_that_says_how_it_goes(slurm: Slurm) -> None:
    done = slurm.call("srun", "-N1", "--ntasks-per-node=4", *LAUNCHER, "--simulate", "4", "true")
    assert done.returncode == 1
    assert "srun started 4 launchers on this node" in done.stdout and "--ntasks-per-node=1" in done.stdout


def test_a_launcher_that_is_killed_ends_the_step(slurm: Slurm, tmp_path) -> None:
    options = ["--simulate", "2", "--node-timeout", "3"]
    kills = f"[ $RANK_ID != 2 ] || {{ sleep 1; kill -KILL $PPID; }}; exec {' '.join(worker('waits.py'))}"
    done = slurm.call(*STEP, *LAUNCHER, *options, "sh", "-c", kills)
    assert done.returncode == 137, done.stdout
    assert re.search(r"node 1 \(fake1\): vanished", done.stdout), done.stdout


def test_the_sbatch_example_works(slurm: Slurm, tmp_path) -> None:
    script = os.path.join(ROOT, "docs", "slurm", "train.sbatch")
    tools = tmp_path / "bin"
    tools.mkdir()
    launcher = tools / "davincirun"
    launcher.write_text(f'#!/bin/sh\nexec {" ".join(LAUNCHER)} "$@"\n')
    launcher.chmod(0o755)
    env = {"PATH": f"{tools}:{slurm.environ['PATH']}", "DAVINCIRUN_SIMULATE": "4"}
    command = ["sbatch", "--wait", script, "sh", "-c", "echo rank $RANK_ID of $RANK_SIZE"]
    done = slurm.call(*command, env=env, cwd=str(tmp_path))
    outputs = "".join(path.read_text() for path in tmp_path.glob("train-*.out"))
    assert done.returncode == 0, done.stdout + outputs
    assert sorted(map(int, re.findall(r"^rank (\d+) of 12$", outputs, re.M))) == list(range(12)), outputs
    assert (tmp_path / "logs").is_dir()


def test_a_batch_script_without_srun_works_alone_and_says_so(slurm: Slurm, tmp_path) -> None:
    script = tmp_path / "job"
    script.write_text(f"#!/bin/sh\nexec {' '.join(LAUNCHER)} --simulate 2 sh -c 'echo rank $RANK_ID of $RANK_SIZE'\n")
    done = slurm.call("sbatch", "--wait", "-N3", "-o", str(tmp_path / "out"), str(script), cwd=str(tmp_path))
    said = (tmp_path / "out").read_text()
    assert done.returncode == 0, done.stdout + said
    assert "rank 1 of 2" in said and "srun didn't start davincirun" in said
