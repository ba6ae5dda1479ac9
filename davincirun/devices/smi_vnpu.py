"""Reads npu-smi's tables of virtual NPUs: `-t info-vnpu` and `-t template-info`.

A virtual NPU is /dev/vdavinciN on the host and /dev/davinciN in its container, with N from 100.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from davincirun.devices.reading import Problem, cells, numbered_lines, unreadable, whole_number
from davincirun.values import Value

_TOTAL = "Total number of vnpu:"


class Vnpu(Value):
    """One virtual NPU of a chip."""

    vnpu_id: int
    vgroup_id: Optional[int]
    container_id: str
    status: Optional[int]
    template: str


class VnpuList(Value):
    """`-t info-vnpu` for one chip."""

    total: Optional[int]
    vnpus: Tuple[Vnpu, ...]
    problems: Tuple[Problem, ...] = ()


class Template(Value):
    """A way to cut a chip."""

    name: str
    aicore: Optional[int]
    memory_gigabytes: Optional[int]
    aicpu: Optional[int]


class TemplateList(Value):
    """`-t template-info` for one card."""

    templates: Tuple[Template, ...]
    problems: Tuple[Problem, ...] = ()


def read_vnpus(text: str) -> VnpuList:
    """The virtual NPUs; the table of free resources above them is not read."""
    total: Optional[int] = None
    vnpus: List[Vnpu] = []
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        row = cells(line)
        if row is None:
            continue
        if row[0].startswith(_TOTAL):
            total = whole_number(row[0][len(_TOTAL) :].strip())
        elif total is not None and row[0] != "Vnpu ID":
            vnpu_id = whole_number(row[0])
            if vnpu_id is None or len(row) != 5:
                problems.append(Problem(number, line, "not a row of the vNPU table"))
            else:
                vnpus.append(Vnpu(vnpu_id, whole_number(row[1]), row[2], whole_number(row[3]), row[4]))
    if total is None:
        raise unreadable("npu-smi info -t info-vnpu", text, f"line '{_TOTAL} N'")
    return VnpuList(total, tuple(vnpus), tuple(problems))


def read_templates(text: str) -> TemplateList:
    """The templates; each has a row with its name and one without, whose values are not read."""
    templates: List[Template] = []
    problems: List[Problem] = []
    in_table = False
    for number, line in numbered_lines(text):
        words = (cells(line) or ("",))[0].split()
        if words[:1] == ["Name"]:
            in_table = True
        elif in_table and words and whole_number(words[0]) is None and words[0] not in ("GB", "NA"):
            numbers = [whole_number(word) for word in words[1:4]]
            if len(numbers) < 3 or None in numbers:
                problems.append(Problem(number, line, "not a row of the template table"))
            else:
                templates.append(Template(words[0], *numbers))
    if not in_table:
        raise unreadable("npu-smi info -t template-info", text, "head with 'Name'")
    return TemplateList(tuple(templates), tuple(problems))
