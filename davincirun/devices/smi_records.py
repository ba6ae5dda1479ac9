"""Reads the `key : value` answers of npu-smi about one card: `-l`, `-t board`, `-t health`, `-t spod-info`, …

Blank lines part nothing that can be relied on; a record begins where its first key comes again.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, key_value, numbered_lines, unreadable, whole_number
from davincirun.values import Value


class Board(Value):
    """`-t board`, of a card or, with `-c`, of a chip; None for what the kind of board doesn't print."""

    npu_id: Optional[int]
    chip_id: Optional[int] = None
    chip_name: Optional[str] = None  # 910A; a card's record has none before the 950
    npu_name: Optional[str] = None  # the model behind the bare Ascend910 or Ascend950PR: 9382, 9579
    slot_id: Optional[int] = None
    chip_count: Optional[int] = None
    bus_id: Optional[str] = None
    pci_id: Optional[str] = None  # vendor and device, as 19E5:D802
    software_version: Optional[str] = None
    firmware_version: Optional[str] = None
    values: Tuple[Tuple[str, str], ...] = ()  # every key, in the answer's order
    problems: Tuple[Problem, ...] = ()


class ListedCard(Value):
    """One record of `info -l`."""

    npu_id: int
    chip_count: Optional[int] = None  # the 950 prints none
    product_name: Optional[str] = None  # PCIe cards and the 950 print these two, servers don't
    serial_number: Optional[str] = None


class CardList(Value):
    """`info -l`: cards, on Atlas A3 of two devices each."""

    total_count: Optional[int]
    cards: Tuple[ListedCard, ...]
    problems: Tuple[Problem, ...] = ()


class Health(Value):
    """`-t health`."""

    status: str  # OK, Warning, Alarm, Critical, UNKNOWN
    codes: Tuple[str, ...] = ()  # hexadecimal, as printed
    information: Tuple[str, ...] = ()  # a sentence each
    problems: Tuple[Problem, ...] = ()


class SuperPodInfo(Value):
    """`-t spod-info`: where a chip stands in its super pod."""

    super_device_id: Optional[str]  # the SDID; the 950 prints none
    super_pod_id: Optional[str]
    super_pod_size: Optional[int]
    server_index: Optional[int]
    problems: Tuple[Problem, ...] = ()


class PhysicalId(Value):
    """`-t phyid-remap -p P`: which card and chip a physical id is."""

    phy_id: int
    npu_id: Optional[int] = None
    slot_id: Optional[int] = None
    chip_id: Optional[int] = None
    logic_id: Optional[int] = None
    problems: Tuple[Problem, ...] = ()


def read_board(text: str) -> Board:
    """One card's or chip's board data; a ReaderError when the text has no NPU id."""
    pairs, problems = _pairs(text)
    values = _first_of_each(pairs)
    if "NPU ID" not in values:
        raise unreadable("npu-smi info -t board", text, "line 'NPU ID : N'")
    vendor, device = values.get("PCI Vendor ID"), values.get("PCI Device ID")
    return Board(
        npu_id=_number(values, "NPU ID"),
        chip_id=_number(values, "Chip ID"),
        chip_name=values.get("Chip Name"),
        npu_name=values.get("NPU Name"),
        slot_id=_number(values, "Slot ID"),
        chip_count=_number(values, "Chip Count"),
        bus_id=values.get("PCIe Bus Info"),
        pci_id=f"{_bare_hexadecimal(vendor)}:{_bare_hexadecimal(device)}" if vendor and device else None,
        software_version=values.get("Software Version"),
        firmware_version=values.get("Firmware Version"),
        values=tuple((key, value) for key, value, _ in pairs),
        problems=tuple(problems),
    )


