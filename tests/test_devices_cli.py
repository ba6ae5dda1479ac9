"""`davincictl devices`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, List

import pytest

from davincirun.devices_cli import add_parser
from davincirun.errors import DeviceError, UsageError

FAKES = Path(__file__).parents[1] / "tools" / "fake_ascend"
KEYS = {"logical_id", "device_id", "npu_id", "chip_id", "name", "health", "device_ip", "numa_node", "pids", "source"}


def run(arguments: List[str], **environ: str) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    options = parser.parse_args(["devices", *arguments])
    status: Any = options.handler(options, environ)
    assert isinstance(status, int)
    return status


@pytest.fixture
def fake_path() -> str:
    if any(name.startswith("davinci") for name in os.listdir("/dev")):
        pytest.skip("this machine has cards of its own")
    return os.pathsep.join([str(FAKES), os.path.dirname(sys.executable)])


def test_the_table_shows_each_device_and_the_notes(fake_path: str, capsys: pytest.CaptureFixture) -> None:
    assert run([], PATH=fake_path, FAKE_ASCEND="a3:2,3; health=3:Warning; busy=2:701") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["LOGICAL", "PHYSICAL", "NPU/CHIP", "NAME"]
    assert lines[1].split()[:8] == ["0", "2", "1/0", "Ascend910", "OK", "10.20.2.13", "-", "701"]
    assert lines[2].split()[:5] == ["1", "3", "1/1", "Ascend910", "Warning"]
    assert lines[3] == "2 devices, generation A3, super pod 0"
    assert any(line.startswith("note: device 3 reports Warning") for line in lines[4:])


def test_json_has_every_key_and_null_for_the_unknown(fake_path: str, capsys: pytest.CaptureFixture) -> None:
    assert run(["--json"], PATH=fake_path, FAKE_ASCEND="910b:2; noinfo; noip=all") == 0
    document = json.loads(capsys.readouterr().out)
    assert [device["logical_id"] for device in document["devices"]] == [0, 1]
    assert set(document["devices"][0]) >= KEYS
    assert document["devices"][0]["health"] is None
    assert document["devices"][0]["device_ip"] is None
    assert document["devices"][0]["pids"] == []
    assert any("no address" in note for note in document["notes"])


def test_simulated_devices_need_no_machine(capsys: pytest.CaptureFixture) -> None:
    assert run(["--json", "--simulate", "a3:16", "--require-healthy"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["devices"]) == 16
    with pytest.raises(UsageError):
        run(["--simulate", "many"])


def test_no_card_is_an_error_of_status_1(fake_path: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(DeviceError) as caught:
        run(["--json"], PATH="")
    assert caught.value.exit_status == 1
    document = json.loads(capsys.readouterr().out)
    assert document["devices"] == []
    assert "no Ascend card found" in document["notes"][0]


def test_an_ill_card_is_refused_on_demand(fake_path: str) -> None:
    with pytest.raises(DeviceError, match="device 1 is Alarm"):
        run(["--require-healthy"], PATH=fake_path, FAKE_ASCEND="910b:2; health=1:Alarm")
