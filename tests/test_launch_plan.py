"""--dry-run: what it prints, what it hides, and that it leaves no trace."""

from __future__ import annotations

import json
import os

import pytest
from helpers.launcher import JOB, Launcher
from helpers.tables import group_list

KEYS = ["job_id", "world_size", "node_rank", "node_count", "rank_table_path", "server_id", "workers"]
WORKER_KEYS = [
    "rank",
    "local_rank",
    "device_id",
    "physical_device_id",
    "device_ip",
    "argv",
    "cwd",
    "log_path",
    "env",
]


def plan_of(launch: Launcher, *command: str, **how) -> dict:
    ended = launch.run(*command, **{**how, "options": ["--dry-run", "--json", *how.get("options", [])]})
    assert ended.status == 0, ended
    return json.loads(ended.stdout)


def everything_below(folder: str) -> list:
    return sorted(os.path.join(where, name) for where, folders, files in os.walk(folder) for name in folders + files)


def test_the_plan_has_exactly_these_keys(launch: Launcher, tmp_path) -> None:
    plan = plan_of(launch, "python", "train.py", "--a b", workers=8)
    assert list(plan) == KEYS
    assert all(list(worker) == WORKER_KEYS for worker in plan["workers"])
    assert (plan["job_id"], plan["world_size"], plan["node_rank"], plan["node_count"]) == (JOB, 8, 0, 1)
    third = plan["workers"][3]
    assert third["argv"] == ["python", "train.py", "--a b"]
    assert (third["rank"], third["local_rank"], third["device_id"], third["physical_device_id"]) == (3, 3, 3, 3)
    assert third["log_path"] == os.path.join(launch.log_dir, f"{JOB}-proc-rank-3-device-3.txt")
    assert third["cwd"] == str(tmp_path)


def test_a_workers_env_is_only_what_we_add_or_change(launch: Launcher) -> None:
    env = plan_of(launch, "true", env={"OMP_NUM_THREADS": "7", "MS_ROLE": "MS_WORKER"})["workers"][1]["env"]
    assert env["RANK_ID"] == "1" and env["MS_ROLE"] is None
    assert "PATH" not in env and "OMP_NUM_THREADS" not in env


def test_nothing_is_created(launch: Launcher, tmp_path) -> None:
    (tmp_path / "jobstart_hccl.json").write_text(group_list({"job-0": [0, 1]}))
    before = everything_below(str(tmp_path))
    env = {
        "RANK_TABLE_FILE": str(tmp_path),
        "MA_HOME": str(tmp_path / "home"),
        "FMK_WORKSPACE": str(tmp_path / "workspace"),
        "MA_DIAG_MODE_ENV": "faults",
    }
    plan = plan_of(launch, "touch", str(tmp_path / "started"), workers=None, env=env)
    assert plan["rank_table_path"] == str(tmp_path / "home" / "rank_table" / "jobstart_hccl.json")
    assert plan["workers"][1]["cwd"] == str(tmp_path / "workspace" / "device1")
    assert everything_below(str(tmp_path)) == before


def test_people_get_a_table_and_the_variables(launch: Launcher) -> None:
    ended = launch.run("python", "train.py", "--name", "two words", workers=2, options=["--dry-run"])
    assert ended.status == 0, ended
    assert "command: python train.py --name 'two words'\n" in ended.stdout
    for word in ("rank", "device", "physical", "address", "cores", "log", "variables of all workers:", "RANK_SIZE=2"):
        assert word in ended.stdout
    assert "variables per rank:" in ended.stdout


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_command_that_is_no_text_is_shown_as_the_bytes_it_is(launch: Launcher, encoding: str) -> None:
    name = os.fsdecode("中".encode() + b"\xff")
    ended = launch.run(name, options=["--dry-run"], env={"PYTHONIOENCODING": encoding})
    assert ended.status == 0, ended
    assert "中".encode() + b"\xff" in ended.output


def test_a_reader_that_has_seen_enough_is_no_error(launch: Launcher) -> None:
    with launch("true", workers=128, options=["--dry-run", "--json"]) as running:
        running.close_stdout()
        assert running.wait() == 0
        assert "Traceback" not in running.stderr


def test_a_full_disk_below_stdout_is_explained(launch: Launcher) -> None:
    with open("/dev/full", "wb") as full:
        running = launch("true", options=["--dry-run"], stdout=full.fileno())
    with running:
        assert running.wait() == 1
        assert "davincirun: stdout can't be written: No space left on device" in running.stderr
        assert "Traceback" not in running.stderr


def test_secrets_are_not_shown(launch: Launcher) -> None:
    env = {"MA_INPUTS": "{}", "HF_TOKEN": "hf_verysecret", "S3_SECRET_ACCESS_KEY": "verysecret"}
    for options in (["--dry-run"], ["--dry-run", "--json"], ["--dry-run", "-v"]):
        ended = launch.run("true", env=env, options=options)
        assert ended.status == 0
        assert "verysecret" not in ended.stdout + ended.stderr


def test_the_plan_is_what_is_carried_out(launch: Launcher, tmp_path) -> None:
    planned = plan_of(launch, "describes_itself.py", str(tmp_path), workers=4)["workers"]
    assert launch.run("describes_itself.py", str(tmp_path), workers=4).status == 0
    differs_each_time = ("DAVINCIRUN_RUN_ID", "RANK_TABLE_FILE", "MASTER_PORT")
    for rank, plan in enumerate(planned):
        worker = json.loads((tmp_path / f"{rank}.json").read_text())
        assert worker["cwd"] == plan["cwd"]
        for name, value in plan["env"].items():
            if name not in differs_each_time:
                assert worker["env"].get(name) == value
        assert os.path.exists(plan["log_path"])