def read_list(text: str) -> CardList:
    """The cards of `info -l`; the count is called `Card Count` on 310 and 310B."""
    pairs, problems = _pairs(text)
    total_count: Optional[int] = None
    records: List[Dict[str, str]] = []
    for key, value, problem in pairs:
        if key in ("Total Count", "Card Count") and not records:
            total_count = whole_number(value)
        elif key == "NPU ID" and whole_number(value) is not None:
            records.append({key: value})
        elif records:
            records[-1][key] = value
        else:
            problems.append(problem)
    if total_count is None and not records:
        raise unreadable("npu-smi info -l", text, "line 'Total Count : N'")
    return CardList(total_count, tuple(_listed_card(record) for record in records), tuple(problems))


def read_health(text: str) -> Health:
    """The health of a card (`Health`) or a chip (`Health Status`); lines with an empty key go on with the key above."""
    pairs, problems = _pairs(text)
    values: Dict[str, List[str]] = {}
    key = ""
    for own_key, value, _ in pairs:
        key = own_key or key
        values.setdefault(key, []).append(value)
    status = [*values.get("Health Status", []), *values.get("Health", [])]
    if not status or not status[0]:
        raise unreadable("npu-smi info -t health", text, "line 'Health Status : …'")
    codes = [code for line in values.get("Error Code", []) for code in line.split() if code != "NA"]
    information = [line for line in values.get("Error Information", []) if line not in ("", "NA")]
    return Health(status[0], tuple(codes), tuple(information), tuple(problems))


def read_super_pod(text: str) -> SuperPodInfo:
    """The place of one chip; a ReaderError when the text has no super pod id."""
    pairs, problems = _pairs(text)
    values = _first_of_each(pairs)
    if not values.get("Super Pod ID"):
        raise unreadable("npu-smi info -t spod-info", text, "line 'Super Pod ID : N'")
    return SuperPodInfo(
        values.get("SDID"),
        values["Super Pod ID"],
        _number(values, "Super Pod Size"),
        _number(values, "Server Index"),
        tuple(problems),
    )


def read_physical_id(text: str) -> PhysicalId:
    """Whose a physical id is, called `Chip Phy-ID` on the 950 and `Chip Physical ID` before."""
    pairs, problems = _pairs(text)
    values = _first_of_each(pairs)
    phy_id = _number(values, "Chip Phy-ID") if "Chip Phy-ID" in values else _number(values, "Chip Physical ID")
    if phy_id is None:
        raise unreadable("npu-smi info -t phyid-remap", text, "line 'Chip Phy-ID :N'")
    return PhysicalId(
        phy_id,
        npu_id=_number(values, "NPU ID"),
        slot_id=_number(values, "Slot ID"),
        chip_id=_number(values, "Chip ID"),
        logic_id=_number(values, "Chip Logic ID"),
        problems=tuple(problems),
    )


def read_version(text: str) -> str:
    """The tool's version, from `npu-smi -v`."""
    pairs, _ = _pairs(text)
    version = _first_of_each(pairs).get("npu-smi version")
    if not version:
        raise unreadable("npu-smi -v", text, "line 'npu-smi version: …'")
    return version


def _listed_card(record: Dict[str, str]) -> ListedCard:
    return ListedCard(
        whole_number(record["NPU ID"]) or 0,
        _number(record, "Chip Count"),
        record.get("Product Name"),
        record.get("Serial Number"),
    )


def _pairs(text: str) -> Tuple[List[Tuple[str, str, Problem]], List[Problem]]:
    """The pairs, each with the problem it will be if nobody wants it, and the lines that are no pair."""
    pairs: List[Tuple[str, str, Problem]] = []
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        pair = key_value(line)
        if pair is None:
            problems.append(Problem(number, line, "not key : value"))
        else:
            pairs.append((*pair, Problem(number, line, "not expected here")))
    return pairs, problems


def _first_of_each(pairs: List[Tuple[str, str, Problem]]) -> Dict[str, str]:
    values: Dict[str, str] = {}
    for key, value, _ in pairs:
        values.setdefault(key, value)
    return values


def _number(values: Dict[str, str], key: str) -> Optional[int]:
    return whole_number(values.get(key, ""))


def _bare_hexadecimal(text: str) -> str:
    return (text[2:] if text.lower().startswith("0x") else text).upper()
