"""The manifests and the batch script in docs/: they parse, and say what their platform and davincirun expect."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Dict, List

import pytest
from helpers.launcher import ROOT

from davincirun import command_line, ranktable
from davincirun.platforms import find_context

yaml = pytest.importorskip("yaml")
FOLDER = os.path.join(ROOT, "docs", "kubernetes")
MANIFESTS = sorted(name for name in os.listdir(FOLDER) if name.endswith(".yaml"))
CRD = os.environ.get("DAVINCIRUN_TEST_VOLCANO_CRD", "")  # config/crd/volcano/bases/ in Volcano's repository
JOB_KEYS = {"schedulerName", "minAvailable", "plugins", "policies", "maxRetry", "tasks"}  # of the CRD's spec
TASK_KEYS = {"name", "replicas", "template", "minAvailable", "policies", "maxRetry"}
EVENTS = {"PodFailed", "PodEvicted", "TaskCompleted", "Unknown", "*", "OutOfSync", "CommandIssued", "JobUnknown"}
ACTIONS = {"AbortJob", "RestartJob", "RestartTask", "TerminateJob", "CompleteJob", "ResumeJob", "SyncJob"}


def documents(name: str) -> List[Dict[str, Any]]:
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def job(name: str) -> Dict[str, Any]:
    (found,) = [one for one in documents(name) if one["kind"] == "Job"]
    return found


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_a_volcano_job(name: str) -> None:
    found = job(name)
    assert found["apiVersion"] == "batch.volcano.sh/v1alpha1"
    spec = found["spec"]
    assert set(spec) <= JOB_KEYS
    assert spec["minAvailable"] == sum(task["replicas"] for task in spec["tasks"])
    for policy in spec["policies"]:
        assert policy["event"] in EVENTS and policy["action"] in ACTIONS
    for task in spec["tasks"]:
        assert set(task) <= TASK_KEYS
        pod = task["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.skipif(not CRD, reason="DAVINCIRUN_TEST_VOLCANO_CRD doesn't name Volcano's batch.volcano.sh_jobs.yaml")
@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_what_volcano_s_published_schema_wants(name: str) -> None:
    """Strictly: the API server would drop keys it doesn't know without a word."""
    jsonschema = pytest.importorskip("jsonschema")
    with open(CRD, encoding="utf-8") as file:
        versions = yaml.safe_load(file)["spec"]["versions"]
    (schema,) = [one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == "v1alpha1"]
    schema["properties"]["metadata"] = {"type": "object"}
    forbid_unknown_keys(schema)
    jsonschema.validate(job(name), schema)


def forbid_unknown_keys(schema: Any) -> None:
    """Make plain JSON Schema of Kubernetes' dialect, in place."""
    if not isinstance(schema, dict):
        return
    if schema.get("x-kubernetes-int-or-string"):
        schema.pop("type", None)
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if "properties" in schema and not is_open:
        schema["additionalProperties"] = False
    for key, inner in schema.items():
        for one in inner if isinstance(inner, list) else [inner]:
            if key not in ("default", "enum"):
                forbid_unknown_keys(one)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_s_command_is_one_that_davincirun_takes(name: str) -> None:
    for task in job(name)["spec"]["tasks"]:
        pod = task["template"]["spec"]
        for container in pod["containers"]:
            environ = {one["name"]: one.get("value", "") for one in container["env"]}
            argv = [*container["command"], *container["args"]]
            assert argv[:2] == ["python", "/opt/davincirun.py"]
            options = command_line.parse(argv[2:], environ)
            assert options.command[0] == "python"
            assert pod["terminationGracePeriodSeconds"] >= options.grace_seconds + 10


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_plugins_tell_each_pod_who_it_is(name: str) -> None:
    found = job(name)
    assert {"env", "svc"} <= set(found["spec"]["plugins"])
    (task,) = found["spec"]["tasks"]
    label = f"{found['metadata']['name']}-{task['name']}"
    hosts = ",".join(f"{label}-{index}.{found['metadata']['name']}" for index in range(task["replicas"]))
    variables = {"VC_TASK_INDEX": "1", f"VC_{task['name'].upper()}_HOSTS": hosts}
    context = find_context(variables)
    assert (context.node_rank, context.node_count) == (1, task["replicas"])


def test_the_table_in_the_config_map_is_one() -> None:
    (config_map,) = [one for one in documents("configmap-table.yaml") if one["kind"] == "ConfigMap"]
    table = ranktable.parse(config_map["data"]["jobstart_hccl.json"].encode(), "the ConfigMap")
    assert isinstance(table, ranktable.RankTable)
    assert ranktable.to_cluster(table, "the ConfigMap").world_size == 2
    assert json.loads(config_map["data"]["jobstart_hccl.json"])["status"] == "completed"


def test_the_batch_script_is_a_script() -> None:
    path = os.path.join(ROOT, "docs", "slurm", "train.sbatch")
    assert subprocess.call(["bash", "-n", path]) == 0
    with open(path, encoding="utf-8") as file:
        options = [line for line in file.read().splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --ntasks-per-node=1" in options
