"""Reads the table of `npu-smi info`, in all its layouts from driver 20.2 to 26.1.

A device is a pair of rows, the name row above the chip row. What separates the pairs differs from layout to
layout and is missing from some, and so is the head: rows are told apart by what stands in their cells.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, Union

from davincirun.devices.reading import Problem, cells, decimal, numbered_lines, unreadable, whole_number
from davincirun.devices.smi_processes import Process, Row, is_start, read_processes
from davincirun.values import Value

TOOL = "npu-smi info"
HEALTH_WORDS = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")  # all that the tool's source knows


class Usage(Value):
    """`used / total`, in the unit of its column (MB; pages for huge pages)."""

    used: int
    total: int


class InfoChip(Value):
    """One chip of the table. None: its layout doesn't print it, or it reads `NA` or `-`."""

    npu_id: Optional[int] = None
    chip_id: Optional[int] = None  # not printed for the 950, whose cards have one
    logic_id: Optional[int] = None  # the column `Device` of 310, 310P and 310B
    phy_id: Optional[int] = None  # the column `Phy-ID` of A3
    name: Optional[str] = None
    health: Optional[str] = None
    bus_id: Optional[str] = None
    power_watts: Optional[float] = None
    temperature_celsius: Optional[float] = None
    hugepages: Optional[Usage] = None
    utilization_percent: Optional[float] = None
    memory: Optional[Usage] = None
    hbm: Optional[Usage] = None


class InfoTable(Value):
    """What `npu-smi info` printed."""

    chips: Tuple[InfoChip, ...]
    processes: Tuple[Process, ...] = ()
    idle_npu_ids: Tuple[int, ...] = ()  # those said to run no process
    tool_version: Optional[str] = None
    driver_version: Optional[str] = None
    problems: Tuple[Problem, ...] = ()


def read_info(text: str) -> InfoTable:
    """The table in `text`; rows that make no sense become `problems`, a text without any table a ReaderError."""
    rows = [(number, line, row) for number, line in numbered_lines(text) for row in [cells(line)] if row is not None]
    start = next((index for index, (_, _, row) in enumerate(rows) if is_start(row)), len(rows))
    chips, problems = _chips(rows[:start])
    processes, idle, more_problems = read_processes(rows[start:])
    if not (chips or processes or idle):
        raise unreadable(TOOL, text, "table of NPUs")
    return InfoTable(
        tuple(chips), tuple(processes), tuple(idle), *_versions(rows), problems=(*problems, *more_problems)
    )


def _versions(rows: Sequence[Row]) -> Tuple[Optional[str], Optional[str]]:
    """The tool's and the driver's version; `Version:22.0.2` has been seen without its blank."""
    for _, _, row in rows:
        if row[0].startswith("npu-smi"):
            tool, _, driver = row[0][len("npu-smi") :].partition("Version:")
            return tool.strip() or None, driver.strip() or None
    return None, None


def _chips(rows: Sequence[Row]) -> Tuple[List[InfoChip], List[Problem]]:
    chips: List[InfoChip] = []
    problems: List[Problem] = []
    head = ""  # the head of the chip rows' first cell: `Chip`, `Chip Device`, `Chip Phy-ID`
    waiting: Optional[Tuple[int, str, InfoChip]] = None  # a name row whose chip row is yet to come
    for number, line, printed in rows:
        kind, row = _kind(printed)
        if kind == "chip head":
            head = row[0]
        elif kind == "name":
            _keep_without_chip_row(waiting, chips, problems)
            waiting = (number, line, _name_row(row))
        elif kind == "chip":
            if waiting is None:  # the tool drops the name row when the health code is none it knows
                problems.append(Problem(number, line, "no name row above this chip row"))
            chips.append(_chip_row(waiting[2] if waiting else InfoChip(), head, row))
            waiting = None
        elif kind == "unknown":
            problems.append(Problem(number, line, "neither a name row nor a chip row"))
    _keep_without_chip_row(waiting, chips, problems)
    return chips, problems


