"""Where a launch's rank table comes from, and what is made of it."""

from __future__ import annotations

import json
import time
from typing import Any, Callable, List, Optional, Sequence

import pytest
from helpers.tables import group_list, server, table, text

from davincirun.errors import DeviceError, RankTableError, UsageError
from davincirun.messages import Messages
from davincirun.options import Options
from davincirun.sink import Sink
from davincirun.tables import DEFAULT_PATH, Found, Places, find_table, table_source

PLACES = Places("/shared/rank_table/jobstart_hccl.json", "/logs/job/rank_table/hccl_1.json")


# Which file.


@pytest.mark.parametrize(
    ("option", "environ", "there", "source"),
    [
        (None, {}, [], None),
        (None, {}, [DEFAULT_PATH], (DEFAULT_PATH, "the platform's default")),
        (None, {"RANK_TABLE_FILE_V_1_0": "/v1.json"}, [DEFAULT_PATH], ("/v1.json", "RANK_TABLE_FILE_V_1_0")),
        (
            None,
            {"RANK_TABLE_FILE_V_1_0": "/v1.json", "RANK_TABLE_FILE": "/t.json"},
            [],
            ("/v1.json", "RANK_TABLE_FILE_V_1_0"),
        ),
        (None, {"RANK_TABLE_FILE": "/t.json"}, [], ("/t.json", "RANK_TABLE_FILE")),
        (None, {"RANK_TABLE_FILE": "/folder"}, ["/folder"], ("/folder/jobstart_hccl.json", "RANK_TABLE_FILE")),
        (None, {"RANK_TABLE_FILE": "/not/yet"}, [], ("/not/yet/jobstart_hccl.json", "RANK_TABLE_FILE")),
        (None, {"RANK_TABLE_FILE": "", "RANK_TABLE_FILE_V_1_0": ""}, [], None),
        ("mine.json", {"RANK_TABLE_FILE_V_1_0": "/v1.json"}, [], ("mine.json", "--rank-table")),
        ("/folder", {}, ["/folder"], ("/folder/jobstart_hccl.json", "--rank-table")),
    ],
)
def test_the_table_is_looked_for_in_the_platforms_order(
    option: Optional[str], environ: dict, there: List[str], source: Optional[tuple]
) -> None:
    found = table_source(option, environ, lambda path: path in there, lambda path: path in there)
    assert found == source


# What is made of it.


def find(options: Optional[Options] = None, environ: Any = None, pause: Callable = lambda fds, seconds: None) -> Found:
    sink = Sink(2)
    try:
        return find_table(options or Options(()), environ or {}, PLACES, pause, Messages(sink, ""))
    finally:
        sink.close()


def test_a_complete_table_is_used_as_it_is(tmp_path) -> None:
    path = tmp_path / "table.json"
    path.write_text(table(2))
    found = find(environ={"RANK_TABLE_FILE_V_1_0": str(path)})
    assert (found.file.path, found.file.data, found.world_size) == (str(path), None, 2)


def test_the_platforms_form_is_converted_to_the_shared_place(tmp_path) -> None:
    (tmp_path / "jobstart_hccl.json").write_text(group_list({"job-1": [0, 1]}))
    found = find(environ={"RANK_TABLE_FILE": str(tmp_path)})
    assert found.file.path == PLACES.shared
    assert json.loads(found.file.data or b"")["version"] == "1.0"
    assert str(tmp_path / "jobstart_hccl.json") in found.file.origin


def test_a_link_is_copied_to_our_own_place(tmp_path) -> None:
    (tmp_path / "real").write_text(table(2))
    (tmp_path / "table.json").symlink_to(tmp_path / "real")
    found = find(Options((), rank_table=str(tmp_path / "table.json")))
    assert (found.file.path, found.file.data) == (PLACES.own, table(2).encode())


