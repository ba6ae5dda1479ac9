"""Launches on machines whose cards only the fake tools know: the right workers, with the right ids."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import pytest
from helpers.launcher import ROOT, Launcher
from helpers.tables import table as table_of

FAKES = os.path.join(ROOT, "tools", "fake_ascend")
LOUD = "NEITHER /dev NOR npu-smi TELLS WHICH CARDS ARE HERE"

pytestmark = pytest.mark.skipif(bool(glob.glob("/dev/davinci[0-9]*")), reason="there are cards here")


@pytest.fixture
def tools(tmp_path) -> str:
    """A folder with the fakes, which are told apart from real tools by nothing."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("npu-smi", "hccn_tool"):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKES}/{name}" "$@"\n')
        (folder / name).chmod(0o755)
    return str(folder)


def machine(tools: str, spec: str) -> Dict[str, str]:
    return {"PATH": f"{tools}:/usr/bin:/bin", "FAKE_ASCEND": spec, "PYTHONDONTWRITEBYTECODE": "1"}


def described(folder: Path) -> List[Dict[str, Any]]:
    """What the workers of describes_itself.py wrote, by rank."""
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(len(list(folder.glob("*.json"))))]


def physical_ids(table: Dict[str, Any]) -> List[int]:
    """The devices of the table, rank by rank."""
    if table["version"] == "2.0":
        return [entry["device_id"] for entry in sorted(table["rank_list"], key=lambda entry: entry["rank_id"])]
    devices = sorted(table["server_list"][0]["device"], key=lambda device: int(device["rank_id"]))
    return [int(device["device_id"]) for device in devices]


HUNG = ["--detect-timeout", "2"]  # of all tools: those that answer need some of it on a busy machine


@pytest.mark.parametrize(
    ("spec", "options", "version", "ids"),
    [
        ("910b:8", [], "1.0", range(8)),
        ("910b:0,3,4,7", [], "1.0", [0, 3, 4, 7]),
        ("a3:16", [], "1.2", range(16)),
        ("310pduo:4", [], "1.0", range(4)),
        ("950:8", [], "2.0", range(8)),
        ("910b:0,3,4,7; hang=npu-smi", HUNG, "1.0", [0, 3, 4, 7]),
        ("910b:0,3,4,7; error=-8005", [], "1.0", [0, 3, 4, 7]),
        ("950:4; error=-8005", [], "2.0", range(4)),
    ],
)
def test_each_machine_starts_its_workers(
    launch: Launcher, tools: str, tmp_path: Path, spec: str, options: Sequence[str], version: str, ids: Sequence[int]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    ended = launch.run(
        "describes_itself.py", str(out), workers=None, options=options, env=machine(tools, spec), deadline=60
    )
    assert ended.status == 0, ended
    workers = described(out)
    assert len(workers) == len(ids)
    for rank, worker in enumerate(workers):
        env = worker["env"]
        assert (env["RANK_ID"], env["DEVICE_ID"], env["ASCEND_DEVICE_ID"]) == (str(rank),) * 3
        assert env["RANK_SIZE"] == str(len(ids))
        table = json.loads(worker["table"])
        assert (table["version"], physical_ids(table)) == (version, list(ids))
    assert (LOUD in ended.stderr) == ("hang" in spec or "error" in spec)


def test_a_hanging_tool_is_named_while_it_is_waited_for(launch: Launcher, tools: str) -> None:
    with launch("true", workers=None, env=machine(tools, "910b:2; hang=npu-smi")) as running:
        running.read_until("looking for this machine's cards: npu-smi info -m hasn't answered; 1 s", among="stderr")
        started = time.monotonic()
        running.send_signal(signal.SIGTERM)
        ended = running.end()
    assert time.monotonic() - started < 5
    assert ended.status == 128 + signal.SIGTERM
    assert "stopped by SIGTERM before any worker was started" in ended.stderr


@pytest.mark.parametrize(("health", "status"), [("Critical", 1), ("Warning", 0)])
def test_ill_cards_are_warned_of_or_on_demand_refused(launch: Launcher, tools: str, health: str, status: int) -> None:
    env = machine(tools, f"910b:2; health=1:{health}")
    told = launch.run("true", workers=None, env=env)
    assert told.status == 0 and f"device 1 reports {health}" in told.stderr
    refused = launch.run("true", workers=None, env=env, options=["--require-healthy"])
    assert refused.status == status, refused


@pytest.fixture
def own_dev(tmp_path: Path) -> Callable[..., List[str]]:
    """A function of names in /dev, and PCI device ids of cards: the command before one that is to see just these."""
    if os.geteuid() != 0 or subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL):
        pytest.skip("no mount namespace here")

    def wrap(names: Sequence[str], pci_device_ids: Sequence[str] = ()) -> List[str]:
        dev, bus = tmp_path / "dev", tmp_path / "bus"
        dev.mkdir()
        bus.mkdir()
        for name in names:
            (dev / name).touch()
        for index, device_id in enumerate(pci_device_ids):
            place = bus / f"0000:{index:02x}:00.0"
            place.mkdir()
            (place / "vendor").write_text("0x19e5\n")
            (place / "device").write_text(f"{device_id}\n")
        script = (
            "for n in null zero urandom random fd shm; do"
            f" [ -L /dev/$n ] && cp -P /dev/$n {dev}/ || [ ! -e /dev/$n ] ||"
            f" {{ [ -d /dev/$n ] && mkdir {dev}/$n || : > {dev}/$n; mount --bind /dev/$n {dev}/$n; }}; done;"
            f" [ ! -d /sys/bus/pci/devices ] || mount --bind {bus} /sys/bus/pci/devices;"
            f' mount --rbind {dev} /dev && exec "$@"'
        )
        return ["unshare", "-m", "/bin/sh", "-c", script, "sh"]

    return wrap


