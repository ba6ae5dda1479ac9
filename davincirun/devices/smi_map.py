"""Reads the lists by which npu-smi says which id is which: `info -m`, `info -l` and `info -t phyid-remap`."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, columns, numbered_lines, unreadable, whole_number
from davincirun.values import Value


class MapRow(Value):
    """One chip as `npu-smi info -m` names it."""

    npu_id: int
    chip_id: Optional[int] = None
    logic_id: Optional[int] = None  # what the runtime counts by
    phy_id: Optional[int] = None  # printed on A3 and 950
    slot_id: Optional[int] = None  # printed on 950
    name: Optional[str] = None  # without the leading `Ascend `: 910B3, but Ascend910 as that is one word


class IdMap(Value):
    """What `npu-smi info -m` printed, management chips left out."""

    rows: Tuple[MapRow, ...]
    problems: Tuple[Problem, ...] = ()


_FIELDS = {  # head of a column: field
    "NPU ID": "npu_id",
    "Slot ID": "slot_id",
    "Chip ID": "chip_id",
    "Chip Logic ID": "logic_id",
    "Chip Phy-ID": "phy_id",
    "Chip Name": "name",
}


def read_map(text: str) -> IdMap:
    """The map in `text`: columns go by their heads, of which the 950 has no logic id (its NPU id is that)."""
    heads: Optional[List[str]] = None
    rows: List[MapRow] = []
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        if heads is None:
            heads = _heads(line)
            continue
        parts = columns(line)
        if len(parts) != len(heads):  # single blanks between the columns, as pages leave them
            parts = line.split(None, len(heads) - 1)
        if "-" in parts or parts[-1].lower() == "mcu":
            continue  # the board's management chip: nothing runs on it
        row = _map_row(heads, parts)
        if row is None:
            problems.append(Problem(number, line, f"not a row below {', '.join(heads)}"))
        else:
            rows.append(row)
    if heads is None:
        raise unreadable("npu-smi info -m", text, "head with 'NPU ID' and 'Chip Name'")
    return IdMap(tuple(rows), tuple(problems))


def _heads(line: str) -> Optional[List[str]]:
    """The heads of the columns, or None for a line that has none; pages tend to leave single blanks between them."""
    heads = columns(line)
    if len(heads) == 1:
        heads = sorted([head for head in _FIELDS if head in line], key=line.index)
    return heads if "NPU ID" in heads and "Chip Name" in heads else None


def _map_row(heads: List[str], parts: List[str]) -> Optional[MapRow]:
    if len(parts) != len(heads):
        return None
    named = dict(zip(heads, parts))
    ids: Dict[str, int] = {}
    for head, field in _FIELDS.items():
        if head in named and field != "name":
            number = whole_number(named[head])
            if number is None:
                return None
            ids[field] = number
    if "Chip Logic ID" not in heads:
        ids["logic_id"] = ids["npu_id"]
    return MapRow(name=_bare_name(named["Chip Name"]), **ids)


def _bare_name(name: str) -> str:
    """`Ascend 910B3` as the table of `npu-smi info` prints it; `Ascend910` stays."""
    return name[len("Ascend ") :].strip() if name.startswith("Ascend ") else name
