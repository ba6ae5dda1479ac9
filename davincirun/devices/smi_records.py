"""Reads the `key : value` answers of `npu-smi info -t …`."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from davincirun.devices.reading import Problem, key_value, numbered_lines, unreadable, whole_number


class SuperPodInfo(NamedTuple):
    """`-t spod-info`: where a chip stands in its super pod."""

    super_device_id: Optional[str]  # the SDID; the 950 prints none
    super_pod_id: Optional[str]
    super_pod_size: Optional[int]
    server_index: Optional[int]


def read_super_pod(text: str) -> SuperPodInfo:
    """The answer of one chip; a ReaderError when the text has no super pod id."""
    values, _ = _pairs(text)
    if "Super Pod ID" not in values:
        raise unreadable("npu-smi info -t spod-info", text, "line 'Super Pod ID : N'")
    return SuperPodInfo(
        values.get("SDID"),
        values["Super Pod ID"],
        whole_number(values.get("Super Pod Size", "")),
        whole_number(values.get("Server Index", "")),
    )


def _pairs(text: str) -> Tuple[Dict[str, str], List[Problem]]:
    values: Dict[str, str] = {}
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        pair = key_value(line)
        if pair is None:
            problems.append(Problem(number, line, "not key : value"))
        else:
            values[pair[0]] = pair[1]
    return values, problems
