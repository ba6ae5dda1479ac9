"""Simulated devices, and the choice among devices."""

from __future__ import annotations

import pytest

from davincirun.devices import Detected
from davincirun.devices.selection import parse_container_devices, parse_devices_option, parse_visible_devices, select
from davincirun.devices.simulated import simulate
from davincirun.errors import DeviceError, UsageError


@pytest.mark.parametrize(
    ("spec", "generation", "device_ids"),
    [
        ("8", "910B", range(8)),
        ("910b:8", "910B", range(8)),
        ("910B:1", "910B", range(1)),
        ("A3:16", "A3", range(16)),
        ("310p:2", "310P", range(2)),
        ("310:4", "310", range(4)),
        ("910:8", "910", range(8)),
        ("950:8", "950", range(8)),
        ("910b:0,3,4,7", "910B", (0, 3, 4, 7)),
        ("910b:4-7", "910B", (4, 5, 6, 7)),
    ],
)
def test_a_spec_makes_its_devices(spec: str, generation: str, device_ids: range) -> None:
    detected = simulate(spec)
    assert detected.generation == generation
    assert [device.device_id for device in detected.devices] == list(device_ids)
    assert [device.logical_id for device in detected.devices] == list(range(len(device_ids)))


@pytest.mark.parametrize(
    "spec", ["", ":", "x", "0", "910b:", "910b:0", "a4:8", "910b:x", "8:910b", "-1", "129", "a3:33", "²"]
)
def test_nonsense_is_refused_with_the_forms(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        simulate(spec)
    assert "wanted" in str(caught.value)
    assert repr(spec) in str(caught.value)


def test_no_two_simulated_devices_of_a_job_share_an_address() -> None:
    nodes = [simulate("910b:128", node_rank) for node_rank in range(5)]
    addresses = [device.device_ip for node in nodes for device in node.devices]
    assert len(set(addresses)) == 5 * 128


def test_a_simulated_a3_has_a_place_in_a_super_pod() -> None:
    detected = simulate("a3:16", node_rank=40)
    assert detected.super_pod_id == "0"
    assert detected.devices[11].super_device_id == "169148427"
    assert detected.devices[11][3:5] == (5, 1)
    assert simulate("8").devices[0].super_device_id is None


def test_simulated_inference_cards_have_no_network() -> None:
    assert {device.device_ip for device in simulate("310p:2").devices} == {None}


@pytest.mark.parametrize(
    ("text", "ids"), [("0", (0,)), ("0,2-3", (0, 2, 3)), ("10-12,15", (10, 11, 12, 15)), ("3-3", (3,))]
)
def test_the_devices_option_takes_ids_and_ranges(text: str, ids: tuple) -> None:
    assert parse_devices_option(text) == ids


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a number is missing"),
        ("0,", "a number is missing"),
        ("0, 1", "' 1' is not a number or a range"),
        ("3-1", "3-1 runs backwards"),
        ("1,1", "ids must ascend, each once"),
        ("2,0", "ids must ascend, each once"),
        ("0-3,2", "ids must ascend, each once"),
        ("1-99999999", "beyond 4095"),
        ("²", "is not a number"),
        ("-1", "is not a number"),
    ],
)
def test_the_devices_option_refuses_everything_else(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_devices_option(text)
    assert problem in str(caught.value)
    assert f"--devices {text!r}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem", "fate"),
    [
        ("1, 2,3", "' 2' is not made of digits alone", "silently use 1 alone"),
        ("1,3,8", "8 is out of range", "silently use 1,3 alone"),
        ("2,1", "1 comes after 2", "silently use 2 alone"),
        ("1,1", "1 comes twice", "refuses an id that comes twice"),
        ("", "an id is missing", "find no device at all"),
        ("0,,1", "an id is missing", "silently use 0 alone"),
        ("0-3", "'0-3' is not made of digits alone", "find no device at all"),
    ],
)
def test_the_runtime_variable_is_refused_with_what_the_runtime_would_do(text: str, problem: str, fate: str) -> None:
    with pytest.raises(DeviceError) as caught:
        parse_visible_devices(text, 8)
    assert problem in str(caught.value)
    assert fate in str(caught.value)


def test_the_runtime_variable_is_taken_as_it_is_where_it_is_right() -> None:
    assert parse_visible_devices("0,3,7", 8) == (0, 3, 7)


def test_selected_devices_keep_their_ids() -> None:
    detected = select(simulate("910b:0,3,4,7"), (1, 3))
    assert isinstance(detected, Detected)
    assert [(device.logical_id, device.device_id) for device in detected.devices] == [(1, 3), (3, 7)]


def test_a_device_that_is_not_there_cannot_be_selected() -> None:
    with pytest.raises(DeviceError, match=r"no device with logical id 4: this machine has 0, 1 \(physical 0, 1\)"):
        select(simulate("2"), (1, 4))


@pytest.mark.parametrize("text", ["0,npu-1", "npu-0,Ascend910-1", "npu-x", "1;2", "3,1"])
def test_mixed_or_broken_container_devices_are_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="ASCEND_VISIBLE_DEVICES="):
        parse_container_devices(text)
