"""tools/hccl_tools.py and tools/merge_hccl.py, called as users' scripts call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Dict, List

import pytest
from ranktable_documents import cluster_v1

from davincirun.errors import DeviceError, UsageError
from davincirun.ranktable import hand_tools

TOOLS_PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tools")
HCCN_TOOL = """#!/bin/sh
# prints what hccn_tool prints for card $2
echo "ipaddr:192.98.$2.11"
echo "netmask:255.255.255.0"
"""


def run_tool(name: str, *argv: str, cwd: str) -> "subprocess.CompletedProcess[str]":
    environ = {**os.environ, "PATH": f"{cwd}/bin:{os.environ['PATH']}"}
    return subprocess.run(
        [sys.executable, os.path.join(TOOLS_PATH, name), *argv],
        cwd=cwd,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
    )


@pytest.fixture
def machine(tmp_path: Any) -> str:
    """A folder with an hccn_tool in bin."""
    tool_path = tmp_path / "bin" / "hccn_tool"
    tool_path.parent.mkdir()
    tool_path.write_text(HCCN_TOOL)
    tool_path.chmod(0o755)
    return str(tmp_path)


def read(path: str) -> Dict[str, Any]:
    with open(path, "rb") as file:
        document: Dict[str, Any] = json.load(file)
    return document


def test_hccl_tools_writes_the_file_scripts_expect_and_prints_its_path(machine: str) -> None:
    ran = run_tool("hccl_tools.py", "--device_num", "[0,8)", "--server_ip", "10.1.2.3", cwd=machine)
    path = os.path.join(machine, "hccl_8p_01234567_10.1.2.3.json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert path in ran.stdout
    document = read(path)
    assert list(document) == ["version", "server_count", "server_list", "status"]
    assert document["server_list"][0]["host_nic_ip"] == "reserve"
    assert document["server_list"][0]["device"][7] == {"device_id": "7", "device_ip": "192.98.7.11", "rank_id": "7"}


def test_hccl_tools_counts_among_the_visible_devices_and_beyond_8(machine: str) -> None:
    visible = ",".join(map(str, range(4, 16)))
    run_tool("hccl_tools.py", "--device_num", "[2,12)", "--visible_devices", visible, "--server_ip", "h", cwd=machine)
    entries = read(os.path.join(machine, "hccl_10p_234567891011_h.json"))["server_list"][0]["device"]
    assert [(entry["device_id"], entry["rank_id"]) for entry in entries] == [(str(6 + i), str(i)) for i in range(10)]


def test_hccl_tools_finds_an_address_for_this_server(machine: str) -> None:
    ran = run_tool("hccl_tools.py", "--device_num", "[0,1)", cwd=machine)
    assert ran.returncode == 0
    assert "_127." not in ran.stdout


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--device_num", "8"], "write a range like [0,8)"),
        (["--device_num", "[0,8)", "--visible_devices", "4,5"], "--visible_devices names 2"),
        (["--visible_devices", "a"], "no list of device ids"),
    ],
)
def test_hccl_tools_explains_what_it_can_not_do(machine: str, argv: List[str], words: str) -> None:
    ran = run_tool("hccl_tools.py", *argv, cwd=machine)
    assert ran.returncode == 1
    assert ran.stderr.startswith("hccl_tools: ")
    assert words in ran.stderr
    assert os.listdir(machine) == ["bin"]


def test_merge_hccl_joins_in_the_order_given(machine: str) -> None:
    for name in ("b", "a"):
        with open(os.path.join(machine, f"{name}.json"), "w") as file:
            json.dump(cluster_v1(name), file)
    ran = run_tool("merge_hccl.py", "b.json", "a.json", cwd=machine)
    path = os.path.join(machine, "hccl_2s_4p.json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert path in ran.stdout
    servers = read(path)["server_list"]
    assert [entry["server_id"] for entry in servers] == ["b", "a"]
    assert [entry["rank_id"] for server in servers for entry in server["device"]] == ["0", "1", "2", "3"]
    assert [server["host_nic_ip"] for server in servers] == ["reserve", "reserve"]


def test_merge_hccl_refuses_a_server_that_is_there_twice(machine: str) -> None:
    for name in ("a", "b"):
        with open(os.path.join(machine, f"{name}.json"), "w") as file:
            json.dump(cluster_v1("127.0.1.1"), file)
    ran = run_tool("merge_hccl.py", "a.json", "b.json", cwd=machine)
    assert ran.returncode == 1
    assert ran.stderr == (
        "merge_hccl: b.json: server_id: 127.0.1.1 is in a.json too; "
        "both hosts resolved their own name to loopback: give --server_ip\n"
    )


def test_addresses_come_from_hccn_conf_where_there_is_no_hccn_tool(tmp_path: Any) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hccn.conf").write_text("address_0=192.168.1.1\nnetmask_0=255.255.255.0\naddress_12=fd00::12\n")
    found = hand_tools.local_addresses([0, 1, 12], {"PATH": ""}, str(tmp_path))
    assert found == {0: "192.168.1.1", 1: "", 12: "fd00::12"}


def test_a_card_without_an_address_is_named() -> None:
    with pytest.raises(DeviceError, match=r"no address for card 1: .hccn_tool"):
        hand_tools.server_table("h", [0, 1], {0: "192.168.1.1"})


@pytest.mark.parametrize(("text", "indexes"), [("[0,2)", [0, 1]), (" [ 6 , 12 ) ", list(range(6, 12)))])
def test_device_ranges_are_read(text: str, indexes: List[int]) -> None:
    assert hand_tools.device_range(text) == indexes


@pytest.mark.parametrize("text", ["", "[0,8]", "0,8", "[4,4)", "[8,0)", "[a,b)", "[-1,2)"])
def test_wrong_device_ranges_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        hand_tools.device_range(text)


def test_hccl_tools_asks_for_ipv6_addresses_too(machine: str) -> None:
    with open(os.path.join(machine, "bin", "hccn_tool"), "w") as tool:
        tool.write(HCCN_TOOL_IPV6)
    ran = run_tool("hccl_tools.py", "--device_num", "[0,2)", "--server_ip", "fd00::1", cwd=machine)
    assert (ran.returncode, ran.stderr) == (0, "")
    [server] = read(os.path.join(machine, "hccl_2p_01_fd00::1.json"))["server_list"]
    assert [device["device_ip"] for device in server["device"]] == ["fd00::10", "fd00::11"]


def test_hccl_tools_takes_a_loopback_address_only_with_a_warning(machine: str) -> None:
    ran = run_tool("hccl_tools.py", "--device_num", "[0,1)", "--server_ip", "127.0.1.1", cwd=machine)
    assert ran.returncode == 0
    assert "127.0.1.1 is a loopback address" in ran.stderr


HCCN_TOOL_IPV6 = """#!/bin/sh
case "$*" in
*-inet6*) echo "ipv6_address:fd00::1$2"; echo "prefix_length:64" ;;
*) echo "Get ipconf failed, because no ip was preset there!" >&2; exit 13 ;;
esac
"""
