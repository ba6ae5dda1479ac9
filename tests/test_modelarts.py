from __future__ import annotations

import base64
import gzip
import json

import pytest

from davincirun import modelarts
from davincirun.cluster import Device, Server
from davincirun.errors import PlatformError
from davincirun.modelarts import LogUpload, Operator, RoutePlan


def there(*paths):
    """A machine on which only these paths exist."""
    return lambda path: path in paths


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, False),
        ({"HOME": "/home/ma-user", "MA_HOME": "/home/ma-user"}, False),
        ({"MA_JOB_DIR": ""}, False),
        ({"MA_JOB_DIR": "/home/ma-user/modelarts/user-job-dir"}, True),
        ({"BATCH_JOB_ID": "jobc41"}, True),
        ({"MA_VJ_NAME": "ma-job-1"}, True),
    ],
)
def test_a_job_of_the_platform_is_known_by_its_variables(environ, want) -> None:
    assert modelarts.is_modelarts(environ) is want


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, "worker-3"),
        ({"BATCH_JOB_ID": "", "MA_VJ_NAME": ""}, "worker-3"),
        ({"BATCH_JOB_ID": "jobc41", "MA_VJ_NAME": "ma-job-1"}, "jobc41"),
        ({"MA_VJ_NAME": "ma-job-1-ma-job"}, "modelarts-job-1-ma-job"),
        ({"MA_VJ_NAME": "my-ma-job"}, "my-ma-job"),
    ],
)
def test_the_job_is_named_by_the_platform_else_by_the_host(environ, want) -> None:
    assert modelarts.job_id(environ, "worker-3") == want


@pytest.mark.parametrize(
    ("environ", "exists", "want"),
    [
        ({}, there(), "/tmp/log"),
        ({"BATCH_TASK_LOG_PATH": "/b"}, there("/b"), "/b"),
        ({"BATCH_TASK_LOG_PATH": "/b"}, there(), "/tmp/log"),
        ({"BATCH_TASK_LOG_PATH": "/b", "MA_MOUNT_PATH": "/m"}, there("/m/log"), "/m/log"),
        ({"MA_MOUNT_PATH": "/m"}, there(), "/tmp/log"),
    ],
)
def test_logs_go_to_the_first_directory_that_exists(environ, exists, want) -> None:
    assert modelarts.log_dir(environ, exists) == want


@pytest.mark.parametrize(
    ("environ", "exists", "want"),
    [
        ({"MA_MOUNT_PATH": "/m", "FMK_WORKSPACE": "/w"}, there(), "/m/workspace"),
        ({"FMK_WORKSPACE": "/w"}, there("/home/ma-user"), "/w"),
        ({}, there("/home/ma-user"), "/home/ma-user/workspace"),
        ({}, there(), None),
    ],
)
def test_workers_leave_the_current_directory_only_on_the_platform(environ, exists, want) -> None:
    assert modelarts.workspace(environ, exists) == want


@pytest.mark.parametrize(
    ("environ", "exists", "want"),
    [
        ({"MA_HOME": "/h", "MA_MOUNT_PATH": "/m"}, there(), "/h"),
        ({"MA_HOME": "", "MA_MOUNT_PATH": "/m"}, there(), "/m"),
        ({}, there("/home/ma-user"), "/home/ma-user"),
        ({}, there(), None),
    ],
)
def test_the_rank_table_has_its_place_on_the_platform(environ, exists, want) -> None:
    assert modelarts.base_dir(environ, exists) == want


DOWNLOAD = ("python", "/home/ma-user/modelarts-downloader.py", "-s")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", None),
        ("{}", None),
        ("[]", None),
        ('{"obs": null}', None),
        ('{"obs": {"obs_url": ""}}', None),
        (
            '{"obs": {"obs_url": "s3://b/op.tar"}}',
            Operator("s3://b/op.tar", (*DOWNLOAD, "s3://b/op.tar", "-d", "/tmp/operator_info"), "/tmp/operator_info"),
        ),
        (
            '{"obs": {"obs_url": "s3://b/o p/"}}',
            Operator(
                "s3://b/o p/",
                (*DOWNLOAD, "s3://b/o p/", "-d", "/tmp/operator_info", "--skip-creating-dir", "-r"),
                "/tmp/operator_info",
            ),
        ),
    ],
)
def test_an_operator_is_fetched_when_it_names_an_archive(text, want) -> None:
    assert modelarts.operator_archive({"MA_ALGORITHM_OPERATOR": text}) == want


