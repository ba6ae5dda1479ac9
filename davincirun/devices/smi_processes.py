"""Reads the process table, the lower half of `npu-smi info`.

Its rows (`| 4  0 | 70012 | python | 49379 |`) have the shape of a card's name row, so where it starts has to be
known before any row is taken for a card.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from davincirun.devices.reading import Problem, whole_number
from davincirun.values import Value

Row = Tuple[int, str, Tuple[str, ...]]  # line number, line, cells
_IDLE = "No running processes found in NPU"
_HEAD = "process id"


class Process(Value):
    """A process on one chip; a process on several chips has a row for each."""

    npu_id: int
    chip_id: Optional[int]  # not printed for the 950
    pid: int  # as the host counts
    name: str  # cut to 13 or so characters; empty for other users' processes
    memory_megabytes: Optional[int]
    container_pid: Optional[int] = None  # drivers from 26.0 on


def is_start(cells: Sequence[str]) -> bool:
    """Whether the process table has begun: its head, a card said to be idle, or a row that can only be its."""
    if cells[0].startswith(_IDLE):
        return True
    if len(cells) < 4:
        return False
    return cells[1].lower() == _HEAD or (whole_number(cells[1]) is not None and whole_number(cells[3]) is not None)


def read_processes(rows: Sequence[Row]) -> Tuple[List[Process], List[int], List[Problem]]:
    """The processes, the NPU ids said to be idle, and the rows that are neither."""
    processes: List[Process] = []
    idle: List[int] = []
    problems: List[Problem] = []
    for number, line, cells in rows:
        if len(cells) > 1 and cells[1].lower() == _HEAD:
            continue
        process = _process(cells)
        idle_id = whole_number(cells[0][len(_IDLE) :].strip(" .")) if cells[0].startswith(_IDLE) else None
        if process is not None:
            processes.append(process)
        elif idle_id is not None:
            idle.append(idle_id)
        else:
            problems.append(Problem(number, line, "not a row of the process table"))
    return processes, idle, problems


def _process(cells: Sequence[str]) -> Optional[Process]:
    ids = [whole_number(word) for word in cells[0].split()]
    pid = whole_number(cells[1]) if len(cells) >= 4 else None
    if pid is None or len(ids) not in (1, 2) or ids[0] is None or ids[-1] is None:
        return None
    chip_id = ids[1] if len(ids) == 2 else None
    container_pid = whole_number(cells[4]) if len(cells) > 4 else None
    return Process(ids[0], chip_id, pid, cells[2], whole_number(cells[3]), container_pid)
