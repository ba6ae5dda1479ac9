"""What ModelArts' MA_DIAG_MODE_ENV and MA_RUN_MODE_ENV switch on in a worker: log levels, dumps and where they go.

The rules are the platform launcher's, save that engine versions are compared as numbers (its `"1.4" <= "1.10"`
is false). The user's own values stand; the caller sees to that.
"""

from __future__ import annotations

import re
from typing import Dict, Mapping, Tuple

# {job} is the job's log directory, {rank} the worker's global rank
_FAULTS = {
    "PRINT_MODEL": "1",
    "DUMP_GE_GRAPH": "2",
    "DUMP_GRAPH_LEVEL": "2",
    "ASCEND_GLOBAL_LOG_LEVEL": "1",
    "ASCEND_HOST_LOG_FILE_NUM": "1000",
    "NPU_COLLECT_PATH": "{job}/ascend/npu_collect/rank_{rank}",
}
_MINDSPORE_LOG = {
    "GLOG_v": "1",
    "GLOG_log_dir": "{job}/mindspore/log",
    "GLOG_logtostderr": "0",
    "MS_OM_PATH": "{job}/mindspore/log",
}
_MINDSPORE_RECORDER = {
    "MS_RDR_ENABLE": "1",
    "MS_RDR_PATH": "{job}/mindspore/log",
}
_DIAGNOSTIC_DATA = {
    "MS_DIAGNOSTIC_DATA_PATH": "{job}/mindspore/diagnostic_data",
}
_QUIET = {
    "ASCEND_GLOBAL_LOG_LEVEL": "3",
    "ASCEND_GLOBAL_EVENT_LEVEL": "0",
    "GLOG_v": "3",
}

_RECORDER_SINCE = (1, 4)  # the first MindSpore with a running data recorder


def mode_variables(environ: Mapping[str, str], job_directory: str, rank: int) -> Dict[str, str]:
    """The variables of the mode that `environ` asks for, for one worker; a diagnosis mode beats a run mode."""
    templates = _templates(environ)
    return {name: text.format(job=job_directory, rank=rank) for name, text in templates.items()}


def mindspore_version(engine_version: str) -> Tuple[int, ...]:
    """The version in MA_ENGINE_VERSION (`mindspore_1.7-cann_5.1-…` gives 1, 7); empty for another engine or none."""
    name, _, version = engine_version.split("-", 1)[0].partition("_")
    if "mindspore" not in name:
        return ()
    numbers = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(number) for number in numbers.group().split(".")) if numbers else ()


def _templates(environ: Mapping[str, str]) -> Dict[str, str]:
    diagnosis = environ.get("MA_DIAG_MODE_ENV", "")
    if diagnosis == "faults":
        if mindspore_version(environ.get("MA_ENGINE_VERSION", "")) >= _RECORDER_SINCE:
            return {**_FAULTS, **_MINDSPORE_LOG, **_MINDSPORE_RECORDER}
        return _FAULTS
    if diagnosis in ("accuracy", "profile"):
        return _DIAGNOSTIC_DATA
    run_mode = environ.get("MA_RUN_MODE_ENV", "")
    if run_mode == "performance":
        return {**_MINDSPORE_LOG, **_QUIET}
    if run_mode == "normal":
        return _MINDSPORE_LOG
    return {}
