"""What ModelArts' variables and files ask of the launcher, decided without touching anything.

The rules are those of the launcher in ModelArts' images. `modelarts_hooks` acts on what is decided here.
"""

from __future__ import annotations

import json
import re
from posixpath import join
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

from davincirun.cluster import Device, Server
from davincirun.errors import PlatformError
from davincirun.values import Value

HOME = "/home/ma-user"

_MARKS = (
    "MA_JOB_DIR",
    "MA_MOUNT_PATH",
    "MA_VJ_NAME",
    "MA_CURRENT_INSTANCE_NAME",
    "BATCH_JOB_ID",
    "BATCH_TASK_CURRENT_INSTANCE",
)


class Operator(Value):
    """A custom operator to install before the job."""

    url: str
    argv: Tuple[str, ...]  # the download into `folder`
    folder: str  # ours: created before, removed after


class LogUpload(Value):
    """A file to copy into the object store again and again while the job runs."""

    source: str
    target: str  # a URL


class RoutePlan(Value):
    """A wish for ranks ordered by the network's topology."""

    topology_path: str
    wait_seconds: float  # how long to wait for that file's completion


def is_modelarts(environ: Mapping[str, str]) -> bool:
    """Whether this is a job of ModelArts, of either platform generation."""
    return any(environ.get(name) for name in _MARKS)


def job_id(environ: Mapping[str, str], host_name: str) -> str:
    """The job's name in JOB_ID and in log files; the host's where the platform gives none."""
    if environ.get("BATCH_JOB_ID"):
        return environ["BATCH_JOB_ID"]
    if environ.get("MA_VJ_NAME"):
        return re.sub("^ma-job", "modelarts-job", environ["MA_VJ_NAME"])
    return host_name


def log_dir(environ: Mapping[str, str], exists: Callable[[str], bool]) -> str:
    """Where workers' logs go: the first of the platform's directories that exists, else below /tmp."""
    task_log = environ.get("BATCH_TASK_LOG_PATH")
    if task_log and exists(task_log):
        return task_log
    mount = environ.get("MA_MOUNT_PATH")
    if mount and exists(join(mount, "log")):
        return join(mount, "log")
    return "/tmp/log"


def workspace(environ: Mapping[str, str], exists: Callable[[str], bool]) -> Optional[str]:
    """The directory in which each worker has its `device<DEVICE_ID>`; None: workers stay in the current one.

    None only outside the platform, where users expect `davincirun python train.py` to find train.py.
    """
    if environ.get("MA_MOUNT_PATH"):
        return join(environ["MA_MOUNT_PATH"], "workspace")
    if environ.get("FMK_WORKSPACE"):
        return environ["FMK_WORKSPACE"]
    return join(HOME, "workspace") if exists(HOME) else None


def base_dir(environ: Mapping[str, str], exists: Callable[[str], bool]) -> Optional[str]:
    """The directory in which `rank_table/` is made; None outside the platform, where it belongs to the logs."""
    return environ.get("MA_HOME") or environ.get("MA_MOUNT_PATH") or (HOME if exists(HOME) else None)


def channel_changes(environ: Mapping[str, str]) -> Dict[str, Optional[str]]:
    """MA_INPUTS and MA_OUTPUTS as ModelArts' own algorithms read them: one channel, in the form of version 1.

    None removes a variable that has no such channel. What can't be understood is left alone.
    """
    changes = {}
    for variable, kind, name in (("MA_INPUTS", "inputs", "data_url"), ("MA_OUTPUTS", "outputs", "train_url")):
        if environ.get(variable):
            try:
                changes[variable] = _version_1_channel(json.loads(environ[variable]), kind, name)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
    return changes


def wants_device_logs_on_stdout(environ: Mapping[str, str]) -> bool:
    """Whether an operator is being developed (`ide_mode`), so that its messages are to be seen at once."""
    try:
        settings = _operator_settings(environ)
    except PlatformError:
        return False
    return bool(settings and settings.get("ide_mode"))


