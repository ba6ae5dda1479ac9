"""Detection, with the fake tools on PATH and the device nodes below a folder of the test."""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path
from typing import Any, Dict, Sequence

import pytest

from davincirun.devices import Detected
from davincirun.devices.detect import detect
from davincirun.errors import DeviceError

FAKES = Path(__file__).parents[1] / "tools" / "fake_ascend"


class Root:
    """A machine's root folder, and the environment in which its tools run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.environ: Dict[str, str] = {"PATH": str(path / "nothing"), "PYTHONDONTWRITEBYTECODE": "1"}

    def nodes(self, *names: Any) -> Root:
        (self.path / "dev").mkdir(exist_ok=True)
        for name in (*names, "_manager"):
            (self.path / "dev" / f"davinci{name}").touch()
        return self

    def tools(self, spec: str, *only: str) -> Root:
        """The fakes, in a folder of their own so that one of them can be missing."""
        folder = self.path / "tools"
        folder.mkdir()
        for name in only or ("npu-smi", "hccn_tool"):
            (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKES / name}" "$@"\n')
            (folder / name).chmod(0o755)
        self.environ.update(PATH=str(folder), FAKE_ASCEND=spec)
        return self

    def file(self, name: str, text: str) -> Root:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self

    def detect(self, **options: Any) -> Detected:
        return detect(self.environ, str(self.path), **options)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def column(detected: Detected, name: str) -> Sequence[Any]:
    return [getattr(device, name) for device in detected.devices]


def test_a_full_server_is_found_with_everything_there_is_to_know(root: Root) -> None:
    root.nodes(*range(8)).tools("910b:8").file("sys/bus/pci/devices/0000:a9:00.0/numa_node", "2\n")
    detected = root.detect()
    assert detected.generation == "910B"
    assert detected.notes == ()
    assert column(detected, "logical_id") == column(detected, "device_id") == list(range(8))
    assert column(detected, "device_ip") == [f"10.20.{n % 4}.{11 + n}" for n in range(8)]
    assert set(column(detected, "name")) == {"910B3"}
    assert set(column(detected, "health")) == {"OK"}
    assert detected.devices[3].numa_node == 2
    assert detected.devices[0].numa_node is None
    assert detected.devices[3].source == (
        "/dev/davinci3, npu-smi info -m, npu-smi info, NUMA node: /sys, address: hccn_tool -ip"
    )


def test_a_container_with_some_cards_counts_its_logical_ids_from_zero(root: Root) -> None:
    detected = root.nodes(0, 3, 4, 7).tools("910b:0,3,4,7").detect()
    assert column(detected, "logical_id") == [0, 1, 2, 3]
    assert column(detected, "device_id") == column(detected, "npu_id") == [0, 3, 4, 7]
    assert column(detected, "device_ip") == ["10.20.0.11", "10.20.3.14", "10.20.0.15", "10.20.3.18"]


def test_ids_of_two_digits_come_in_numeric_order(root: Root) -> None:
    detected = root.nodes(10, 9, 15, 2).detect()
    assert column(detected, "device_id") == [2, 9, 10, 15]


def test_each_die_of_an_a3_is_a_device_with_a_place_in_the_super_pod(root: Root) -> None:
    detected = root.nodes(*range(16)).tools("a3:16; pod=3; server=40").detect()
    assert detected.generation == "A3"
    assert detected.super_pod_id == "3"
    assert column(detected, "npu_id") == [n // 2 for n in range(16)]
    assert detected.devices[11].super_device_id == "169148427"
    assert detected.notes == ()


def test_an_a3_outside_a_super_pod_has_no_place_and_no_fault(root: Root) -> None:
    detected = root.nodes(4, 5).tools("a3:4,5; nopod").detect()
    assert column(detected, "device_id") == [4, 5]
    assert column(detected, "super_device_id") == [None, None]
    assert (detected.super_pod_id, detected.notes) == (None, ())


def test_an_a3_without_a_network_address_has_the_one_of_its_virtual_interface(root: Root) -> None:
    detected = root.nodes(0, 1).tools("a3:2; noip=all").detect()
    assert column(detected, "device_ip") == ["192.168.2.199", "192.168.2.198"]


def test_cards_of_four_chips_are_matched_in_logical_order(root: Root) -> None:
    detected = root.nodes(*range(8)).tools("310:8; first_npu=2048").detect()
    assert detected.generation == "310"
    assert column(detected, "npu_id") == [2048] * 4 + [2049] * 4
    assert column(detected, "device_id") == list(range(8))
    assert column(detected, "device_ip") == [None] * 8


def test_the_950_gives_its_fabric_addresses(root: Root) -> None:
    detected = root.nodes(0, 1).tools("950:2").detect()
    assert detected.generation == "950"
    assert detected.devices[1].device_ip == "::10:1:dfdf:51,::10:1:dfdf:30"


def test_a_virtual_npu_in_a_container_is_a_device(root: Root) -> None:
    detected = root.nodes(100).tools("310p:7,").detect()
    assert column(detected, "device_id") == [100]
    assert column(detected, "name") == ["310P3"]


def test_virtual_npus_seen_from_the_host_are_no_devices(root: Root) -> None:
    (root.path / "dev").mkdir()
    (root.path / "dev" / "vdavinci100").touch()
    assert column(root.nodes(0).detect(), "device_id") == [0]


def test_without_nodes_the_list_of_npu_smi_counts(root: Root) -> None:
    detected = root.tools("910b:0,3").detect()
    assert column(detected, "device_id") == [0, 3]
    assert detected.devices[0].source.startswith("npu-smi info -m")


def test_ipv6_addresses_are_asked_for_where_there_are_no_others(root: Root) -> None:
    detected = root.nodes(0, 1).tools("910b:2; ipv6").detect()
    assert column(detected, "device_ip") == ["fd00::0", "fd00::1"]
    assert "hccn_tool -ip -inet6" in detected.devices[0].source


def test_several_addresses_of_a_card_are_joined(root: Root) -> None:
    assert column(root.tools("910b:1; ip=0:10.1.1.3+10.1.2.3").detect(), "device_ip") == ["10.1.1.3,10.1.2.3"]


def test_a_stale_file_loses_against_the_card_and_is_noted(root: Root) -> None:
    root.nodes(0, 1).tools("910b:2; noip=1").file("etc/hccn.conf", "address_0=10.9.9.9\naddress_1=10.9.9.8\n")
    detected = root.detect()
    assert column(detected, "device_ip") == ["10.20.0.11", "10.9.9.8"]
    [note] = detected.notes
    assert "/etc/hccn.conf says 10.9.9.9, the card itself 10.20.0.11" in note
    assert detected.devices[1].source.endswith("address: /etc/hccn.conf")


def test_a_renumbered_file_is_taken_by_logical_id(root: Root) -> None:
    conf = "".join(f"address_{n}=10.9.9.{n}\n" for n in range(4))
    detected = root.nodes(4, 5, 6, 7).file("etc/hccn.conf", conf).detect()
    assert column(detected, "device_ip") == [f"10.9.9.{n}" for n in range(4)]
    assert any("taken for logical ids" in note for note in detected.notes)


def test_a_file_about_other_cards_is_not_used(root: Root) -> None:
    detected = root.nodes(4, 5).file("etc/hccn.conf", "address_0=10.9.9.0\n").detect()
    assert column(detected, "device_ip") == [None, None]
    assert any("about other cards (0)" in note for note in detected.notes)


def test_a_broken_file_is_noted_by_line(root: Root) -> None:
    detected = root.nodes(0, 1).file("etc/hccn.conf", "address_0=10.9\nwhat\naddress_1=10.9.9.1\n").detect()
    assert column(detected, "device_ip") == [None, "10.9.9.1"]
    assert any("line 2: not key=value: 'what'" in note for note in detected.notes)
    assert any("address_0=10.9 is not an IP address" in note for note in detected.notes)


@pytest.mark.parametrize("error", ["-8005", "-8020", "-9005"])
def test_a_failing_npu_smi_leaves_the_device_nodes(root: Root, error: str) -> None:
    detected = root.nodes(3, 14).tools(f"910b:2; error={error}").detect(addresses=False)
    assert column(detected, "device_id") == [3, 14]
    assert column(detected, "logical_id") == [0, 1]
    assert any(error in note for note in detected.notes)
    assert detected.generation == "unknown"


def test_the_generation_is_read_off_the_bus_where_npu_smi_fails(root: Root) -> None:
    root.nodes(0, 1).tools("950:2; error=-8020")
    for name, vendor, device in (("00", "0x8086", "0x1521"), ("01", "0x19e5", "0xd806"), ("02", "0x19e5", "0x1711")):
        root.file(f"sys/bus/pci/devices/0000:{name}:00.0/vendor", f"{vendor}\n")
        root.file(f"sys/bus/pci/devices/0000:{name}:00.0/device", f"{device}\n")
    detected = root.detect()
    assert detected.generation == "950"
    assert detected.devices[1].device_ip == "::10:1:dfdf:51,::10:1:dfdf:30"
    assert any("the PCI bus says generation 950" in note for note in detected.notes)


def test_a_missing_npu_smi_leaves_the_device_nodes(root: Root) -> None:
    detected = root.nodes(1, 2).detect()
    assert column(detected, "device_id") == [1, 2]
    assert any("npu-smi is neither on PATH nor in" in note for note in detected.notes)
    assert any("hccn_tool is neither on PATH nor in" in note for note in detected.notes)


def test_the_table_stands_in_for_a_map_that_failed(root: Root) -> None:
    detected = root.nodes(0, 3).tools("910b:0,3; nomap").detect()
    assert column(detected, "npu_id") == [0, 3]
    assert "npu-smi info, address" in detected.devices[0].source
    assert any("npu-smi info -m" in note for note in detected.notes)


def test_the_map_alone_gives_names_but_no_health(root: Root) -> None:
    detected = root.nodes(0, 3).tools("910b:0,3; noinfo").detect()
    assert column(detected, "name") == ["910B3", "910B3"]
    assert column(detected, "health") == [None, None]


@pytest.mark.parametrize("tool", ["npu-smi", "hccn_tool"])
def test_a_hanging_tool_costs_its_time_and_no_more(root: Root, tool: str) -> None:
    root.nodes(0, 1).tools(f"910b:2; hang={tool}")
    start = time.monotonic()
    detected = root.detect(timeout_seconds=1.5)
    assert time.monotonic() - start < 10
    assert column(detected, "device_id") == [0, 1]
    assert any("no answer in 1.5 s" in note for note in detected.notes)


def test_a_hanging_tool_leaves_no_process_behind(root: Root) -> None:
    fifo = root.path / "fifo"
    os.mkfifo(str(fifo))
    root.nodes(0).tools("910b:1").file("tools/npu-smi", f"#!/bin/sh\n/bin/sleep 1000 > {fifo} &\nwait\n")
    reader = os.open(str(fifo), os.O_RDONLY | os.O_NONBLOCK)
    try:
        root.detect(timeout_seconds=0.5, addresses=False)
        readable, _, _ = select.select([reader], [], [], 10)
        assert readable and os.read(reader, 1) == b""  # every writer is gone
    finally:
        os.close(reader)


def test_a_lost_card_is_noted_and_stays_a_device(root: Root) -> None:
    detected = root.nodes(0, 1, 2, 3).tools("910b:4; missing=2").detect(addresses=False)
    assert column(detected, "device_id") == [0, 1, 3, 2]
    assert column(detected, "name") == ["910B3", "910B3", "910B3", None]
    assert any("does not list the card of /dev/davinci2" in note for note in detected.notes)


def test_cards_without_a_node_are_left_out_and_noted(root: Root) -> None:
    detected = root.nodes(0, 1).tools("910b:4").detect(addresses=False)
    assert column(detected, "device_id") == [0, 1]
    assert any("NPU 2, NPU 3" in note and "/dev/davinci3" in note for note in detected.notes)


def test_ill_and_busy_cards_are_noted(root: Root) -> None:
    detected = root.tools("910b:3; health=1:Alarm; busy=2:701+702").detect(addresses=False)
    assert column(detected, "health") == ["OK", "Alarm", "OK"]
    assert column(detected, "pids") == [(), (), (701, 702)]
    assert any("device 1 reports Alarm" in note for note in detected.notes)
    assert any("device 2 is in use by pid 701, 702" in note for note in detected.notes)


@pytest.mark.parametrize(("spec", "refused"), [("health=1:Critical", True), ("health=1:Warning", False), ("", False)])
def test_ill_cards_are_refused_only_on_demand(root: Root, spec: str, refused: bool) -> None:
    root.tools(f"910b:2; {spec}")
    assert len(root.detect(addresses=False).devices) == 2
    if refused:
        with pytest.raises(DeviceError, match="device 1 is Critical"):
            root.detect(addresses=False, require_healthy=True)
    else:
        assert len(root.detect(addresses=False, require_healthy=True).devices) == 2


def test_unknown_health_is_refused_on_demand(root: Root) -> None:
    with pytest.raises(DeviceError, match="device 0 is of unknown health"):
        root.nodes(0).detect(require_healthy=True)


def test_no_card_says_where_was_looked_and_what_to_do(root: Root) -> None:
    with pytest.raises(DeviceError) as caught:
        root.detect()
    text = str(caught.value)
    for part in ("/dev has no davinciN", "npu-smi is neither on PATH nor in", "--simulate 8", "mpirun"):
        assert part in text


def test_no_card_but_gpus_points_to_the_gpu_engine(root: Root) -> None:
    with pytest.raises(DeviceError, match=r"for GPUs \(nvidia-smi is here\) use the GPU engine"):
        root.tools("gpu:8", "nvidia-smi").detect()


def test_no_card_repeats_what_npu_smi_answered(root: Root) -> None:
    with pytest.raises(DeviceError, match=r"ret is -8005.*hccn_tool is neither on PATH nor in"):
        root.tools("910b:8; error=-8005", "npu-smi").detect()


@pytest.mark.parametrize(
    ("spec", "ids", "generation"),
    [
        ("910b:0,3,4,7; error=-8005", [0, 3, 4, 7], "unknown"),
        ("910b:2,5; noip=5; error=-8020", [2, 5], "unknown"),
        ("910b:1,2; ipv6; error=-8005", [1, 2], "unknown"),
        ("a3:16; error=-8005", list(range(16)), "unknown"),
        ("950:4; error=-8005", [0, 1, 2, 3], "950"),
        ("910b:6,16; error=-8005", [6, 16], "unknown"),
    ],
)
def test_without_nodes_and_npu_smi_the_cards_are_those_that_hccn_tool_answers_for(
    root: Root, spec: str, ids: Sequence[int], generation: str
) -> None:
    root.file("etc/hccn.conf", "address_16=10.9.9.16\naddress_17=10.9.9.17\n")
    detected = root.tools(spec).detect(timeout_seconds=30)
    assert column(detected, "device_id") == ids
    assert column(detected, "logical_id") == list(range(len(ids)))
    assert detected.generation == generation
    assert detected.notes[0].startswith("NEITHER /dev NOR npu-smi TELLS WHICH CARDS ARE HERE: taken are those")
    assert any("ret is -80" in note for note in detected.notes)
    assert all(device.source.startswith("hccn_tool answers for it") for device in detected.devices)


def test_a_file_of_addresses_is_no_proof_of_a_card(root: Root) -> None:
    root.file("etc/hccn.conf", "address_0=10.9.9.0\n").tools("310p:2; error=-8005")
    with pytest.raises(DeviceError, match="hccn_tool answers for no card"):
        root.detect()


def test_a_wait_that_gives_up_ends_the_tools(root: Root) -> None:
    def wait(fd: int, what: str) -> None:
        assert what in ("npu-smi info -m", "npu-smi info")
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        root.nodes(0).tools("910b:1; hang=npu-smi").detect(wait=wait)
    assert time.monotonic() - start < 5


def test_tools_off_path_are_found_where_the_driver_puts_them(root: Root) -> None:
    root.nodes(0).tools("910b:1").file("etc/ascend_install.info", "Driver_Install_Path_Param=/opt/Ascend\n")
    home = root.path / "opt" / "Ascend" / "driver"
    home.mkdir(parents=True)
    (root.path / "tools").rename(home / "tools")
    root.environ["PATH"] = ""
    assert column(root.detect(), "device_ip") == ["10.20.0.11"]


def test_tools_get_plain_messages_and_the_libraries_of_the_driver(root: Root) -> None:
    root.nodes(0).tools("910b:1")
    seen = root.path / "seen"
    root.file("tools/npu-smi", f'#!/bin/sh\necho "$LC_ALL $LD_LIBRARY_PATH" > {seen}\n')
    (root.path / "usr/local/Ascend/driver/lib64/common").mkdir(parents=True)
    root.environ["LD_LIBRARY_PATH"] = "/mine"
    root.detect(addresses=False)
    locale, libraries = seen.read_text().split()
    assert locale == "C"
    lib64 = f"{root.path}/usr/local/Ascend/driver/lib64"
    assert libraries == f"/mine:{lib64}:{lib64}/common"


def test_nodes_alone_are_read_without_running_anything(root: Root) -> None:
    root.nodes(0, 1).tools("910b:2")
    root.file("tools/npu-smi", f"#!/bin/sh\n: > {root.path}/ran\n")
    detected = root.detect(addresses=False, details=False)
    assert column(detected, "device_id") == [0, 1]
    assert not (root.path / "ran").exists()


def test_a_tool_that_cannot_be_run_is_a_note(root: Root) -> None:
    root.nodes(0).tools("910b:1").file("tools/npu-smi", "#!/no/such/interpreter\n")
    detected = root.detect(addresses=False)
    assert any("can't be run: No such file or directory" in note for note in detected.notes)
