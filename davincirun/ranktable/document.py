"""The bytes of a rank-table file → its form and document, or why it isn't usable yet, or what is wrong with it."""

from __future__ import annotations

import gc
import json
import re
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional, Union

from davincirun.ranktable.finding import Finding, as_error, error, kind, shown
from davincirun.values import Value

GROUP_LIST = "group_list"
VERSIONS = ("1.0", "1.1", "1.2", "2.0")
Hook = Callable[[Dict[str, Any]], Dict[str, Any]]
BOM = b"\xef\xbb\xbf"
BIG_BYTES = 1 << 20

# what is left of the text where the decoder stopped, if the writer was merely interrupted there
_CUT_OFF = re.compile(
    r"(t(ru?)?|f(a(ls?)?)?|n(ul?)?|-|\.|[eE][-+]?|\\(u[0-9a-fA-F]{0,3})?|u?[0-9a-fA-F]{0,3})?[\s\0]*\Z"
)


class NotYet(Value):
    """The file isn't usable yet, and may become so."""

    reason: str


class RankTable(Value):
    """A completed rank table, as read."""

    form: str  # "group_list" | "1.0" | "1.1" | "1.2" | "2.0"
    document: Dict[str, Any]
    text: bytes  # exactly as read


def parse(data: bytes, path: str) -> Union[RankTable, NotYet]:
    """The rank table in `data`, or why to wait for it.

    Missing, empty, cut off, followed by left-over bytes and `initializing` are one family: NotYet. Whatever
    waiting can't cure raises RankTableError. `path` is only for messages.
    """
    result = inspect(data)
    if isinstance(result, Finding):
        raise as_error(path, result)
    return result


def inspect(data: bytes, object_hook: Optional[Hook] = None) -> Union[RankTable, NotYet, Finding]:
    """As `parse`, with the error as a value; `object_hook` is for json's decoder, and what it raises is raised."""
    document = _loads(data, object_hook)
    if isinstance(document, (NotYet, Finding)):
        return document
    if not isinstance(document, dict):
        return error(
            "not-an-object", "", f"the top level is {kind(document)}, a rank table is an object", hccl="EI0004"
        )
    problem = _foreign(document)
    if problem:
        return problem
    if _is_initializing(document):
        return NotYet('status is "initializing"')
    form = _form(document)
    if isinstance(form, Finding):
        return form
    return _status_problem(document, form) or RankTable(form, document, data)