def test_nodes_win_over_a_hanging_npu_smi(
    launch: Launcher, tools: str, tmp_path: Path, own_dev: Callable[..., List[str]]
) -> None:
    """Cards 2 and 10 alone are mounted; hccn_tool and npu-smi would tell of others."""
    out = tmp_path / "out"
    out.mkdir()
    ended = launch.run(
        "describes_itself.py",
        str(out),
        workers=None,
        options=HUNG,
        env=machine(tools, "910b:8; hang=npu-smi"),
        wrap=own_dev(["davinci2", "davinci10", "davinci_manager"]),
    )
    assert ended.status == 0, ended
    workers = described(out)
    assert physical_ids(json.loads(workers[0]["table"])) == [2, 10]
    assert [worker["env"]["DEVICE_ID"] for worker in workers] == ["0", "1"]
    assert "only the nodes in /dev tell which cards there are" in ended.stderr
    assert LOUD not in ended.stderr


@pytest.mark.skipif(not os.path.isdir("/sys/bus/pci/devices"), reason="no PCI bus here")
@pytest.mark.parametrize(("pci_device_id", "is_warned"), [("0xd806", True), ("0xd802", False)], ids=["950", "A2"])
def test_a_table_that_the_chip_doesn_t_read_is_warned_of(
    launch: Launcher, tmp_path: Path, own_dev: Callable[..., List[str]], pci_device_id: str, is_warned: bool
) -> None:
    """The table is of version 1.0; the job is started all the same, since HCCL has the last word."""
    path = tmp_path / "hccl.json"
    path.write_text(table_of(2))
    wrap = own_dev(["davinci0", "davinci1", "davinci_manager"], [pci_device_id] * 2)
    ended = launch.run("true", workers=None, options=["--rank-table", str(path)], wrap=wrap)
    assert ended.status == 0, ended
    assert ("version 1.0 is for 910, A2 and A3; Ascend 950 (A5) wants 2.0" in ended.stderr) == is_warned, ended
