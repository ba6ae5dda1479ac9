"""Which cards are here and which of their ids is which: joins the device nodes with what npu-smi says.

The nodes say what exists: they are right in containers and when npu-smi fails. npu-smi says which NPU, chip,
logical and physical id belong together. Where the two disagree the nodes decide on existence, npu-smi on the ids.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Sequence, Tuple

from davincirun.devices import LocalDevice
from davincirun.devices.smi_map import IdMap, MapRow
from davincirun.devices.smi_table import InfoChip, InfoTable
from davincirun.values import Value

_HIGHEST_SLOT = 63  # an NPU id above is a PCIe address, not a slot, and no physical id either


class Identified(Value):
    """The devices without their addresses, and what was odd."""

    devices: Tuple[LocalDevice, ...]
    notes: Tuple[str, ...]
    generation: str
    bus_ids: Dict[int, str]  # by physical id, where the table has them


def identify(nodes: Sequence[int], id_map: Optional[IdMap], table: Optional[InfoTable]) -> Identified:
    """The devices by logical id. `nodes` are the physical ids of /dev/davinciN, empty where there are none."""
    rows = _in_logical_order(id_map.rows if id_map and id_map.rows else _rows_of(table))
    by_device_id = _by_device_id(rows, nodes)
    notes = _disagreements(nodes, rows, by_device_id) if nodes and rows else []
    device_ids = list(nodes) or sorted(by_device_id, key=lambda device_id: rows.index(by_device_id[device_id]))
    source = "npu-smi info -m" if id_map and id_map.rows else "npu-smi info"
    logical_ids = _logical_ids(device_ids, by_device_id)
    devices = [
        _device(logical_ids[device_id], device_id, by_device_id.get(device_id), table, bool(nodes), source)
        for device_id in device_ids
    ]
    devices.sort()
    if [device.logical_id for device in devices] != list(range(len(devices))):
        notes.append(f"the logical ids are {_listed(d.logical_id for d in devices)}, not 0 to {len(devices) - 1}")
    notes += _ill(devices) + _busy(devices)
    bus_ids = {device_id: _bus_id(row, table) for device_id, row in by_device_id.items()}
    return Identified(
        tuple(devices),
        tuple(notes),
        generation([device.name for device in devices]),
        {device_id: bus_id for device_id, bus_id in bus_ids.items() if bus_id},
    )


def generation(names: Sequence[Optional[str]]) -> str:
    """310 310P 310B 910 910B A3 950, by the chips' names; `unknown` for none, new or mixed names.

    `910B` alone is the first generation with 32 GB (a 910ProB); Atlas A2 has a digit behind: 910B3.
    """
    generations = {_generation_of(name) for name in names if name}
    return generations.pop() if len(generations) == 1 else "unknown"


def _generation_of(name: str) -> str:
    for prefix, found in (
        ("310P", "310P"),
        ("310B", "310B"),
        ("310", "310"),
        ("MiniD", "310"),
        ("Ascend910_93", "A3"),
        ("910_93", "A3"),
        ("Ascend950", "950"),
        ("950", "950"),
    ):
        if name.startswith(prefix):
            return found
    if name == "Ascend910":
        return "A3"
    bare = name[len("Ascend") :] if name.startswith("Ascend") else name
    if bare.startswith("910B") and bare[4:5].isdigit():
        return "910B"
    return "910" if bare.startswith("910") else "unknown"


def _rows_of(table: Optional[InfoTable]) -> Tuple[MapRow, ...]:
    """The map as far as the table of `npu-smi info` has it, for when `-m` failed."""
    chips = table.chips if table else ()
    return tuple(
        MapRow(chip.npu_id, chip.chip_id, _logic_id(chip), chip.phy_id, name=chip.name)
        for chip in chips
        if chip.npu_id is not None
    )


def _logic_id(chip: InfoChip) -> Optional[int]:
    """The logical id where the table has it: for the 950 the NPU id is that."""
    return chip.npu_id if _generation_of(chip.name or "") == "950" else chip.logic_id


def _in_logical_order(rows: Sequence[MapRow]) -> List[MapRow]:
    """As the runtime counts: by the logical ids where all are known, else by card and chip."""
    if all(row.logic_id is not None for row in rows):
        return sorted(rows, key=lambda row: row.logic_id or 0)
    return sorted(rows, key=lambda row: (row.npu_id, row.chip_id or 0))


def _by_device_id(rows: Sequence[MapRow], nodes: Sequence[int]) -> Dict[int, MapRow]:
    """The rows by physical id: the printed one, else the node's number, else the slot. May lack rows."""
    printed = {row.phy_id: row for row in rows if row.phy_id is not None}
    if len(printed) == len(rows) and (not nodes or set(printed) & set(nodes)):
        return printed
    slots = {row.npu_id: row for row in rows}
    one_chip_each = len(slots) == len(rows)
    if nodes and one_chip_each and (set(slots) <= set(nodes) or set(nodes) <= set(slots)):
        return slots
    if len(nodes) == len(rows):  # the k-th node is the k-th device of the runtime
        return dict(zip(nodes, rows))
    if not nodes and one_chip_each and all(slot <= _HIGHEST_SLOT for slot in slots):
        return slots
    return {row.logic_id if row.logic_id is not None else index: row for index, row in enumerate(rows)}


