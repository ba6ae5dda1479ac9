"""The planning process is real; the library that it imports is the one in data/modelarts/fakes."""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
from functools import partial

import pytest

from davincirun.errors import PlatformError
from davincirun.modelarts import RoutePlan
from davincirun.modelarts_hooks import await_topology, plan_route, run_command

FAKES = os.path.join(os.path.dirname(__file__), "data", "modelarts", "fakes")


@pytest.fixture
def environ():
    return {"PATH": os.environ["PATH"]}


def _write_topology(path, status="completed"):
    topology = json.dumps({"status": status, "tor_count": "2"})
    path.write_bytes(base64.b64encode(gzip.compress(topology.encode())))
    return topology


def test_a_topology_is_awaited_until_it_is_complete(tmp_path) -> None:
    path = tmp_path / "tor.json"
    states = iter([lambda: path.write_bytes(b"H4s"), lambda: _write_topology(path, "initializing")])
    waits = []

    def wait(seconds):
        waits.append(seconds)
        next(states, lambda: _write_topology(path))()

    assert json.loads(await_topology(RoutePlan(str(path), 300), wait))["tor_count"] == "2"
    assert len(waits) == 3


def test_waiting_for_a_topology_ends(tmp_path) -> None:
    now = [100.0]

    def wait(seconds):
        now[0] += seconds

    with pytest.raises(PlatformError, match=r"tor.json: not complete after 2.5 s \(ROUTE_TOPO_WAIT_TIME\)"):
        await_topology(RoutePlan(str(tmp_path / "tor.json"), 2.5), wait, lambda: now[0])
    assert now[0] == 102.5


@pytest.fixture
def plan(tmp_path, environ):
    """Calls plan_route with a fake library that behaves as told."""
    library = tmp_path / "root" / "usr/local"
    library.mkdir(parents=True)
    shutil.copytree(os.path.join(FAKES, "route"), str(library / "route"))
    (tmp_path / "jobstart_hccl.json").write_text('{"version": "1.0"}')

    def plan(behaviour, seconds=60.0):
        environ["FAKE_ROUTE"] = behaviour
        table = str(tmp_path / "jobstart_hccl.json")
        run = partial(run_command, seconds=seconds)
        return plan_route('{"tor": 1}', table, "10.3.0.7", environ, str(tmp_path / "root"), run)

    return plan


def test_a_planned_route_reorders_this_nodes_devices(tmp_path, plan) -> None:
    route = plan("plans")
    assert [(device.rank, device.device_id, device.device_ip) for device in route.server.devices] == [
        (3, 1, "192.168.7.12"),
        (2, 0, "192.168.7.11"),
    ]
    assert route.server.server_id == "10.3.0.7"
    assert route.environment == {"RANK_AFTER_ACC": "3"}
    assert route.table_path == str(tmp_path / "jobstart_routeplan.json")
    with open(route.table_path) as file:
        assert json.load(file) == {"topology": {"tor": 1}, "table": {"version": "1.0"}}


@pytest.mark.parametrize(
    ("behaviour", "problem"),
    [
        ("declines", "declined"),
        ("raises", "LookupError: no such plane"),
        ("crashes", "ended with status 139 and no answer"),
        ("saves nothing", "jobstart_routeplan.json: route planning has not written it"),
    ],
)
def test_a_route_that_cannot_be_planned_says_why(plan, behaviour, problem) -> None:
    with pytest.raises(PlatformError, match=problem):
        plan(behaviour)


def test_a_planning_that_hangs_is_killed(plan) -> None:
    with pytest.raises(PlatformError, match="still running after 1 s"):
        plan("hangs", seconds=1)


def test_a_machine_without_the_planning_library_says_so(tmp_path, plan) -> None:
    shutil.rmtree(str(tmp_path / "root"))
    with pytest.raises(PlatformError, match="No module named 'route_plan'"):
        plan("plans")


@pytest.mark.parametrize(("debug", "shown"), [("true", True), ("false", False)])
def test_the_traceback_of_a_failed_planning_is_shown_on_request(environ, plan, capfd, debug, shown) -> None:
    environ["DEBUG_ROUTE_PLAN"] = debug
    with pytest.raises(PlatformError):
        plan("raises")
    assert ("Traceback" in capfd.readouterr().err) == shown
