"""Reads npu-smi's answers that go chip by chip: `-t usages`, `-t common`, `-t memory` and `-t proc-mem`.

`Chip ID` is the first line of a chip's block in `common` and the last one in `usages` and `proc-mem`; a query with
`-c` prints none at all. The management chip (`mcu`) has a name and no id; nothing runs on it, it is left out.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, decimal, key_value, numbered_lines, unreadable, whole_number
from davincirun.values import Value


class ChipRecord(Value):
    """One chip's block."""

    chip_id: Optional[int]
    values: Dict[str, str]  # by the tool's own keys, such as `HBM Capacity(MB)`

    def number(self, key: str) -> Optional[float]:
        """The value of `key` as a number; None when it is missing, `NA` or `-`."""
        return decimal(self.values.get(key, ""))


class ChipRecords(Value):
    """The answer for one card."""

    npu_id: Optional[int]
    chip_count: Optional[int]
    chips: Tuple[ChipRecord, ...]
    problems: Tuple[Problem, ...] = ()


class ChipProcess(Value):
    """A process on a chip, by `-t proc-mem`."""

    chip_id: Optional[int]  # None for a query with `-c`
    pid: int
    name: str  # cut to 13 characters; may be empty
    memory_megabytes: Optional[int]


class ChipProcesses(Value):
    """`-t proc-mem` for one card."""

    npu_id: Optional[int]
    chip_ids: Tuple[int, ...]  # also those without a process
    processes: Tuple[ChipProcess, ...]
    problems: Tuple[Problem, ...] = ()


_CARD_KEYS = ("NPU ID", "Chip Count")
_PROCESS_KEYS = ("Process id:", "Process name:", "Process memory(MB):")
_NO_PROCESS = "No process in device"


def read_chip_records(text: str) -> ChipRecords:
    """The chips' blocks of `-t usages`, `-t common` or `-t memory`."""
    card: Dict[str, str] = {}
    pairs: List[Tuple[str, str]] = []
    problems: List[Problem] = []
    above: List[Problem] = []
    for number, line in numbered_lines(text):
        key, value = key_value(line) or ("", "")
        if key == "NPU ID" and not card:
            problems += above  # what stands above the first record is none of it
            pairs, above = [], []
        if key in _CARD_KEYS and not pairs:
            card[key] = value
        elif key:
            above += [] if card else [Problem(number, line, "not expected here")]
            pairs.append((key, value))
        else:
            problems.append(Problem(number, line, "not key : value"))
    if not pairs:
        raise unreadable("npu-smi info -t usages", text, "lines of the form 'key : value'")
    chips = [_chip_record(block) for block in _blocks(pairs) if block.get("Chip Name", "").lower() != "mcu"]
    npu_id, chip_count = (whole_number(card.get(key, "")) for key in _CARD_KEYS)
    return ChipRecords(npu_id, chip_count, tuple(chips), tuple(problems))


def read_chip_processes(text: str) -> ChipProcesses:
    """The processes of `-t proc-mem`; the chip's id stands below its processes."""
    npu_id: Optional[int] = None
    chip_ids: List[int] = []
    processes: List[ChipProcess] = []
    pending: List[ChipProcess] = []  # those whose chip is yet to be named
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        key, value = key_value(line) or (line.strip(), "")
        process = _process(line)
        chip_id = whole_number(value) if key == "Chip ID" else None
        if process is not None:
            pending.append(process)
        elif chip_id is not None:
            chip_ids.append(chip_id)
            processes += [waiting._replace(chip_id=chip_id) for waiting in pending]
            pending = []
        elif key == "NPU ID":
            npu_id = whole_number(value)
        elif key != "Chip Count" and not key.startswith(_NO_PROCESS):
            problems.append(Problem(number, line, "neither a process nor a chip"))
    processes += pending
    if not processes and not chip_ids and _NO_PROCESS not in text:
        raise unreadable("npu-smi info -t proc-mem", text, "process and no chip")
    return ChipProcesses(npu_id, tuple(chip_ids), tuple(processes), tuple(problems))


def _blocks(pairs: List[Tuple[str, str]]) -> List[Dict[str, str]]:
    """The pairs of each chip: `Chip ID` opens a block if the first pair is one, else it closes one."""
    opens = pairs[0][0] == "Chip ID"
    blocks: List[Dict[str, str]] = [{}]
    for key, value in pairs:
        if blocks[-1] and ((opens and key == "Chip ID") or (key, value.lower()) == ("Chip Name", "mcu")):
            blocks.append({})
        blocks[-1][key] = value
        if key == "Chip ID" and not opens:
            blocks.append({})
    return [block for block in blocks if block]


def _chip_record(block: Dict[str, str]) -> ChipRecord:
    values = {key: value for key, value in block.items() if key != "Chip ID"}
    return ChipRecord(whole_number(block.get("Chip ID", "")), values)


def _process(line: str) -> Optional[ChipProcess]:
    """`Process id:1 Process name:x Process memory(MB):2`; blanks may follow the colons, the name may be empty."""
    before, pid_key, rest = line.partition(_PROCESS_KEYS[0])
    pid_text, name_key, rest = rest.partition(_PROCESS_KEYS[1])
    name, memory_key, memory = rest.partition(_PROCESS_KEYS[2])
    pid = whole_number(pid_text.strip())
    if before.strip() or pid is None or not (pid_key and name_key and memory_key):
        return None
    return ChipProcess(None, pid, name.strip(), whole_number(memory.strip()))
