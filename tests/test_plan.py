"""The plan of a launch as one value, and as people and programs read it."""

from __future__ import annotations

import json
import os

import pytest
from helpers.plans import ENVIRON, JOB, SECOND_NODE, SETTINGS, plan

from davincirun import plan_view
from davincirun.plan import environment

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "plans")

PLANS = {
    "one_node": plan(),
    "second_node": plan(SETTINGS._replace(workspace="/ws"), SECOND_NODE, 4, {}),
    "chosen_cards": plan(SETTINGS._replace(visible_devices="4,5")),
    "users_choice_of_cards": plan(environ={"ASCEND_RT_VISIBLE_DEVICES": "1, 0"}),
}


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("form", ["json", "txt"])
def test_a_plan_is_shown_as_it_always_was(name: str, form: str) -> None:
    shown = plan_view.as_json(PLANS[name]) + "\n" if form == "json" else plan_view.as_text(PLANS[name])
    with open(os.path.join(GOLDEN, f"{name}.{form}"), encoding="utf-8") as golden:
        assert shown == golden.read()


def test_the_json_form_is_one_object_whose_env_holds_only_changes() -> None:
    first = json.loads(plan_view.as_json(plan()))["workers"][0]
    assert first["env"]["RANK"] == "0" and first["env"]["MS_ROLE"] is None
    assert not {"PATH", "PYTHONUNBUFFERED"} & set(first["env"])


def test_a_worker_gets_the_launchers_environment_and_the_changes() -> None:
    env = environment(plan().workers[1], ENVIRON)
    assert (env["PATH"], env["PYTHONUNBUFFERED"], env["RANK"]) == ("/bin", "", "1")
    assert "MS_ROLE" not in env


def test_nothing_that_is_given_is_changed() -> None:
    environ = dict(ENVIRON)
    made = plan(environ=environ)
    environment(made.workers[0], environ)
    assert environ == ENVIRON


def test_workers_stay_in_one_directory_or_have_one_each() -> None:
    assert [worker.cwd for worker in plan().workers] == ["/work dir"] * 2
    assert [worker.cwd for worker in PLANS["second_node"].workers] == ["/ws/device0", "/ws/device1"]


def test_names_of_logs_hold_job_rank_and_device() -> None:
    names = [worker.log_path for worker in PLANS["second_node"].workers]
    assert names == ["/logs/job-proc-rank-2-device-0.txt", "/logs/job-proc-rank-3-device-1.txt"]


def test_the_one_driver_that_counts_physically_gets_physical_ids() -> None:
    settings = SETTINGS._replace(job=JOB._replace(driver_version="20.1.0"), workspace="/ws")
    worker = plan(settings).workers[0]
    assert (worker.device_id, worker.cwd) == (4, "/ws/device4")
    assert worker.log_path == "/logs/job-proc-rank-0-device-4.txt"
    assert (worker.changes["DEVICE_ID"], worker.changes.get("ASCEND_DEVICE_ID")) == ("4", None)


def test_secrets_are_redacted_in_both_forms() -> None:
    worker = plan().workers[0]
    secret = plan()._replace(workers=(worker._replace(changes={"HF_TOKEN": "verysecret", "SK": None}),))
    for shown in (plan_view.as_json(secret), plan_view.as_text(secret)):
        assert "verysecret" not in shown
        assert "(secret)" in shown