def _disagreements(nodes: Sequence[int], rows: Sequence[MapRow], by_device_id: Dict[int, MapRow]) -> List[str]:
    notes = []
    unlisted = [node for node in nodes if node not in by_device_id]
    absent = sorted(set(by_device_id) - set(nodes))
    if unlisted:
        notes.append(
            f"npu-smi does not list the card of {_listed(f'/dev/davinci{node}' for node in unlisted)}: "
            f"it has {len(rows)} of {len(nodes)}; the card may be lost (see `npu-smi info` and `dmesg`)"
        )
    if absent:
        cards = _listed(f"NPU {by_device_id[device_id].npu_id}" for device_id in absent)
        missing = _listed(f"/dev/davinci{device_id}" for device_id in absent)
        notes.append(f"npu-smi lists {cards}, which can't be used here: there is no {missing}")
    return notes


def _logical_ids(device_ids: Sequence[int], by_device_id: Dict[int, MapRow]) -> Dict[int, int]:
    """What the runtime calls each device: npu-smi's word, else the position, else the next number not taken."""
    told = {i: by_device_id[i].logic_id for i in device_ids if i in by_device_id}
    known = {device_id: logic_id for device_id, logic_id in told.items() if logic_id is not None}
    if len(set(known.values())) != len(known):
        known = {}
    free = (number for number in range(len(device_ids) + len(known)) if number not in known.values())
    return {device_id: known[device_id] if device_id in known else next(free) for device_id in device_ids}


def _device(
    logical_id: int, device_id: int, row: Optional[MapRow], table: Optional[InfoTable], has_node: bool, source: str
) -> LocalDevice:
    sources = [f"/dev/davinci{device_id}"] if has_node else []
    if row is None:
        return LocalDevice(logical_id, device_id, source=", ".join(sources))
    sources.append(source)
    chip = _chip_of(row, table)
    if chip and source != "npu-smi info":
        sources.append("npu-smi info")
    return LocalDevice(
        logical_id=logical_id,
        device_id=device_id,
        npu_id=row.npu_id,
        chip_id=row.chip_id,
        name=(chip and chip.name) or row.name,
        health=chip.health if chip else None,
        pids=_pids(row, table),
        source=", ".join(sources),
    )


def _chip_of(row: MapRow, table: Optional[InfoTable]) -> Optional[InfoChip]:
    for chip in table.chips if table else ():
        if chip.npu_id == row.npu_id and chip.chip_id in (row.chip_id, None):
            return chip
    return None


def _bus_id(row: MapRow, table: Optional[InfoTable]) -> Optional[str]:
    chip = _chip_of(row, table)
    return chip.bus_id if chip else None


def _ill(devices: Sequence[LocalDevice]) -> List[str]:
    return [
        f"device {device.device_id} reports {device.health}: `npu-smi info -t health -i {device.npu_id}"
        f"{'' if device.chip_id is None else f' -c {device.chip_id}'}` says why"
        for device in devices
        if device.health not in (None, "OK")
    ]


def _busy(devices: Sequence[LocalDevice]) -> List[str]:
    return [f"device {device.device_id} is in use by pid {_listed(device.pids)}" for device in devices if device.pids]


def _pids(row: MapRow, table: Optional[InfoTable]) -> Tuple[int, ...]:
    """Each process on the chip once, by the number that counts where we are: a container's own if it's printed."""
    pids: Dict[int, None] = {}
    for process in table.processes if table else ():
        if process.npu_id == row.npu_id and process.chip_id in (row.chip_id, None):
            pids[process.pid if process.container_pid is None else process.container_pid] = None
    return tuple(pids)


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
