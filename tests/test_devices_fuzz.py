"""Whatever a tool prints, a reader gives a value or its own error, and takes linear time over it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, Set

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from davincirun.devices import devnodes, hccn_network, nvidia_smi, pci, smi_records
from davincirun.devices.driver_files import read_install_info, read_version_info
from davincirun.devices.hccn_950 import read_card_info
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.hccn_tool import read_addresses
from davincirun.devices.identify import identify
from davincirun.devices.reading import ReaderError
from davincirun.devices.selection import parse_container_devices, parse_devices_option, parse_visible_devices
from davincirun.devices.simulated import simulate
from davincirun.devices.smi_chips import read_chip_processes, read_chip_records
from davincirun.devices.smi_failure import read_failure
from davincirun.devices.smi_map import read_map
from davincirun.devices.smi_table import read_info
from davincirun.devices.smi_topology import read_topology
from davincirun.devices.smi_vnpu import read_templates, read_vnpus
from davincirun.errors import DavincirunError, DeviceError, UsageError

DATA = Path(__file__).parent / "data" / "npu"
READERS: Dict[str, Callable[[str], Any]] = {
    "info": read_info,
    "map": read_map,
    "list": smi_records.read_list,
    "board": smi_records.read_board,
    "health": smi_records.read_health,
    "super pod": smi_records.read_super_pod,
    "physical id": smi_records.read_physical_id,
    "version": smi_records.read_version,
    "chip records": read_chip_records,
    "chip processes": read_chip_processes,
    "topology": read_topology,
    "vnpus": read_vnpus,
    "templates": read_templates,
    "npu-smi failure": read_failure,
    "addresses": read_addresses,
    "950 card": read_card_info,
    "link": hccn_network.read_link,
    "net health": hccn_network.read_net_health,
    "net detect": hccn_network.read_net_detect,
    "gateway": hccn_network.read_gateway,
    "tls": hccn_network.read_tls,
    "neighbour": hccn_network.read_neighbour,
    "ping": hccn_network.read_ping,
    "speed": hccn_network.read_speed,
    "fec": hccn_network.read_fec,
    "link history": hccn_network.read_link_history,
    "optical": hccn_network.read_optical,
    "hccn_tool failure": hccn_network.read_failure,
    "hccn.conf": read_hccn_conf,
    "version.info": read_version_info,
    "install.info": read_install_info,
    "nodes": devnodes.read_listing,
    "lspci": pci.read_lspci,
    "gpu list": nvidia_smi.read_gpu_list,
    "gpu csv": nvidia_smi.read_csv,
}
TEXTS = sorted(path.read_text(encoding="utf-8") for path in DATA.glob("*.txt"))
LINES = sorted({line for text in TEXTS for line in text.splitlines()})
WORDS = sorted({word for line in LINES for word in line.split()})

odd_line = st.one_of(
    st.sampled_from(LINES),
    st.lists(st.sampled_from([*WORDS, "|", " ", "\t", ":", "=", "²", "9" * 30, "\x00"]), max_size=12).map(" ".join),
    st.lists(st.sampled_from(WORDS), max_size=6).map(lambda words: "| " + " | ".join(words) + " |"),
    st.text(max_size=40),
)
odd_text = st.one_of(st.text(), st.lists(odd_line, max_size=30).map("\n".join))


@st.composite
def damaged_text(draw: st.DrawFn) -> str:
    """A real answer with a piece cut out and something put in its place."""
    text = draw(st.sampled_from(TEXTS))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 80)))
    return text[:start] + draw(st.one_of(st.just(""), odd_line)) + text[end:]


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("name", READERS)
@given(text=st.one_of(odd_text, damaged_text()))
def test_a_reader_raises_nothing_but_its_own_error(name: str, text: str) -> None:
    try:
        READERS[name](text)
    except ReaderError as error:
        assert len(str(error)) < 600


@settings(max_examples=100)
@given(
    nodes=st.sets(st.integers(0, 20), max_size=10),
    map_text=st.one_of(st.sampled_from([text for text in TEXTS if "Chip Name" in text]), damaged_text()),
    info_text=st.one_of(st.sampled_from([text for text in TEXTS if "Health" in text]), damaged_text()),
)
def test_identification_keeps_every_node_and_every_id_once(nodes: Set[int], map_text: str, info_text: str) -> None:
    id_map, table = _try(read_map, map_text), _try(read_info, info_text)
    devices = identify(sorted(nodes), id_map, table).devices
    assert not nodes or sorted(device.device_id for device in devices) == sorted(nodes)
    assert len({device.logical_id for device in devices}) == len(devices)
    assert len({device.device_id for device in devices}) == len(devices)


@settings(max_examples=200)
@given(text=st.text(st.sampled_from("0123456789,- a:²voidnpu3"), max_size=12))
def test_a_choice_of_devices_is_understood_or_refused(text: str) -> None:
    for parse, error in (
        (parse_devices_option, UsageError),
        (simulate, UsageError),
        (lambda value: parse_visible_devices(value, 8), DeviceError),
        (parse_container_devices, DeviceError),
    ):
        try:
            parse(text)
        except DavincirunError as raised:
            assert isinstance(raised, error)


HOSTILE = [
    "| 0 310 | OK | 1 / 1 |\n",
    "Chip ID : 0\nx : 1\n",
    "1 ",
    "|",
    " ",
    ":",
    "GPU 0: x (UUID: y)\nMIG a Device 0: (UUID: z)\n",
]


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_linear_time(name: str) -> None:
    for piece in (*HOSTILE, "Process id:1 Process name:x Process memory(MB):2\nChip ID : 0\n", "| a | ::1 |\n", "9"):
        small, large = _seconds(READERS[name], piece, 5_000), _seconds(READERS[name], piece, 40_000)
        assert large < 40 * max(small, 0.005), (piece, small, large)


def _seconds(read: Callable[[str], Any], piece: str, size: int) -> float:
    text = piece * (size // len(piece))
    best = 10.0
    for _ in range(3):
        start = time.process_time()
        _try(read, text)
        best = min(best, time.process_time() - start)
    return best


def _try(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ReaderError:
        return None