def test_an_operator_that_is_not_json_is_an_error() -> None:
    with pytest.raises(PlatformError, match=r"MA_ALGORITHM_OPERATOR: no JSON .*: mend or unset it"):
        modelarts.operator_archive({"MA_ALGORITHM_OPERATOR": "{obs"})


UPLOAD = {
    "DLS_UPLOAD_LOG_OBS_DIR": "s3://logs/job/",
    "DLS_USE_UPLOADER": "",
    "BATCH_TASK_LOG_PATH": "/b",
    "BATCH_TASK_CURRENT_INSTANCE": "job-train-0",
}


def test_the_log_is_uploaded_under_the_pods_name() -> None:
    upload = modelarts.log_upload(UPLOAD, there("/b/stdout.log"))
    assert upload == LogUpload("/b/stdout.log", "s3://logs/job/job-train-0.log")


@pytest.mark.parametrize("missing", sorted(UPLOAD))
def test_the_log_is_not_uploaded_unless_all_is_known(missing) -> None:
    environ = {name: value for name, value in UPLOAD.items() if name != missing}
    assert modelarts.log_upload(environ, there("/b/stdout.log")) is None


def test_a_log_that_is_not_there_is_not_uploaded() -> None:
    assert modelarts.log_upload(UPLOAD, there()) is None


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, None),
        ({"ROUTE_PLAN": "False"}, None),
        ({"ROUTE_PLAN": ""}, None),
        ({"ROUTE_PLAN": "true"}, RoutePlan("/user/config/ranktable_tor.json", 300)),
        ({"ROUTE_PLAN": "1", "TOPO_FILE_PATH": "/t", "ROUTE_TOPO_WAIT_TIME": "2.5"}, RoutePlan("/t", 2.5)),
    ],
)
def test_a_route_is_planned_on_request(environ, want) -> None:
    assert modelarts.route_plan(environ) == want


def test_a_waiting_time_must_be_a_number() -> None:
    with pytest.raises(PlatformError, match="ROUTE_TOPO_WAIT_TIME: '5m': want a number of seconds"):
        modelarts.route_plan({"ROUTE_PLAN": "true", "ROUTE_TOPO_WAIT_TIME": "5m"})


TOPOLOGY = '{"status": "completed", "tor_list": []}'


def packed(text):
    return base64.b64encode(gzip.compress(text.encode()))


def test_a_complete_topology_is_unpacked() -> None:
    assert modelarts.completed_topology(packed(TOPOLOGY) + b"\n") == TOPOLOGY


@pytest.mark.parametrize(
    "text",
    [
        b"",
        packed(TOPOLOGY)[:-4],
        packed(TOPOLOGY)[:-9],
        packed(TOPOLOGY)[:5],
        b"not base64 at all",
        "数据".encode(),
        base64.b64encode(b"not gzip"),
        TOPOLOGY.encode(),
        packed("{"),
        packed("[]"),
        packed("7"),
        packed("{}"),
        packed('{"status": "initializing"}'),
    ],
    ids=range(13),  # not the text: gzip puts the time into it
)
def test_a_topology_that_is_not_complete_is_awaited(text) -> None:
    assert modelarts.completed_topology(text) is None


def test_planned_devices_keep_their_order() -> None:
    result = json.loads('[true, [["9", "1", "192.168.4.2"], [8, 0, ""]], "10.0.7.1"]')
    assert modelarts.planned_server(result) == Server("10.0.7.1", (Device(9, 1, "192.168.4.2"), Device(8, 0, None)))


@pytest.mark.parametrize("result", [(False, None, None), (False, [], ""), [None, [("0", "0", "x")], "s"]])
def test_a_declined_plan_is_said(result) -> None:
    with pytest.raises(PlatformError, match="route planning declined"):
        modelarts.planned_server(result)


@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        "yes",
        (True, []),
        (True, [], "s"),
        (True, None, "s"),
        (True, [("0", "0")], "s"),
        (True, [("x", "0", "ip")], "s"),
        (True, [(None, "0", "ip")], "s"),
        (True, [("-1", "0", "ip")], "s"),
        (True, [("2", "0", "a"), ("2", "1", "b")], "s"),
        (True, 7, "s"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(result) -> None:
    with pytest.raises(PlatformError, match="route planning answered"):
        modelarts.planned_server(result)
