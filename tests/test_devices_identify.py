"""Which id is which: device nodes, the map and the table joined."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import pytest

from davincirun.devices.addresses import Told, with_addresses
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.identify import Identified, generation, identify
from davincirun.devices.smi_map import IdMap, MapRow
from davincirun.devices.smi_table import InfoChip, InfoTable


def rows(*ids: Tuple[int, int, Optional[int], Optional[int]], name: str = "910B3") -> IdMap:
    return IdMap(tuple(MapRow(npu, chip, logic, phy, name=name) for npu, chip, logic, phy in ids))


def pairs(identified: Identified) -> List[Tuple[int, int]]:
    return [(device.logical_id, device.device_id) for device in identified.devices]


@pytest.mark.parametrize(
    ("what", "nodes", "id_map", "expected"),
    [
        ("nodes alone", (0, 3, 4, 7), None, [(0, 0), (1, 3), (2, 4), (3, 7)]),
        ("npu id is the node", (3, 4), rows((3, 0, 0, None), (4, 0, 1, None)), [(0, 3), (1, 4)]),
        ("printed physical ids", (4, 5), rows((2, 0, 0, 4), (2, 1, 1, 5)), [(0, 4), (1, 5)]),
        ("slots beyond the nodes", (0, 1), rows((2048, 0, 0, None), (2049, 0, 1, None)), [(0, 0), (1, 1)]),
        ("two chips on one card", (0, 1), rows((2, 0, 0, None), (2, 1, 1, None)), [(0, 0), (1, 1)]),
        ("logical order is not slot order", (0, 1), rows((1, 0, 0, None), (0, 0, 1, None)), [(0, 1), (1, 0)]),
        ("a card without a node", (0,), rows((0, 0, 0, None), (1, 0, 1, None)), [(0, 0)]),
        ("a node without a card", (0, 1, 2), rows((0, 0, 0, None), (2, 0, 1, None)), [(0, 0), (1, 2), (2, 1)]),
        ("no nodes, slots", (), rows((3, 0, 0, None), (5, 0, 1, None)), [(0, 3), (1, 5)]),
        ("no nodes, PCIe", (), rows((2144, 0, 0, None)), [(0, 0)]),
        ("virtual", (100,), rows((7, 0, 0, 7)), [(0, 100)]),
    ],
)
def test_physical_ids_come_from_print_then_node_then_slot(
    what: str, nodes: Sequence[int], id_map: Optional[IdMap], expected: List[Tuple[int, int]]
) -> None:
    assert pairs(identify(nodes, id_map, None)) == expected, what


def test_logical_ids_that_do_not_count_from_zero_are_kept_and_noted() -> None:
    identified = identify((0, 1), rows((0, 0, 4, None), (1, 0, 7, None)), None)
    assert pairs(identified) == [(4, 0), (7, 1)]
    assert identified.notes == ("the logical ids are 4, 7, not 0 to 1",)


def test_a_chip_whose_name_row_was_dropped_keeps_the_name_of_the_map() -> None:
    table = InfoTable((InfoChip(npu_id=None, chip_id=0, bus_id="0000:01:00.0"),))
    [device] = identify((), rows((0, 0, 0, None)), table).devices
    assert (device.name, device.health) == ("910B3", None)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["910B3"], "910B"),
        (["910B2C"], "910B"),
        (["910B4-1"], "910B"),
        (["Ascend910B1"], "910B"),
        (["910B"], "910"),
        (["910ProB"], "910"),
        (["910A"], "910"),
        (["Ascend910"], "A3"),
        (["310"], "310"),
        (["MiniD"], "310"),
        (["310P3"], "310P"),
        (["310Pvir04"], "310P"),
        (["310B4"], "310B"),
        (["Ascend950PR"], "950"),
        (["Ascend950DT"], "950"),
        (["xxx"], "unknown"),
        ([None], "unknown"),
        (["910B3", "310P3"], "unknown"),
    ],
)
def test_the_generation_goes_by_the_name(names: List[Optional[str]], expected: str) -> None:
    assert generation(names) == expected


def test_devices_without_an_address_are_noted_once_for_each_reason() -> None:
    devices = identify(range(4), None, None).devices
    told = {
        0: Told(("10.1.1.1",)),
        1: Told(reason="none is set"),
        2: Told(reason="none is set"),
        3: Told(reason="hung"),
    }
    addressed = with_addresses(devices, told, read_hccn_conf("address_3=10.1.1.3"))
    assert [device.device_ip for device in addressed.devices] == ["10.1.1.1", None, None, "10.1.1.3"]
    [note] = addressed.notes
    assert note.startswith("devices 1, 2 have no address, which a job on several machines needs: none is set;")