@contextmanager
def collector_paused(size: int) -> Iterator[None]:
    """Hold the garbage collector off: a big table is a million new objects, none of them garbage.

    With a `size` (bytes of text) that is big they are set aside too, else the next allocation would walk them all.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if size > BIG_BYTES:
                gc.freeze()
            gc.enable()


def _loads(data: bytes, object_hook: Optional[Hook]) -> Any:
    """The JSON value in `data`, else a NotYet or a Finding."""
    try:
        text = (data[len(BOM) :] if data.startswith(BOM) else data).decode("utf-8")
    except UnicodeDecodeError as problem:
        if problem.reason == "unexpected end of data":
            return NotYet(f"cut off inside a character after {problem.start} bytes")
        return error("json-syntax", "", f"byte {problem.start} is not UTF-8, which JSON is written in", hccl="EI0004")
    if not text.strip(" \t\r\n\0"):
        return NotYet("the file is empty" if not data else "the file holds nothing but blanks")
    try:
        with collector_paused(len(data)):
            return json.loads(text, parse_constant=_no_constant, object_hook=object_hook)
    except json.JSONDecodeError as problem:
        return _not_json(text, problem)
    except RecursionError:
        return error("json-syntax", "", "its values are nested too deeply for a rank table", hccl="EI0004")
    except ValueError as problem:
        return error("json-syntax", "", f"not valid JSON: {problem}", hccl="EI0004")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is a value that only Python's json accepts")


def _not_json(text: str, problem: json.JSONDecodeError) -> Union[NotYet, Finding]:
    place = f"line {problem.lineno} column {problem.colno}"
    if problem.msg == "Extra data":  # HCCL would skip it: the rest of a longer file that is being written over
        return NotYet(f"{len(text) - problem.pos} more characters follow the table's end at {place}")
    if problem.msg.startswith("Unterminated string") or _CUT_OFF.match(text, problem.pos):
        return NotYet(f"cut off: the JSON ends early, at {_end_of(text)}")
    if text[problem.pos : problem.pos + 1] == "'":
        return error(
            "json-syntax",
            "",
            f"not valid JSON: single quotes at {place}: this is a Python dict that was printed",
            "write it with json.dump",
            "EI0004",
        )
    if text[problem.pos : problem.pos + 2] in ("//", "/*") or text[problem.pos : problem.pos + 1] == "#":
        return error(
            "json-syntax", "", f"not valid JSON: a comment at {place}", "JSON knows no comments: remove it", "EI0004"
        )
    return error("json-syntax", "", f"not valid JSON: {problem.msg} at {place}", "correct that place", "EI0004")


def _end_of(text: str) -> str:
    text = text.rstrip("\0")
    return f"line {text.count(chr(10)) + 1} column {len(text) - text.rfind(chr(10))}"


def _foreign(document: Dict[str, Any]) -> Optional[Finding]:
    """What the tables are that others call rank tables, though HCCL can't read them."""
    if "server_group_list" in document:
        return error(
            "not-an-hccl-table",
            "server_group_list",
            "this is a MindIE/clusterd global rank table, which HCCL can't read",
            "training needs the job's own hccl.json",
        )
    for key in ("prefill_device_list", "decode_device_list"):
        if key in document:
            return error(
                "not-an-hccl-table",
                key,
                "this is a vllm-ascend list of prefill and decode devices, which HCCL can't read",
                "unset RANK_TABLE_FILE or give the HCCL table",
            )
    return None


def _is_initializing(document: Dict[str, Any]) -> bool:
    status = document.get("status")
    return isinstance(status, str) and status.strip().lower() == "initializing"


def _form(document: Dict[str, Any]) -> Union[str, Finding]:
    """Which form `document` has, as HCCL tells them apart: by `version` alone."""
    known = ", ".join(f'"{version}"' for version in VERSIONS)
    if "version" in document:
        version = document["version"]
        if not isinstance(version, str):
            return error(
                "type",
                "version",
                f"{shown(version)} is {kind(version)}, it must be a string",
                f"write one of {known}",
                "EI0017",
            )
        if version not in VERSIONS:
            return error("unknown-version", "version", f"{shown(version)} is none of {known}", "correct it", "EI0014")
        return version
    if "group_list" in document:
        return GROUP_LIST
    for key, version in (("server_list", "1.0"), ("node_list", "1.1"), ("rank_list", "2.0")):
        if key in document:
            return error(
                "missing-version",
                "version",
                f"there is none, so HCCL looks for group_list, but this table has a {key}",
                f'add "version": "{version}"',
                "EI0017",
            )
    if "status" not in document:
        return _no_status()
    return error(
        "missing-group-list", "", "neither a version nor a group_list: no rank table", "give the right file", "EI0017"
    )


def _status_problem(document: Dict[str, Any], form: str) -> Optional[Finding]:
    """HCCL polls for exactly "completed" for half an hour; its readers of 1.1 and 2.0 never look."""
    if form in ("1.1", "2.0"):
        return None
    if "status" not in document:
        return _no_status()
    status = document["status"]
    if status == "completed":
        return None
    guess = ': did you mean "completed"?' if isinstance(status, str) and status.strip().lower() == "completed" else ""
    return error(
        "bad-status",
        "status",
        f'{shown(status)} is neither "completed" nor "initializing"{guess}',
        'HCCL compares exactly and would wait for 30 minutes: write "completed"',
    )


def _no_status() -> Finding:
    return error("missing-status", "status", "there is none", 'add "status": "completed"', "EI0017")
