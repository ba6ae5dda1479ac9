"""What the readers do with answers of which there is no published capture."""

from __future__ import annotations

import pytest

from davincirun.devices import hccn_network
from davincirun.devices.devnodes import device_ids
from davincirun.devices.driver_files import read_install_info
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.hccn_tool import read_addresses
from davincirun.devices.nvidia_smi import number_of, read_csv, read_gpu_list
from davincirun.devices.pci import read_lspci
from davincirun.devices.reading import ReaderError
from davincirun.devices.smi_chips import read_chip_processes, read_chip_records
from davincirun.devices.smi_map import read_map
from davincirun.devices.smi_records import read_health, read_super_pod
from davincirun.devices.smi_table import Usage, read_info
from davincirun.devices.smi_topology import read_topology

NAME_ROW = "| 0     910B3               | {:<13} | 93.7        52                0    / 0             |\n"
CHIP_ROW = "| 0                         | 0000:C1:00.0  | 0           0    / 0          2843 / 65536         |\n"


@pytest.mark.parametrize("health", ["OK", "Warning", "Alarm", "Critical", "UNKNOWN", "Offline"])
def test_every_health_word_marks_a_name_row(health: str) -> None:
    [chip] = read_info(NAME_ROW.format(health) + CHIP_ROW).chips
    assert (chip.npu_id, chip.health, chip.hbm) == (0, health, Usage(2843, 65536))


def test_a_chip_row_without_its_name_row_is_a_chip_of_unknown_health() -> None:
    table = read_info(NAME_ROW.format("OK") + CHIP_ROW + CHIP_ROW)
    assert [chip.health for chip in table.chips] == ["OK", None]
    assert "line 3: no name row above" in str(table.problems[0])


def test_a_name_row_without_its_chip_row_is_kept_and_reported() -> None:
    table = read_info(NAME_ROW.format("OK") + NAME_ROW.format("Alarm") + CHIP_ROW)
    assert [(chip.health, chip.chip_id) for chip in table.chips] == [("OK", None), ("Alarm", 0)]
    assert "line 1: no chip row below" in str(table.problems[0])


def test_masked_bus_ids_are_bus_ids() -> None:
    [chip] = read_info(NAME_ROW.format("OK") + CHIP_ROW.replace("C1", "xx")).chips
    assert chip.bus_id == "0000:xx:00.0"


def test_a_long_value_that_pushes_the_bars_right_is_read_the_same() -> None:
    [chip] = read_info(NAME_ROW.format("OK").replace("910B3 ", "910B3vir10_3c_32g_and_more ") + CHIP_ROW).chips
    assert chip.name == "910B3vir10_3c_32g_and_more"


def test_a_row_that_makes_no_sense_is_reported_with_its_line() -> None:
    table = read_info(NAME_ROW.format("OK") + CHIP_ROW + "| what | is | this |\n")
    assert [str(problem) for problem in table.problems] == [
        "line 3: neither a name row nor a chip row: '| what | is | this |'"
    ]


def test_windows_line_ends_change_nothing() -> None:
    text = NAME_ROW.format("OK") + CHIP_ROW
    assert read_info(text.replace("\n", "\r\n")) == read_info(text)


def test_the_map_of_an_a3_has_physical_ids() -> None:
    text = (
        "\tNPU ID     Chip ID    Chip Logic ID    Chip Phy-ID    Chip Name\n"
        "\t2          0          0                4              Ascend910\n"
        "\t2          1          1                5              Ascend910\n"
        "\t2          2          -                -              Mcu\n"
    )
    assert [row[:4] for row in read_map(text).rows] == [(2, 0, 0, 4), (2, 1, 1, 5)]


def test_a_row_of_the_map_that_does_not_fit_the_head_is_reported() -> None:
    text = "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0  0  0  Ascend 910B3\n1  0  Ascend 910B3\n"
    id_map = read_map(text)
    assert len(id_map.rows) == 1
    assert id_map.problems[0].line_number == 3


def test_the_rows_of_an_a3_topology_are_dies_and_may_lack_the_affinity() -> None:
    topology = read_topology("\t   Phy-ID2   Phy-ID3\nPhy-ID2   X   SIO\nPhy-ID3   SIO   X\n")
    assert topology.names == ("Phy-ID2", "Phy-ID3")
    assert topology.links["Phy-ID2"]["Phy-ID3"] == "SIO"
    assert topology.cpu_affinity == {}


def test_network_interfaces_in_a_topology_need_no_affinity() -> None:
    text = "\tNPU0  NIC0  CPU Affinity\nNPU0  X  PIX  0-23\nNIC0  PIX  X\n"
    topology = read_topology(text)
    assert topology.cpu_affinity == {"NPU0": "0-23"}
    assert topology.links["NIC0"] == {"NPU0": "PIX", "NIC0": "X"}
    assert topology.problems == ()


