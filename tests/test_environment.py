from __future__ import annotations

import json
import os

import pytest

from davincirun import modelarts
from davincirun.environment import (
    OVERWRITTEN,
    REMOVED,
    UNLESS_FILLED,
    UNLESS_SET,
    Identity,
    Job,
    device_id,
    directories,
    driver_version,
    worker_changes,
)
from davincirun.environment_modes import mindspore_version

WHO = Identity(
    rank=5,
    local_rank=1,
    world_size=8,
    local_world_size=4,
    logical_device_id=1,
    physical_device_id=6,
    node_rank=1,
    node_count=2,
    server_id="10.9.0.3",
)
JOB = Job(
    job_id="node-7",
    log_dir="/mnt/log",
    rank_table_path="/home/ma-user/rank_table/jobstart_hccl.json",
    master_addr="10.9.0.2",
    master_port=23456,
    omp_num_threads=None,
    driver_version=None,
    run_id="run-1",
)

with open(os.path.join(os.path.dirname(__file__), "data", "modelarts", "scenarios.json"), encoding="utf-8") as file:
    SCENARIOS = json.load(file)


def seen(base, job=JOB, who=WHO):
    """The environment that the worker sees."""
    changed = {**base, **worker_changes(who, job, base)}
    return {name: value for name, value in changed.items() if value is not None}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario["name"])
def test_a_worker_sees_what_the_platform_launcher_would_show_it(scenario) -> None:
    job = JOB._replace(job_id=modelarts.job_id(scenario["base"], "node-7"))
    environ = seen(scenario["base"], job)
    assert {name: environ.get(name) for name in scenario["want"]} == scenario["want"]
    assert [name for name in scenario.get("absent", ()) if name in environ] == []


def test_a_worker_learns_who_it_is() -> None:
    assert seen({}) == {
        "RANK_ID": "5",
        "RANK_SIZE": "8",
        "DEVICE_ID": "1",
        "ASCEND_DEVICE_ID": "1",
        "RANK_TABLE_FILE": "/home/ma-user/rank_table/jobstart_hccl.json",
        "JOB_ID": "node-7",
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "NODE_RANK": "1",
        "DEVICE_NUM": "4",
        "SERVER_ID": "10.9.0.3",
        "MASTER_ADDR": "10.9.0.2",
        "MASTER_PORT": "23456",
        "MS_WORKER_NUM": "8",
        "MS_LOCAL_WORKER": "4",
        "MS_NODE_RANK": "1",
        "DAVINCIRUN_RUN_ID": "run-1",
        "HCCL_CONNECT_TIMEOUT": "1800",
        "ASCEND_PROCESS_LOG_PATH": "/mnt/log/node-7/ascend/process_log/rank_5",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.mark.parametrize("name", [row.name for row in OVERWRITTEN])
def test_an_inherited_identity_is_overwritten(name) -> None:
    inherited = {"LOCAL_RANK": "{0,1,2,3}", "RANK_TABLE_FILE": "/user/config"}.get(name, "someone else's")
    assert seen({name: inherited})[name] == seen({})[name]


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_what_frameworks_would_believe_before_us_is_removed(name) -> None:
    changes = worker_changes(WHO, JOB, {name: "0"})
    assert name in changes
    assert changes[name] is None


@pytest.mark.parametrize("name", [row.name for row in UNLESS_SET + UNLESS_FILLED])
def test_a_default_gives_way_to_the_users_value(name) -> None:
    job = JOB._replace(omp_num_threads=6)
    assert name in worker_changes(WHO, job, {})
    assert name not in worker_changes(WHO, job, {name: "17"})


def test_an_empty_value_of_the_users_stands_where_it_means_something() -> None:
    assert seen({"PYTHONUNBUFFERED": ""})["PYTHONUNBUFFERED"] == ""
    assert seen({"MASTER_ADDR": "", "MASTER_PORT": ""})["MASTER_ADDR"] == "10.9.0.2"


def test_the_thread_count_is_left_unset_when_nobody_knows_it() -> None:
    assert "OMP_NUM_THREADS" not in worker_changes(WHO, JOB, {})
    assert worker_changes(WHO, JOB._replace(omp_num_threads=24), {})["OMP_NUM_THREADS"] == "24"


def test_variables_that_need_no_change_are_not_listed() -> None:
    base = seen({"PATH": "/usr/bin", "MS_ROLE": "MS_WORKER"})
    assert worker_changes(WHO, JOB, base) == {}


def test_the_launchers_own_environment_stays_as_it_is() -> None:
    base = {"RANK": "7", "MS_ROLE": "MS_SCHED"}
    worker_changes(WHO, JOB, base)
    assert base == {"RANK": "7", "MS_ROLE": "MS_SCHED"}


@pytest.mark.parametrize(
    ("users", "want"),
    [("", None), ("  ", None), ("4,5", "4,5"), ("0, 1", "0,1"), ("11,3,3", "3,11"), ("0-3", "0-3")],
)
def test_visible_devices_are_passed_on_in_the_runtimes_form_and_never_empty(users, want) -> None:
    assert seen({"ASCEND_RT_VISIBLE_DEVICES": users}).get("ASCEND_RT_VISIBLE_DEVICES") == want


@pytest.mark.parametrize(
    ("version", "device", "ascend_device"), [("20.1.0", "6", None), ("20.1.0.1", "1", "1"), (None, "1", "1")]
)
def test_one_driver_version_counts_devices_physically(version, device, ascend_device) -> None:
    job = JOB._replace(driver_version=version)
    environ = seen({"ASCEND_DEVICE_ID": "3"}, job)
    assert (environ["DEVICE_ID"], environ.get("ASCEND_DEVICE_ID")) == (device, ascend_device)
    assert str(device_id(WHO, job)) == device


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("Version=20.1.0\nVersion=21.0.2\n", "20.1.0"),
        ("Version=23.0.rc3\n", "23.0.rc3"),
        ("package=driver\nVersion=20.1.0\n", None),
        ("", None),
    ],
)
def test_the_drivers_version_is_that_of_the_first_line(text, want) -> None:
    assert driver_version(text) == want


