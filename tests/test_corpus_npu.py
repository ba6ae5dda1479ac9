"""Every text in tests/data/npu is read as what its README says it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from davincirun.devices import devnodes, hccn_network, selection, smi_records
from davincirun.devices.driver_files import read_install_info, read_version_info
from davincirun.devices.hccn_950 import read_card_info
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.hccn_tool import read_addresses
from davincirun.devices.pci import read_lspci
from davincirun.devices.reading import ReaderError
from davincirun.devices.smi_chips import read_chip_processes, read_chip_records
from davincirun.devices.smi_failure import read_failure
from davincirun.devices.smi_map import read_map
from davincirun.devices.smi_table import InfoTable, Usage, read_info
from davincirun.devices.smi_topology import device_number, read_topology
from davincirun.devices.smi_vnpu import read_templates, read_vnpus
from davincirun.errors import DeviceError

DATA = Path(__file__).parent / "data" / "npu"


def text_of(number: str) -> str:
    [path] = DATA.glob(f"{number}-*.txt")
    return path.read_text(encoding="utf-8")


def ids(first: int, last: int) -> List[int]:
    return list(range(first, last + 1))


INFO: Dict[str, Dict[str, Any]] = {  # number: what the columns say, top to bottom; one value stands for all rows
    "001": {
        "npu_id": [npu for npu in ids(2048, 2052) for _ in range(4)],
        "chip_id": ids(0, 3) * 5,
        "logic_id": ids(0, 19),
        "phy_id": None,
        "name": "310",
        "health": "OK",
        "memory": Usage(2621, 8192),
        "hbm": None,
        "hugepages": None,
    },
    "003": {"npu_id": [1, 4], "chip_id": 0, "name": "910A", "health": "OK", "hbm": Usage(0, 32768), "hugepages": None},
    "007": {"npu_id": [0], "chip_id": 0, "logic_id": 0, "name": "310P3", "health": "OK", "versions": "22.0.0/22.0.2"},
    "008": {"npu_id": [2144], "chip_id": 0, "logic_id": 0, "name": "310P3", "power_watts": None, "health": "OK"},
    "009": {"npu_id": [0], "hugepages": Usage(1236, 1236), "memory": Usage(4060, 21534)},
    "010": {"npu_id": [0, 1], "chip_id": 0, "logic_id": [0, 1], "name": "310P3", "versions": "None/None"},
    "011": {"npu_id": [0], "versions": "22.0.0/22.0.2"},
    "012": {"npu_id": [0, 1], "name": "910A", "memory": [Usage(950, 15137), Usage(1613, 15137)]},
    "015": {"npu_id": 2, "chip_id": [0, 1], "logic_id": [0, 1], "name": "310P3", "power_watts": None},
    "017": {"npu_id": [0], "chip_id": 0, "logic_id": 0, "name": "310B", "health": "OK", "bus_id": None},
    "018": {"npu_id": [0], "chip_id": 0, "logic_id": 0, "name": "310B1", "power_watts": 10.7},
    "019": {"npu_id": [0], "name": "310B4", "health": "Alarm"},
    "021": {"npu_id": ids(0, 7), "chip_id": 0, "name": "910B3", "health": "OK", "logic_id": None, "phy_id": None},
    "022": {"npu_id": [0, 3, 4, 7], "chip_id": 0, "name": "910B4", "idle": [0, 3, 4, 7]},
    "023": {"npu_id": [5], "chip_id": 0, "idle": [5]},
    "024": {
        "npu_id": ids(12, 15),
        "chip_id": 0,
        "name": "910B2C",
        "hbm": [Usage(used, 65536) for used in (52675, 52665, 52667, 52665)],
        "processes": {(12, 0): [70011], (13, 0): [70012], (14, 0): [70013], (15, 0): [70014]},
    },
    "025": {"npu_id": [2], "chip_id": 0, "name": "910B2C", "bus_id": "0000:52:00.0"},
    "026": {"npu_id": [0], "chip_id": 0, "name": "910B2C"},
    "027": {"npu_id": [0, 5], "utilization_percent": [0, 12], "processes": {(5, 0): [70021]}},
    "029": {"npu_id": [0, 1], "name": "910B4", "hbm": [Usage(26838, 32768), Usage(29356, 32768)]},
    "030": {"npu_id": ids(0, 3), "utilization_percent": [27, 29, 29, 29], "temperature_celsius": [41, 40, 41, 39]},
    "032": {"npu_id": 0, "chip_id": [0, 1], "phy_id": [0, 1], "logic_id": None, "power_watts": [178.9, None]},
    "034": {"npu_id": [0], "chip_id": 0, "name": "910B4", "idle": [0], "processes": {}},
    "035": {"npu_id": [0, 0, 1], "chip_id": [0, 1, 0], "phy_id": [0, 1, 2], "health": ["OK", "Warning", "OK"]},
    "036": {
        "npu_id": ids(0, 6),
        "chip_id": None,
        "name": "Ascend950PR",
        "health": "OK",
        "hbm": [Usage(used, 131072) for used in (6620, 6056, 5413, 5414, 5415, 10569, 5411)],
        "processes": {(0, None): [846701], (1, None): [2430301]},
        "idle": [2],
    },
    "038": {"npu_id": [0, 3], "health": ["Alarm", "OK"], "processes": {(0, None): [123]}, "idle": [3]},
    "040": {"npu_id": [0], "name": "xxx", "health": "OK", "idle": [0], "versions": "x.x.x/x.x.x"},
    "041": {
        "npu_id": [0, 1],
        "health": "OK",
        "processes": {(0, 0): [1200001]},
        "container_pids": [400001],
        "idle": [1],
    },
    "042": {"npu_id": [0, 1], "processes": {(0, 0): [3100002, 3100003, 3100001], (1, 0): [3100002]}},
    "044": {"npu_id": [0, 1, 2], "name": "910ProB", "health": "OK", "hbm": [Usage(n, 32768) for n in (18, 8, 5)]},
    "045": {
        "npu_id": 7,
        "chip_id": [0, 1],
        "phy_id": [14, 15],
        "processes": {(0, 0): [600001]},
        "container_pids": [None],
    },
    "047": {"npu_id": [7], "chip_id": 1, "phy_id": 15, "processes": {(0, 0): [600002]}, "idle": [1]},
}


@pytest.mark.parametrize("number", INFO)
def test_corpus_info_table_is_read_as_printed(number: str) -> None:
    table = read_info(text_of(number))
    expected = dict(INFO[number])
    assert table.problems == ()
    for column in set(expected) - {"versions", "processes", "container_pids", "idle"}:
        found = [getattr(chip, column) for chip in table.chips]
        wanted = expected[column]
        assert found == (wanted if isinstance(wanted, list) else [wanted] * len(found)), column
    assert _processes(table) == expected.get("processes", {})
    for key, found in (
        ("versions", f"{table.tool_version}/{table.driver_version}"),
        ("container_pids", [process.container_pid for process in table.processes]),
        ("idle", list(table.idle_npu_ids)),
    ):
        assert found == expected.get(key, found)


def _processes(table: InfoTable) -> Dict[Tuple[int, Optional[int]], List[int]]:
    found: Dict[Tuple[int, Optional[int]], List[int]] = {}
    for process in table.processes:
        found.setdefault((process.npu_id, process.chip_id), []).append(process.pid)
    return found


MAPS = {  # number: (npu, chip, logic, phy, name) of each row
    "100": [(n, 0, n, None, "910A") for n in range(8)],
    "102": [(3, 0, 0, None, "910B3"), (4, 0, 1, None, "910B3")],
    "103": [(4, 0, 0, None, "<soc_version>")],
    "104": [(0, 0, 4, None, "910B1"), (1, 0, 7, None, "910B1")],
    "106": [(0, 0, 0, 0, "xxx")],
}


@pytest.mark.parametrize("number", MAPS)
def test_corpus_id_map_goes_by_its_heads(number: str) -> None:
    id_map = read_map(text_of(number))
    assert [(r.npu_id, r.chip_id, r.logic_id, r.phy_id, r.name) for r in id_map.rows] == MAPS[number]
    assert id_map.problems == ()


def _list(text: str) -> Tuple[Optional[int], List[Tuple[Any, ...]]]:
    cards = smi_records.read_list(text)
    return cards.total_count, [card[:3] for card in cards.cards]


def _board(text: str) -> Tuple[Any, ...]:
    b = smi_records.read_board(text)
    return b.npu_id, b.chip_id, b.chip_name, b.slot_id, b.chip_count, b.software_version, b.pci_id, b.bus_id


def _health(text: str) -> Tuple[Any, ...]:
    health = smi_records.read_health(text)
    return health.status, health.codes, len(health.information)


def _chips(text: str, *keys: str) -> Tuple[Any, ...]:
    records = read_chip_records(text)
    return records.npu_id, [(chip.chip_id, *(chip.number(key) for key in keys)) for chip in records.chips]


def _chip_processes(text: str) -> Tuple[Any, ...]:
    answer = read_chip_processes(text)
    return answer.chip_ids, [tuple(process) for process in answer.processes]


def _topology(text: str) -> Tuple[Any, ...]:
    topology = read_topology(text)
    affinity = [topology.cpu_affinity[name] for name in topology.names]
    return [device_number(name) for name in topology.names], affinity, topology.links["NPU0"]["NPU1"]


def _vnpus(text: str) -> Tuple[Any, ...]:
    vnpus = read_vnpus(text)
    return vnpus.total, [(vnpu.vnpu_id, vnpu.template) for vnpu in vnpus.vnpus]


def _card_info(text: str) -> Tuple[Any, ...]:
    info = read_card_info(text)
    [link] = {port.link for port in info.ports}
    names = [interface.name for interface in info.interfaces]
    return [port.port_id for port in info.ports], link, names, info.fabric_addresses[0], len(info.eids)


def _conf(text: str) -> Dict[int, Optional[str]]:
    return {number: card.address for number, card in read_hccn_conf(text).cards.items()}


READINGS: Dict[str, Tuple[Callable[[str], Any], Any]] = {  # number: how to read it, what comes out
    "121": (_list, (1, [(8, 1, "IT21PDDA01")])),
    "122": (_list, (8, [(0, 2, None)])),
    "123": (_list, (2, [(0, None, "A310-50-C00MM304A1"), (3, None, "A310-50-C00MM304A1")])),
    "130": (_board, (0, None, None, 0, 1, "23.0.5", "19E5:D801", "0000:61:00.0")),
    "131": (_board, (0, 0, "910A", None, None, None, None, "0000:61:00.0")),
    "132": (_board, (0, None, "Ascend950PR", None, 1, "25.7.rc1.6", "19E5:D806", "0000:61:00.0")),
    "140": (_health, ("OK", (), 0)),
    "141": (_health, ("Alarm", ("A4025021", "8C03A000", "8C084E00"), 3)),
    "142": (_health, ("OK", (), 0)),
    "145": (lambda t: _chips(t, "HBM Capacity(MB)", "Aicore Usage Rate(%)"), (0, [(0, 31129, 0)])),
    "146": (lambda t: _chips(t, "HBM Capacity(MB)", "HBM Usage Rate(%)"), (0, [(0, 65536, 4)])),
    "147": (lambda t: _chips(t, "Temperature(C)", "NPU Real-time Power(W)"), (1, [(0, 46, 93.4)])),
    "148": (lambda t: _chips(t, "HBM Capacity(MB)", "HBM Temperature(C)"), (None, [(None, 65536, 52)])),
    "149": (_chip_processes, ((0, 1), [(1, 3229001, "", 48208)])),
    "150": (_chip_processes, ((), [(None, 207701, "VLLMEngineCor", 55436)])),
    "155": (
        _topology,
        (ids(0, 7), ["144-167"] * 2 + ["96-119"] * 2 + ["0-23"] * 2 + ["48-71"] * 2, "HCCS"),
    ),
    "158": (_topology, (ids(0, 7), ["0-63,128-191"] * 4 + ["64-127,192-255"] * 4, "UB")),
    "165": (lambda t: smi_records.read_super_pod(t)[:4], ("167772160", "0", 384, 40)),
    "166": (lambda t: smi_records.read_super_pod(t)[:4], (str(40 << 22 | 5 << 18 | 1 << 16 | 11), "0", 384, 40)),
    "170": (smi_records.read_physical_id, (0, 0, 0, 0, None, ())),
    "172": (smi_records.read_version, "x.x.x"),
    "173": (_vnpus, (2, [(212, "vir10_3c_32g"), (213, "vir10_3c_32g")])),
    "174": (_vnpus, (3, [(100, "vir01"), (101, "vir02"), (102, "vir04")])),
    "175": (
        lambda t: [template.name for template in read_templates(t).templates],
        ["vir01", "vir02", "vir02_1c", "vir04", "vir04_3c", "vir04_3c_ndvpp", "vir04_4c_dvpp"],
    ),
    "200": (
        lambda t: [nic.address for nic in read_addresses(t).addresses],
        [
            *("10.1.45.172", "10.2.167.33", "10.3.103.252", "10.4.166.202"),
            *("10.1.157.81", "10.2.8.198", "10.3.26.213", "10.4.32.120"),
        ],
    ),
    "201": (read_addresses, ((("192.168.200.10", "255.255.255.0"),), ())),
    "203": (lambda t: (read_addresses(t).addresses, hccn_network.read_failure(t).is_unset), ((), True)),
    "204": (read_addresses, ((("fd00::1", "64"),), ())),
    "205": (hccn_network.read_link, "UP"),
    "206": (hccn_network.read_link, "DOWN"),
    "208": (hccn_network.read_net_health, "Init"),
    "209": (hccn_network.read_net_health, "Fault"),
    "211": (hccn_network.read_net_detect, "10.12.165.1"),
    "212": (hccn_network.read_net_detect, "10.12.165.1"),
    "213": (hccn_network.read_gateway, ("10.12.165.1", "eth0")),
    "214": (lambda t: hccn_network.read_failure(t).is_unset, True),
    "216": (hccn_network.read_neighbour, (("400GE1/1/20:2",), "10.26.0.1")),
    "217": (
        hccn_network.read_neighbour,
        (tuple(f"400GE1/{slot}/5:{port}" for slot in ids(1, 4) for port in (1, 2)), None),
    ),
    "218": (hccn_network.read_ping, (3, 3)),
    "219": (hccn_network.read_ping, (2, 2)),
    "220": (lambda t: (hccn_network.read_link(t), read_addresses(t).addresses[0].address), ("UP", "192.168.2.199")),
    "223": (hccn_network.read_speed, 100000),
    "224": (hccn_network.read_link_history, (2, ("UP", "DOWN", "UP"))),
    "225": (lambda t: [hccn_network.read_optical(t)[k] for k in ("present", "Rx Los Flag")], ["not present", "0xff"]),
    "226": (hccn_network.read_fec, "rs"),
    "228": (hccn_network.read_failure, ("Command execute failed!", False)),
    "229": (lambda t: hccn_network.read_failure(t).is_unset, False),
    "232": (_card_info, ([4, 5, 6], "UP", ["end0v0", "ipourma0"], "::10:0:dfdf:51", 4)),
    "250": (_conf, {n: f"192.168.{(n % 4 + 1) * 10}.{11 + n // 4}" for n in range(8)}),
    "251": (_conf, {0: "10.29.137.205", 7: "10.29.170.143"}),
    "252": (_conf, {n: f"192.168.{(n + 1) * 10}.22" for n in range(4)}),
    "253": (_conf, {0: "10.1.1.0", 1: "10.1.1.1"}),
    "260": (lambda t: read_version_info(t).version, "23.0.7"),
    "261": (lambda t: read_version_info(t).version, "7.1.0.11.220"),
    "262": (
        lambda t: read_version_info(t)[:3],
        ("7.0.T10", "Ascend-cann-toolkit", "/usr/local/Ascend/ascend-toolkit/7.0.T10/aarch64-linux"),
    ),
    "263": (read_install_info, ("/usr/local/Ascend", True, "HwHiAiUser", ())),
    "270": (devnodes.read_listing, tuple(range(8))),
    "271": (devnodes.read_listing, (1, 2, 3, 4)),
    "272": (devnodes.read_listing, (0,)),
    "275": (lambda t: [card.generation for card in read_lspci(t)], ["910"] * 8),
    "276": (
        lambda t: [card.bus_id for card in read_lspci(t)],
        ["3d:00.0", "3e:00.0", "60:00.0", "b1:00.0", "b2:00.0", "da:00.0", "db:00.0"],
    ),
}


@pytest.mark.parametrize("number", READINGS)
def test_corpus_answer_is_read_as_printed(number: str) -> None:
    read, expected = READINGS[number]
    assert read(text_of(number)) == expected


FAILURES = {  # number: the codes, a part of the explanation
    "180": ((-8005,), "HwHiAiUser"),
    "182": ((-8020,), "another container"),
    "183": ((-8020, -9005), "another container"),
    "184": ((-9005,), "docker's Ascend runtime"),
    "185": ((), "lib64/driver"),
    "186": ((), "lib64/common"),
    "187": ((), "lost"),
    "188": ((), "doesn't know the query"),
    "189": ((), "not on PATH"),
    "190": ((-8020, -9005), "another container"),
}


@pytest.mark.parametrize("number", FAILURES)
def test_corpus_failure_is_explained_and_never_taken_for_cards(number: str) -> None:
    failure = read_failure(text_of(number))
    assert failure is not None
    codes, meaning = FAILURES[number]
    assert failure.codes == codes
    assert meaning in failure.meaning
    with pytest.raises(ReaderError):
        read_info(text_of(number))
    with pytest.raises(ReaderError):
        read_map(text_of(number))


def test_corpus_endless_watch_is_no_table_of_cards() -> None:
    with pytest.raises(ReaderError, match="line 1"):
        read_info(text_of("171"))


def test_corpus_warning_below_a_table_changes_nothing() -> None:
    assert read_info(text_of("021") + text_of("179")) == read_info(text_of("021"))
    assert read_map(text_of("100") + text_of("179")) == read_map(text_of("100"))


def test_corpus_physical_ids_in_the_variable_of_the_runtime_are_refused() -> None:
    assert "data rang[0-4)" in text_of("195")
    with pytest.raises(DeviceError, match="4 is out of range: there are 4 devices") as caught:
        selection.parse_visible_devices("0,3,4,7", 4)
    assert "silently use 0,3 alone" in str(caught.value)


def test_corpus_kernel_log_is_no_failure_of_npu_smi() -> None:
    assert read_failure(text_of("196")) is None


CONTAINER_FORMS = [[0], [1, 3], [0, 1, 2], [0, 1, 2, 4], [1], [1, 3], [0], [], [], [100]]


@pytest.mark.parametrize(("index", "expected"), list(enumerate(CONTAINER_FORMS)))
def test_corpus_container_variable_has_physical_ids(index: int, expected: List[int]) -> None:
    value = text_of("280").splitlines()[index].partition("=")[2]
    assert list(selection.parse_container_devices(value)) == expected


RUNTIME_FORMS = [(1,), (1, 2, 3), "silently use 1 alone", "silently use 1,3 alone"]


@pytest.mark.parametrize(("index", "expected"), list(enumerate(RUNTIME_FORMS)))
def test_corpus_runtime_variable_is_taken_strictly(index: int, expected: Any) -> None:
    value = text_of("281").splitlines()[index].partition("=")[2]
    if isinstance(expected, tuple):
        assert selection.parse_visible_devices(value, 8) == expected
    else:
        with pytest.raises(DeviceError, match=expected):
            selection.parse_visible_devices(value, 8)


def test_corpus_ids_that_a_log_sorted_as_text_come_in_numeric_order() -> None:
    words = text_of("290").splitlines()[0].split("[")[1].strip("]").replace("'", "").split(", ")
    assert words[:3] == ["0", "1", "10"]
    assert devnodes.device_ids(f"davinci{word}" for word in words) == tuple(range(16))


def test_corpus_has_an_expectation_for_every_text() -> None:
    others = {"171", "179", "195", "196", "280", "281", "290"}
    expected = {*INFO, *MAPS, *READINGS, *FAILURES, *others}
    assert {path.name[:3] for path in DATA.glob("*.txt")} == expected