def test_blocks_of_two_chips_close_with_their_id() -> None:
    text = "NPU ID : 0\nChip Count : 2\nAicore Usage Rate(%) : 7\nChip ID : 0\nAicore Usage Rate(%) : 9\nChip ID : 1\n"
    records = read_chip_records(text)
    assert [(chip.chip_id, chip.number("Aicore Usage Rate(%)")) for chip in records.chips] == [(0, 7), (1, 9)]
    assert records.chips[0].number("Temperature(C)") is None


def test_a_chip_without_processes_is_an_answer() -> None:
    answer = read_chip_processes("No process in device.\n")
    assert answer.processes == ()


@pytest.mark.parametrize("read", [read_super_pod, read_health, read_map, read_topology])
def test_a_refused_query_is_an_error_that_shows_the_line(read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReaderError, match=r"line 1: .*does not support querying"):
        read("This device does not support querying spod-info.")


@pytest.mark.parametrize("read", [read_super_pod, read_health, read_map, read_info, hccn_network.read_link])
def test_an_empty_answer_is_an_error_that_says_what_was_wanted(read) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReaderError, match="printed nothing, wanted"):
        read("\n  \n")


def test_an_address_that_is_none_is_reported() -> None:
    answer = read_addresses("ipaddr:10.1.300.1\nnetmask:255.255.0.0\n")
    assert answer.addresses == ()
    assert "line 1: not an IP address" in str(answer.problems[0])


def test_an_unknown_word_of_the_network_is_an_error() -> None:
    with pytest.raises(ReaderError, match="wanted one of UP, DOWN: 'link status: SIDEWAYS'"):
        hccn_network.read_link("link status: SIDEWAYS")


@pytest.mark.parametrize("switch", [0, 1])
def test_the_tls_switch_is_read_from_among_its_legend(switch: int) -> None:
    text = f"dev_id:3, tls switch[{switch}](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset)"
    assert hccn_network.read_tls(text) == (3, bool(switch))


def test_the_last_line_of_a_key_in_hccn_conf_counts() -> None:
    conf = read_hccn_conf("address_0=10.1.1.1\nroute_address_1_netmask_255_0=x\naddress_0=10.1.1.2\n")
    assert conf.cards[0].address == "10.1.1.2"
    assert list(conf.cards) == [0]


def test_an_installation_that_was_not_completed_shows() -> None:
    assert read_install_info("Driver_Install_Path_Param=/opt/Ascend\n").complete is None
    assert read_install_info("Driver_Install_Status=failed\n").complete is False


def test_nodes_are_the_davinci_with_a_number() -> None:
    names = ["davinci10", "davinci2", "davinci_manager", "vdavinci100", "davinci", "davinci²", "hisi_hdc"]
    assert device_ids(names) == (2, 10)


def test_numeric_pci_ids_are_understood_too() -> None:
    line = "c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d802] (rev 20)\n"
    assert read_lspci(line) == (("c1:00.0", "d802", "910B"),)
    assert read_lspci("00:01.0 VGA compatible controller: Huawei Technologies Co., Ltd. Hi1710 (rev 01)\n") == ()


GPUS = (
    "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    "  MIG 3g.20gb     Device  0: (UUID: MIG-66666666-7777-8888-9999-000000000000)\n"
    "  MIG 1g.5gb+me   Device  1: (UUID: MIG-66666666-7777-8888-9999-000000000001)\n"
    "GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-11111111-2222-3333-4444-666666666666)\n"
)


def test_gpus_come_with_their_mig_slices() -> None:
    first, second = read_gpu_list(GPUS).gpus
    assert (first.name, second.name) == ("NVIDIA A100-SXM4-40GB", "NVIDIA GeForce RTX 3090")
    assert [mig.profile for mig in first.migs] == ["3g.20gb", "1g.5gb+me"]
    assert second.migs == ()


def test_a_csv_query_is_read_by_its_heads() -> None:
    text = "index, name, memory.total [MiB], mig.mode.current\n0, NVIDIA A100, 40960 MiB, [N/A]\n"
    [row] = read_csv(text)
    assert (row["index"], number_of(row["memory.total"])) == ("0", 40960)
    assert number_of(row["mig.mode.current"]) is None
    with pytest.raises(ReaderError, match="line 2: wanted 2 values"):
        read_csv("index, name\n0\n")


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
    ],
)
def test_a_failing_nvidia_smi_is_an_error_with_a_remedy(text: str) -> None:
    with pytest.raises(ReaderError, match=r"the tool failed.*; "):
        read_gpu_list(text)
    with pytest.raises(ReaderError, match=r"the tool failed.*; "):
        read_csv(text)
