"""What npu-smi prints, in the layouts of its drivers."""

from __future__ import annotations

from collections import namedtuple

from machine import Chip, Machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List

# The fixed parts of one table. `border`: below the head and between cards.
Layout = namedtuple("Layout", "head border between_chips title process_head")
_WIDE = "+---------------------------+---------------+----------------------------------------------------+"
_CARD = "+-------------------+-----------------+------------------------------------------------------+"
_OLD = "+-------------------+-----------------+----------------------------------------+"
_950 = "+--------+------------------+---------------+-----------------------------------------------------+"
_950_PROCESSES = "+---------------------------+---------------+-----------------------------------------------------+"
_WIDE_PROCESS_HEAD = (
    "| NPU     Chip              | Process id    | Process name             | Process memory(MB)      |\n"
)
LAYOUTS = {
    "310": Layout(
        "| NPU     Name      | Health          | Power(W)          Temp(C)              |\n"
        "| Chip    Device    | Bus-Id          | AICore(%)         Memory-Usage(MB)     |\n",
        _OLD,
        _OLD,
        "| npu-smi {0:<28} Version: {0:<31}|\n",
        "",
    ),
    "310P": Layout(
        "| NPU     Name      | Health          | Power(W)     Temp(C)           Hugepages-Usage(page) |\n"
        "| Chip    Device    | Bus-Id          | AICore(%)    Memory-Usage(MB)                        |\n",
        _CARD,
        _CARD,
        "| npu-smi {0:<28} Version: {0:<45}|\n",
        "",
    ),
    "HBM": Layout(
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
        "| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n",
        _WIDE,
        _WIDE,
        "| npu-smi {0:<24} Version: {0:<53}|\n",
        _WIDE_PROCESS_HEAD,
    ),
    "A3": Layout(
        "| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|\n"
        "| Chip  Phy-ID              | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |\n",
        _WIDE,
        "+" + "-" * (len(_WIDE) - 2) + "+",
        "| npu-smi {0:<24} Version: {0:<53}|\n",
        _WIDE_PROCESS_HEAD,
    ),
    "950": Layout(
        "| NPU ID | Name             | Health        | Power(W)    Temp(C)           Hugepages-Usage(page) |\n"
        "|        |                  | Bus-Id        | NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)         |\n",
        _950,
        _950,
        "| npu-smi {0:<40} Version: {0:<38}|\n",
        "| NPU ID                    | Process id    | Process name             | Process memory(MB)       |\n",
    ),
}


def info(machine: Machine) -> str:
    """`npu-smi info`."""
    layout = LAYOUTS[machine.kind.layout]
    double = layout.border.replace("-", "=") + "\n"
    text = "+" + "-" * (len(layout.border) - 2) + "+\n" + layout.title.format(machine.driver)
    text += layout.border + "\n" + layout.head + double
    for index, chip in enumerate(machine.chips):
        text += _ROWS[machine.kind.layout](machine, chip)
        following = machine.chips[index + 1 : index + 2]
        same_npu = bool(following) and following[0].npu_id == chip.npu_id
        text += layout.between_chips + "\n" if same_npu else double
    return text + (_processes(machine, layout) if layout.process_head else "")


def id_map(machine: Machine) -> str:
    """`npu-smi info -m`; A2 boards have a management chip more."""
    if machine.kind.layout == "950":
        rows = [("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name")]
        rows += [_words(c.npu_id, c.npu_id, 0, c.phy_id, machine.kind.map_name) for c in machine.chips]
        return "".join(" ".join(f"{word:<15}" for word in row).rstrip() + "\n" for row in rows)
    with_phy = machine.kind.layout == "A3"
    heads = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if with_phy else []), "Chip Name"]
    rows = [tuple(heads)]
    for chip in machine.chips:
        phy = [chip.phy_id] if with_phy else []
        rows.append(_words(chip.npu_id, chip.chip_id, chip.logic_id, *phy, machine.kind.map_name))
        if machine.kind.name == "910B3" or (with_phy and chip.chip_id == 1):
            rows.append(_words(chip.npu_id, chip.chip_id + 1, "-", *(["-"] if with_phy else []), "Mcu"))
    return "".join("\t" + " ".join(f"{word:<30}" for word in row) + "\n" for row in rows)


def card_list(machine: Machine) -> str:
    """`npu-smi info -l`, which counts cards, not dies."""
    npu_ids = list(dict.fromkeys(chip.npu_id for chip in machine.chips))
    text = pairs(("Total Count", len(npu_ids)))
    for npu_id in npu_ids:
        text += "\n" + pairs(("NPU ID", npu_id), ("Chip Count", len(machine.of_npu(str(npu_id)))))
    return text


def health(machine: Machine, chip: Chip) -> str:
    """`npu-smi info -t health -i N -c C`."""
    code, said = ("NA", "NA") if chip.health == "OK" else ("80E01801", "HBM multi-bit ECC error")
    return pairs(("Health Status", chip.health), ("Error Code", code), ("Error Information", said))


def board(machine: Machine, chip: Chip) -> str:
    """`npu-smi info -t board -i N -c C`."""
    return pairs(
        ("NPU ID", chip.npu_id),
        ("Chip ID", chip.chip_id),
        ("Chip Type", "Ascend"),
        ("Chip Name", machine.kind.name),
        ("PCIe Bus Info", bus_id(chip)),
    )


