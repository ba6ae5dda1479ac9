"""The fake tools print what the real ones print: the same lines, the same widths, the same statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Tuple

import pytest

from davincirun.devices.hccn_950 import read_card_info
from davincirun.devices.hccn_network import read_gateway, read_link, read_neighbour, read_net_health, read_tls
from davincirun.devices.nvidia_smi import number_of, read_csv, read_gpu_list
from davincirun.devices.reading import ReaderError
from davincirun.devices.smi_map import read_map
from davincirun.devices.smi_records import read_board, read_health, read_list, read_super_pod
from davincirun.devices.smi_table import read_info
from davincirun.devices.smi_topology import read_topology

FAKES = Path(__file__).parents[1] / "tools" / "fake_ascend"
DATA = Path(__file__).parent / "data" / "npu"


def run(spec: str, tool: str, *arguments: str) -> Tuple[int, str, str]:
    path = os.pathsep.join([str(FAKES), os.path.dirname(sys.executable), "/usr/bin", "/bin"])
    environ = {"PATH": path, "FAKE_ASCEND": spec, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, str(FAKES / tool), *arguments], env=environ, stdout=-1, stderr=-1, universal_newlines=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        ("310:4; first_npu=2048", "001"),
        ("310p:2; driver=22.0.2", "010"),
        ("910b:0,3,4,7; driver=24.1.rc3", "022"),
        ("910b:12,13; busy=12:70011,13:70012; driver=23.0.3", "024"),
        ("a3:2; driver=24.1.rc3.7", "032"),
        ("950:3; busy=0:846701", "036"),
    ],
)
def test_a_fake_table_has_the_lines_of_the_real_one(spec: str, number: str) -> None:
    [path] = DATA.glob(f"{number}-*")
    real = path.read_text(encoding="utf-8").splitlines()
    [status, text, _] = run(spec, "npu-smi", "info")
    fake = text.splitlines()
    assert status == 0
    fixed = [line for line in real if not any(character.isdigit() for character in line)]
    assert set(fixed) <= set(fake)
    assert {len(line) for line in fake} <= {len(real[0])} | ({len(real[0]) - 1} if number == "036" else set())
    assert read_info(text).problems == ()


def test_the_fake_answers_every_query_that_the_readers_read() -> None:
    a2, a3, spec_950, gpus = "910b:0,3; ip=3:10.1.1.3", "a3:4", "950:2", "gpu:2; mig=2"
    assert [row.logic_id for row in read_map(run(a2, "npu-smi", "info", "-m")[1]).rows] == [0, 1]
    assert read_list(run(a3, "npu-smi", "info", "-l")[1]).total_count == 2
    assert read_board(run(a2, "npu-smi", "info", "-t", "board", "-i", "3", "-c", "0")[1]).chip_name == "910B3"
    assert read_health(run(a2, "npu-smi", "info", "-t", "health", "-i", "3", "-c", "0")[1]).status == "OK"
    assert read_topology(run(a3, "npu-smi", "info", "-t", "topo")[1]).names == tuple(f"Phy-ID{n}" for n in range(4))
    assert read_super_pod(run(a3, "npu-smi", "info", "-t", "spod-info", "-i", "1", "-c", "1")[1]).server_index == 40
    assert read_link(run(a2, "hccn_tool", "-i", "3", "-link", "-g")[1]) == "UP"
    assert read_net_health(run(a2, "hccn_tool", "-i", "3", "-net_health", "-g")[1]) == "Success"
    assert read_gateway(run(a2, "hccn_tool", "-i", "3", "-gateway", "-g")[1]).interface == "eth0"
    assert not read_tls(run(a2, "hccn_tool", "-i", "3", "-tls", "-g")[1]).enabled
    assert read_neighbour(run(a2, "hccn_tool", "-i", "3", "-lldp", "-g")[1]).ports == ("400GE1/2/5:2",)
    assert len(read_card_info(run(spec_950, "hccn_tool", "-g", "-dev_info", "-i", "1")[1]).fabric_addresses) == 2
    assert [len(gpu.migs) for gpu in read_gpu_list(run(gpus, "nvidia-smi", "-L")[1]).gpus] == [2, 2]
    [first, _] = read_csv(run(gpus, "nvidia-smi", "--query-gpu=index,memory.total", "--format=csv")[1])
    assert (first["index"], number_of(first["memory.total"])) == ("0", 40960)


@pytest.mark.parametrize(
    ("spec", "command", "status", "text"),
    [
        ("910b:8; error=-8005", "npu-smi info", 187, "ret is -8005"),
        ("910b:8; error=-8020", "npu-smi info -m", 172, "ret is -8020"),
        ("910b:8", "npu-smi info -t cpu", 215, "Error parameter of -t"),
        ("910b:8; missing=3", "npu-smi info -t board -i 3 -c 0", 215, "Invalid card id."),
        ("910b:8", "npu-smi info -t spod-info -i 3 -c 0", 217, "does not support querying"),
        ("910b:8; noip=1", "hccn_tool -i 1 -ip -g", 13, "no ip was preset there"),
        ("910b:8", "hccn_tool -i 9 -ip -g", 4, "Command execute failed!"),
        ("910b:8", "nvidia-smi -L", 9, "NVIDIA-SMI has failed"),
    ],
)
def test_the_fake_fails_as_the_real_tool_does(spec: str, command: str, status: int, text: str) -> None:
    found_status, stdout, stderr = run(spec, *command.split())
    assert found_status == status
    assert text in (stderr if command.startswith("hccn_tool") else stdout)


def test_a_missing_gpu_driver_is_explained() -> None:
    with pytest.raises(ReaderError, match="the driver isn't loaded"):
        read_gpu_list(run("910b:8", "nvidia-smi", "-L")[1])