def test_mindspores_older_name_of_the_table_follows_ours() -> None:
    environ = seen({"MINDSPORE_HCCL_CONFIG_PATH": "/old/hccl.json"})
    assert environ["MINDSPORE_HCCL_CONFIG_PATH"] == environ["RANK_TABLE_FILE"] == JOB.rank_table_path


def test_without_a_table_none_is_named() -> None:
    job = JOB._replace(rank_table_path="")
    environ = seen({"RANK_TABLE_FILE": "/user/config", "MINDSPORE_HCCL_CONFIG_PATH": "/old/hccl.json"}, job)
    assert "RANK_TABLE_FILE" not in environ
    assert "MINDSPORE_HCCL_CONFIG_PATH" not in environ


@pytest.mark.parametrize(
    ("base", "want"),
    [
        ({}, ["ascend/process_log/rank_5"]),
        (
            {"MA_DIAG_MODE_ENV": "faults", "MA_ENGINE_VERSION": "mindspore_2.0-cann_7.0"},
            ["ascend/process_log/rank_5", "ascend/npu_collect/rank_5/extra-info/graph", "mindspore/log"],
        ),
        ({"MA_DIAG_MODE_ENV": "accuracy"}, ["ascend/process_log/rank_5", "mindspore/diagnostic_data"]),
        ({"MA_RUN_MODE_ENV": "normal"}, ["ascend/process_log/rank_5", "mindspore/log"]),
    ],
    ids=["plain", "faults", "accuracy", "normal"],
)
def test_promised_directories_are_listed_once(base, want) -> None:
    assert directories(worker_changes(WHO, JOB, base)) == tuple(f"/mnt/log/node-7/{path}" for path in want)


def test_the_users_directories_are_listed_with_the_whole_environment() -> None:
    base = {"ASCEND_PROCESS_LOG_PATH": "/data/plog"}
    assert directories(worker_changes(WHO, JOB, base)) == ()
    assert directories(seen(base)) == ("/data/plog",)


@pytest.mark.parametrize(
    ("engine", "want"),
    [
        ("mindspore_1.7-cann_5.1-py_3.7-euler_2.8.3", (1, 7)),
        ("mindspore_2.2.10rc1-cann_7.0", (2, 2, 10)),
        ("mindspore_2", (2,)),
        ("mindspore_edge", ()),
        ("mindspore", ()),
        ("tensorflow_1.15-mindspore_1.7", ()),
        ("", ()),
    ],
)
def test_the_engines_version_is_numbers(engine, want) -> None:
    assert mindspore_version(engine) == want