def _keep_without_chip_row(
    waiting: Optional[Tuple[int, str, InfoChip]], chips: List[InfoChip], problems: List[Problem]
) -> None:
    """Adds the chip of a name row that no chip row followed: a failing query drops the rest of an NPU."""
    if waiting is not None:
        number, line, chip = waiting
        chips.append(chip)
        problems.append(Problem(number, line, "no chip row below this name row"))


def _kind(row: Tuple[str, ...]) -> Tuple[str, Tuple[str, ...]]:
    """What a row is, and the row with three cells: the 950 gives the id and the name a cell each."""
    if row[0].startswith("npu-smi"):
        return "version", row
    if len(row) == 4:
        row = (f"{row[0]} {row[1]}".strip(), *row[2:])
    if len(row) != 3:
        return "unknown", row
    words = row[0].split()
    if words[:1] == ["NPU"]:
        return "name head", row
    if words[:1] == ["Chip"] or row[1] == "Bus-Id":
        return "chip head", row
    if words and whole_number(words[0]) is not None and _is_health(row[1], bool(words[1:])):
        return "name", row
    if len(words) <= 2 and all(whole_number(word) is not None for word in words) and _is_bus_id(row[1]):
        return "chip", row
    return "unknown", row


def _is_health(cell: str, has_name: bool) -> bool:
    """A health word; behind a name also one that is new. A row may lack its name."""
    return cell in HEALTH_WORDS or (has_name and cell.isalpha() and cell != "NA")


def _is_bus_id(cell: str) -> bool:
    """`0000:C1:00.0`, masked digits included, or `NA` on boards without PCIe."""
    return cell == "NA" or (":" in cell and " " not in cell)


def _name_row(row: Tuple[str, ...]) -> InfoChip:
    npu_id, _, name = row[0].partition(" ")
    power, temperature, hugepages = (*_values(row[2]), None, None, None)[:3]
    return InfoChip(
        npu_id=whole_number(npu_id),
        name=name.strip() or None,
        health=row[1],
        power_watts=_number(power),
        temperature_celsius=_number(temperature),
        hugepages=hugepages if isinstance(hugepages, Usage) else None,
    )


def _chip_row(chip: InfoChip, head: str, row: Tuple[str, ...]) -> InfoChip:
    words = row[0].split()
    values = _values(row[2])
    memory, hbm = (*(value for value in values if isinstance(value, Usage)), None, None)[:2]
    second = whole_number(words[1]) if len(words) > 1 else None
    return chip._replace(
        chip_id=whole_number(words[0]) if words else None,
        logic_id=second if _second_id(head, chip.name) == "Device" else None,
        phy_id=second if _second_id(head, chip.name) == "Phy-ID" else None,
        bus_id=None if row[1] == "NA" else row[1],
        utilization_percent=_number(values[0] if values else None),
        memory=memory,
        hbm=hbm,
    )


def _second_id(head: str, name: Optional[str]) -> Optional[str]:
    """What the second number of a chip row means; without a head the chip's name tells."""
    if head:
        return head.split()[-1]
    if name and name.startswith("310"):
        return "Device"
    if name and name.startswith(("Ascend910", "910_93")):
        return "Phy-ID"
    return None


def _values(cell: str) -> List[Union[str, Usage]]:
    """The values of a last cell; `52675/ 65536`, whose overflow ate the blank, is one value as `0    / 0` is."""
    values: List[Union[str, Usage]] = []
    words = cell.replace("/", " / ").split()
    index = 0
    while index < len(words):
        used, total = whole_number(words[index]), whole_number((*words[index + 2 : index + 3], "")[0])
        if words[index + 1 : index + 2] == ["/"] and used is not None and total is not None:
            values.append(Usage(used, total))
            index += 3
        else:
            values.append(words[index])
            index += 1
    return values


def _number(value: Union[str, Usage, None]) -> Optional[float]:
    return decimal(value) if isinstance(value, str) else None