def test_simulated_cards_make_a_table(tmp_path) -> None:
    found = find(Options((), simulate="a3:4"))
    made = json.loads(found.file.data or b"")
    assert (found.file.path, found.world_size, made["version"]) == (PLACES.own, 4, "1.2")
    assert found.notes == ("simulated devices: nothing runs on an NPU",)


def test_chosen_cards_are_numbered_anew_and_made_visible() -> None:
    found = find(Options((), simulate="8", devices="2,5-6"))
    assert [(device.rank, device.device_id) for device in found.me.devices] == [(0, 2), (1, 5), (2, 6)]
    assert found.visible_devices == "2,5,6"


def test_the_users_visible_cards_are_the_ones_used() -> None:
    found = find(Options((), simulate="8"), {"ASCEND_RT_VISIBLE_DEVICES": "0,3"})
    assert [device.device_id for device in found.me.devices] == [0, 3]
    assert found.visible_devices is None


@pytest.mark.parametrize("value", ["0 ,1", "3,1", "1,1", "0,8", "x", "0,", "-1"])
def test_a_choice_that_the_runtime_would_cut_is_an_error(value: str) -> None:
    with pytest.raises(DeviceError, match="ASCEND_RT_VISIBLE_DEVICES"):
        find(Options((), simulate="8"), {"ASCEND_RT_VISIBLE_DEVICES": value})


def test_fewer_visible_cards_than_the_table_wants_is_an_error(tmp_path) -> None:
    path = tmp_path / "table.json"
    path.write_text(table(4))
    environ = {"RANK_TABLE_FILE_V_1_0": str(path), "ASCEND_RT_VISIBLE_DEVICES": "0,1"}
    with pytest.raises(DeviceError, match="2 cards are visible, but the rank table has 4"):
        find(environ=environ)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (Options((), simulate="8", rank_table="t.json"), "--simulate makes a rank table of its own"),
        (Options((), rank_table="t.json", devices="0"), "--devices: the rank table t.json says which cards are used"),
        (Options((), simulate="nonsense:x"), "simulate 'nonsense:x'"),
        (Options((), simulate="8", devices="3-1"), "--devices '3-1'"),
    ],
)
def test_options_that_contradict_are_refused(options: Options, words: str) -> None:
    with pytest.raises(UsageError) as error:
        find(options)
    assert words in str(error.value)


def test_a_card_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="no device with logical id 9"):
        find(Options((), simulate="8", devices="9"))


# Waiting.


def test_a_table_is_awaited_through_everything_that_waiting_may_cure(tmp_path) -> None:
    path = tmp_path / "table.json"
    stages = ["", "{", table(2)[:100], text("initializing"), table(2)]

    def next_stage(fds: Sequence[int], seconds: float) -> None:
        path.write_text(stages.pop(0))

    found = find(environ={"RANK_TABLE_FILE_V_1_0": str(path)}, pause=next_stage)
    assert (found.world_size, stages) == (2, [])


def test_a_table_that_waiting_cannot_cure_is_refused_at_once(tmp_path) -> None:
    path = tmp_path / "table.json"
    path.write_text(text(version="1.0", server_count="2", server_list=[server("10.0.0.1", [0, 0])]))
    with pytest.raises(RankTableError):
        find(environ={"RANK_TABLE_FILE_V_1_0": str(path)})


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "it is not there"), ("", "empty"), (text("initializing"), "initializing")]
)
def test_a_wait_that_is_given_up_says_what_was_wrong_last(tmp_path, content: Optional[str], reason: str) -> None:
    path = tmp_path / "table.json"
    if content is not None:
        path.write_text(content)
    started = time.monotonic()
    with pytest.raises(RankTableError) as error:
        find(Options((), rank_table=str(path), rank_table_timeout_seconds=0.05))
    assert time.monotonic() - started < 5
    assert str(path) in str(error.value) and reason in str(error.value)
    assert "--rank-table-timeout waits longer" in str(error.value)