def super_pod(machine: Machine, chip: Chip) -> str:
    """`npu-smi info -t spod-info -i N -c C`."""
    server = int(machine.options.get("server", "40"))
    return pairs(
        ("SDID", server << 22 | chip.npu_id << 18 | chip.chip_id << 16 | chip.phy_id),
        ("Super Pod Size", 384),
        ("Super Pod ID", machine.options.get("pod", "0")),
        ("Server Index", server),
    )


def topology(machine: Machine) -> str:
    """`npu-smi info -t topo`; on A3 without the affinity, as on ARM."""
    is_a3 = machine.kind.layout == "A3"
    names = [f"Phy-ID{chip.phy_id}" if is_a3 else f"NPU{chip.npu_id}" for chip in machine.chips]
    text = "\t   " + "".join(f"{name:<11}" for name in names) + ("" if is_a3 else "CPU Affinity") + "\n"
    for index, name in enumerate(names):
        cells = ["X" if index == other else "HCCS" for other in range(len(names))]
        near = "" if is_a3 else f"{24 * (index // 2)}-{24 * (index // 2) + 23}"
        text += f"{name:<11}" + "".join(f"{cell:<11}" for cell in cells) + near + "\n"
    return text + "\nLegend:\n\n  X    = Self\n  HCCS = Connection traversing HCCS.\n"


def pairs(*items: object) -> str:
    """Lines of the form `key : value`, with the TAB in front that pages tend to strip."""
    return "".join(f"\t{key:<30} : {value}\n" for key, value in items)  # type: ignore[misc]


def bus_id(chip: Chip) -> str:
    """A PCIe address of its own for each chip."""
    return f"0000:{0xC1 - 8 * chip.npu_id % 0xC0 + 2 * chip.chip_id:02X}:00.0"


def _words(*values: object) -> tuple:  # type: ignore[type-arg]
    return tuple(str(value) for value in values)


def _usage(used: int, total: int, width: int, used_width: int = 5) -> str:
    return f"{used:<{used_width}}/ {total:<{width}}"


def _rows_310(machine: Machine, chip: Chip) -> str:
    return (
        f"| {chip.npu_id:<7} {machine.kind.name:<9} | {chip.health:<15} | {12.8:<17} {46:<20} |\n"
        f"| {chip.chip_id:<7} {chip.logic_id:<9} | {bus_id(chip):<15} | {0:<17} {_usage(2621, 8192, 13)} |\n"
    )


def _rows_310p(machine: Machine, chip: Chip) -> str:
    return (
        f"| {chip.npu_id:<7} {machine.kind.name:<9} | {chip.health:<15} | {'NA':<12} {42:<17} {_usage(0, 0, 14)} |\n"
        f"| {chip.chip_id:<7} {chip.logic_id:<9} | {bus_id(chip):<15} | {0:<12} {_usage(1074, 21534, 32)} |\n"
    )


def _rows_hbm(machine: Machine, chip: Chip) -> str:
    second = str(chip.phy_id) if machine.kind.layout == "A3" else ""
    power = "-" if machine.kind.layout == "A3" and chip.chip_id else "93.7"
    memory = _usage(1809 if machine.kind.memory_total else 0, machine.kind.memory_total, 10)
    hbm = _usage(52675 if chip.pids else 3412, machine.kind.hbm_total, 13)
    return (
        f"| {chip.npu_id:<5} {machine.kind.name:<19} | {chip.health:<13} | {power:<11} {41:<17} {_usage(0, 0, 13)} |\n"
        f"| {chip.chip_id:<5} {second:<19} | {bus_id(chip):<13} | {0:<11} {memory} {hbm} |\n"
    )


def _rows_950(machine: Machine, chip: Chip) -> str:
    hbm = _usage(5413, machine.kind.hbm_total, 13, 6)
    return (
        f"| {chip.npu_id:<6} | {machine.kind.name:<16} | {chip.health:<13} "
        f"| {187.1:<11} {46:<17} {_usage(0, 0, 13, 6)} |\n"
        f"| {'':<6} | {'':<16} | {bus_id(chip):<13} | {0:<11} {_usage(0, 0, 10)} {hbm} |\n"
    )


_ROWS: Dict[str, Callable[[Machine, Chip], str]] = {
    "310": _rows_310,
    "310P": _rows_310p,
    "HBM": _rows_hbm,
    "A3": _rows_hbm,
    "950": _rows_950,
}


def _processes(machine: Machine, layout: Layout) -> str:
    border = _950_PROCESSES if machine.kind.layout == "950" else _WIDE
    double = border.replace("-", "=") + "\n"
    text = border + "\n" + layout.process_head + double
    for npu_id in dict.fromkeys(chip.npu_id for chip in machine.chips):
        rows: List[str] = []
        for chip in machine.of_npu(str(npu_id)):
            where = f"{npu_id:<25}" if machine.kind.layout == "950" else f"{npu_id:<7} {chip.chip_id:<17}"
            rows += [f"| {where} | {pid:<13} | {'python':<24} | {49385:<23} |\n" for pid in chip.pids]
        idle = f"No running processes found in NPU {npu_id}"
        text += "".join(rows) or f"| {idle:<{len(border) - 4}} |\n"
        text += double
    return text