def operator_archive(environ: Mapping[str, str], home: str = HOME, temporary: str = "/tmp") -> Optional[Operator]:
    """The operator archive that MA_ALGORITHM_OPERATOR names, with the command that fetches it.

    Raises PlatformError when the variable isn't JSON: the job would run without its operator.
    """
    settings = _operator_settings(environ)
    if settings is None:
        return None
    url = settings["obs"]["obs_url"]
    folder = join(temporary, "operator_info")
    argv = ["python", join(home, "modelarts-downloader.py"), "-s", url, "-d", folder]
    if url.endswith("/"):
        argv += ["--skip-creating-dir", "-r"]  # the URL of a folder
    return Operator(url, tuple(argv), folder)


def log_upload(environ: Mapping[str, str], exists: Callable[[str], bool]) -> Optional[LogUpload]:
    """The copy of this node's stdout.log that the first platform generation leaves to the launcher."""
    store = environ.get("DLS_UPLOAD_LOG_OBS_DIR")
    logs = environ.get("BATCH_TASK_LOG_PATH")
    pod_name = environ.get("BATCH_TASK_CURRENT_INSTANCE")
    if not (store and logs and pod_name and "DLS_USE_UPLOADER" in environ):
        return None
    source = join(logs, "stdout.log")
    return LogUpload(source, join(store, f"{pod_name}.log")) if exists(source) else None


def route_plan(environ: Mapping[str, str]) -> Optional[RoutePlan]:
    """The wish in ROUTE_PLAN (anything but `false`); PlatformError for a ROUTE_TOPO_WAIT_TIME that is no number."""
    if (environ.get("ROUTE_PLAN") or "false").lower() == "false":
        return None
    wait = environ.get("ROUTE_TOPO_WAIT_TIME") or "300"
    if not re.fullmatch(r"\d+(\.\d+)?", wait):
        raise PlatformError(f"ROUTE_TOPO_WAIT_TIME: {wait!r}: want a number of seconds, such as 300")
    return RoutePlan(environ.get("TOPO_FILE_PATH") or "/user/config/ranktable_tor.json", float(wait))


def completed_topology(text: bytes) -> Optional[str]:
    """The JSON inside a topology file (base64 of gzip); None while it isn't `completed`, or not yet whole."""
    import base64
    import gzip
    import zlib

    try:
        topology = gzip.decompress(base64.b64decode(text)).decode()
        status = json.loads(topology)["status"]
    except (ValueError, OSError, EOFError, zlib.error, KeyError, TypeError):
        return None
    return topology if status == "completed" else None


def planned_server(result: Any) -> Server:
    """This node as route planning orders it, from `(ok, [(rank_id, device_id, device_ip)…], server_id)`.

    The position of a device is its local rank. Raises PlatformError when planning refused or answers otherwise.
    """
    try:
        ok, triples, server_id = result
        devices = tuple(Device(int(rank), int(number), str(ip) or None) for rank, number, ip in triples or ())
    except (ValueError, TypeError):
        raise PlatformError(f"route planning answered {result!r}: want (ok, devices, server_id)") from None
    if not ok:
        raise PlatformError("route planning declined to order the ranks")
    ranks = {device.rank for device in devices}
    if not ranks or min(ranks) < 0 or len(ranks) != len(devices):
        raise PlatformError(f"route planning answered {triples!r}: want each rank of this node once")
    return Server(str(server_id), devices)


def _version_1_channel(channels: Any, kind: str, name: str) -> Optional[str]:
    for channel in channels.get(kind) or ():
        if channel.get("name") == name:
            remote = channel["remote"]
            source = next((source for source in ("datasets", "obs") if source in remote), "")
            url = remote[source]["obs_url"] if source else ""
            channel_1 = {
                "parameter": {"label": name, "value": channel["local_dir"]},
                "data_source": {source: {"obs_url": re.sub("^s3:/", "", url)}},
            }
            return json.dumps({kind: [channel_1]}, ensure_ascii=False)
    return None


def _operator_settings(environ: Mapping[str, str]) -> Optional[Dict[str, Any]]:
    """MA_ALGORITHM_OPERATOR where it names an archive."""
    text = environ.get("MA_ALGORITHM_OPERATOR")
    if not text:
        return None
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise PlatformError(f"MA_ALGORITHM_OPERATOR: no JSON ({error}): mend or unset it") from None
    source = settings.get("obs") if isinstance(settings, dict) else None
    url = source.get("obs_url") if isinstance(source, dict) else None
    return settings if url and isinstance(url, str) else None
