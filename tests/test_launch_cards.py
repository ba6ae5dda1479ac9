"""Launches on machines whose cards only the fake tools know: the right workers, with the right ids."""

from __future__ import annotations

import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

import pytest
from helpers.launcher import ROOT, Launcher

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


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs a mount namespace")
def test_nodes_win_over_a_hanging_npu_smi(launch: Launcher, tools: str, tmp_path: Path) -> None:
    """Cards 2 and 10 alone are mounted; hccn_tool and npu-smi would tell of others."""
    if subprocess.call(["unshare", "-m", "true"], stderr=subprocess.DEVNULL):
        pytest.skip("no mount namespace here")
    dev = tmp_path / "dev"
    dev.mkdir()
    for name in ("davinci2", "davinci10", "davinci_manager"):
        (dev / name).touch()
    out = tmp_path / "out"
    out.mkdir()
    keep = " ".join(name for name in ("null", "zero", "urandom", "random", "fd", "shm"))
    script = (
        f"for n in {keep}; do [ -L /dev/$n ] && cp -P /dev/$n {dev}/ || [ ! -e /dev/$n ] || "
        f"{{ if [ -d /dev/$n ]; then mkdir {dev}/$n; else : > {dev}/$n; fi; mount --bind /dev/$n {dev}/$n; }}; done; "
        f'mount --rbind {dev} /dev && exec "$@"'
    )
    ended = launch.run(
        "describes_itself.py",
        str(out),
        workers=None,
        options=HUNG,
        env=machine(tools, "910b:8; hang=npu-smi"),
        wrap=["unshare", "-m", "/bin/sh", "-c", script, "sh"],
    )
    assert ended.status == 0, ended
    workers = described(out)
    assert physical_ids(json.loads(workers[0]["table"])) == [2, 10]
    assert [worker["env"]["DEVICE_ID"] for worker in workers] == ["0", "1"]
    assert "only the nodes in /dev tell which cards there are" in ended.stderr
    assert LOUD not in ended.stderr
