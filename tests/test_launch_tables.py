"""Launches from rank tables: awaited, refused, converted, copied, shared by pods; and launches without any."""

from __future__ import annotations

import glob
import json
import os
import stat
import time

import pytest
from helpers.launcher import Launcher
from helpers.tables import group_list, server, table, text


def described(folder, rank: int) -> dict:
    """What a worker of describes_itself.py wrote."""
    return json.loads((folder / f"{rank}.json").read_text())


@pytest.fixture
def path(tmp_path):
    """Where the table is, or will be."""
    return tmp_path / "table.json"


# Waiting.


@pytest.mark.parametrize("before", [None, table(2)[:150], text("initializing")])
def test_a_table_is_awaited_until_it_is_complete(launch: Launcher, path, before: str) -> None:
    if before is not None:
        path.write_text(before)
    with launch("waits.py", workers=None, options=["--rank-table", str(path)]) as running:
        running.read_until(f"waiting for the rank table {path} (--rank-table): ", among="stderr")
        path.write_text(table(2))
        started = time.monotonic()
        running.read_until("ready", times=2)
        assert time.monotonic() - started < 2
        assert "Traceback" not in running.stderr


def test_a_table_put_in_place_by_rename_is_noticed(launch: Launcher, path) -> None:
    """As ConfigMaps and careful controllers do it; into a folder that wasn't there either."""
    folder = path.parent / "later"
    with launch("waits.py", workers=None, env={"RANK_TABLE_FILE": str(folder)}) as running:
        running.read_until(f"waiting for the rank table {folder}/jobstart_hccl.json", among="stderr")
        folder.mkdir()
        path.write_text(table(2))
        os.rename(path, folder / "jobstart_hccl.json")
        running.read_until("ready", times=2)


def test_a_table_that_never_completes_is_given_up(launch: Launcher, path) -> None:
    path.write_text(text("initializing"))
    ended = launch.run("true", workers=None, options=["--rank-table", str(path), "--rank-table-timeout", "0.2"])
    assert ended.status == 1
    assert f"davincirun: {path}: not usable after 0.2 s: " in ended.stderr
    assert "initializing" in ended.stderr
    assert "--rank-table-timeout waits longer" in ended.stderr


def test_a_table_that_never_comes_is_given_up(launch: Launcher, path) -> None:
    env = {"RANK_TABLE_FILE_V_1_0": str(path), "DAVINCIRUN_RANK_TABLE_TIMEOUT": "0.1"}
    ended = launch.run("true", workers=None, env=env)
    assert ended.status == 1
    assert f"davincirun: {path}: not usable after 0.1 s: it is not there" in ended.stderr


def test_sigterm_ends_the_waiting(launch: Launcher, path) -> None:
    with launch("true", workers=None, options=["--rank-table", str(path)]) as running:
        running.read_until("waiting for", among="stderr")
        running.send_signal(15)
        assert running.wait() == 143
        assert "davincirun: stopped by SIGTERM before any worker was started" in running.stderr


# Tables that can't be used.


def test_a_duplicate_rank_is_refused_with_its_place(launch: Launcher, path) -> None:
    path.write_text(table(4).replace('"rank_id": "3"', '"rank_id": "2"'))
    ended = launch.run("true", workers=None, options=["--rank-table", str(path)])
    assert ended.status == 1
    assert f"davincirun: {path}: server_list[0].device[3].rank_id: " in ended.stderr
    assert ended.stdout == "" and "Traceback" not in ended.stderr


def test_a_folder_in_the_tables_place_is_refused(launch: Launcher, path) -> None:
    path.mkdir()
    ended = launch.run("true", workers=None, env={"RANK_TABLE_FILE_V_1_0": str(path)})
    assert ended.status == 1
    assert f"davincirun: {path}: can't be read: Is a directory" in ended.stderr


def test_an_unreadable_table_is_refused(launch: Launcher, path) -> None:
    path.write_text(table(2))
    path.chmod(0)
    as_anybody = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]  # what lets root read everything
    wrap = as_anybody if os.geteuid() == 0 else []
    ended = launch.run("true", workers=None, options=["--rank-table", str(path)], wrap=wrap)
    assert ended.status == 1, ended
    assert f"davincirun: {path}: can't be read: Permission denied" in ended.stderr


def test_a_machine_that_is_in_no_server_of_the_table_is_told(launch: Launcher, path) -> None:
    servers = [server("203.0.113.1", [0]), server("203.0.113.2", [1])]
    path.write_text(text(version="1.0", server_count="2", server_list=servers))
    ended = launch.run("true", workers=None, options=["--rank-table", str(path)])
    assert ended.status == 1
    assert (
        "no server of the rank table is this machine: 203.0.113.1, 203.0.113.2; set MA_CURRENT_HOST_IP" in ended.stderr
    )


# Which workers start, and what table they see.


def test_the_server_that_the_platform_names_starts_its_own_ranks(launch: Launcher, path) -> None:
    servers = [server("203.0.113.1", [0, 1]), server("203.0.113.2", [2, 3])]
    path.write_text(text(version="1.0", server_count="2", server_list=servers))
    env = {"RANK_TABLE_FILE": str(path), "MA_CURRENT_HOST_IP": "203.0.113.2"}
    ended = launch.run("describes_itself.py", launch.folder, workers=None, env=env)
    assert ended.status == 0, ended
    assert sorted(os.path.basename(name) for name in glob.glob(f"{launch.folder}/[0-9].json")) == ["2.json", "3.json"]
    described_3 = described(path.parent, 3)["env"]
    assert (described_3["LOCAL_RANK"], described_3["NODE_RANK"], described_3["WORLD_SIZE"]) == ("1", "1", "4")
    assert described_3["MASTER_ADDR"] == "203.0.113.1"


def test_two_pods_on_one_server_start_only_their_own_cards(launch: Launcher, tmp_path) -> None:
    """Pods are ordered by the number in their names: 10 comes after 2."""
    (tmp_path / "jobstart_hccl.json").write_text(group_list({"job-10": [4, 5], "job-2": [0, 1]}))
    env = {"RANK_TABLE_FILE": str(tmp_path), "MA_CURRENT_INSTANCE_NAME": "job-10", "MA_HOME": str(tmp_path / "home")}
    ended = launch.run("describes_itself.py", str(tmp_path), workers=None, env=env)
    assert ended.status == 0, ended
    assert sorted(os.path.basename(name) for name in glob.glob(f"{tmp_path}/[0-9].json")) == ["2.json", "3.json"]
    worker = described(tmp_path, 2)
    assert (worker["env"]["DEVICE_ID"], worker["env"]["RANK_SIZE"]) == ("0", "4")
    assert worker["env"]["RANK_TABLE_FILE"] == str(tmp_path / "home" / "rank_table" / "jobstart_hccl.json")
    converted = json.loads(worker["table"])
    assert (converted["version"], converted["server_count"]) == ("1.0", "1")
    assert [device["rank_id"] for device in converted["server_list"][0]["device"]] == ["0", "1", "2", "3"]


def test_a_linked_table_is_handed_on_as_a_regular_copy(launch: Launcher, path) -> None:
    real = path.parent / "real.json"
    real.write_text(table(2))
    path.symlink_to(real)
    ended = launch.run("describes_itself.py", launch.folder, workers=None, options=["--rank-table", str(path)])
    assert ended.status == 0, ended
    worker = described(path.parent, 0)
    given = worker["env"]["RANK_TABLE_FILE"]
    assert not worker["table_is_link"] and worker["table"] == table(2)
    assert given.endswith(".json")
    assert stat.S_IMODE(os.stat(given).st_mode) == 0o644


def test_simulated_cards_get_a_table_beside_the_logs(launch: Launcher, tmp_path) -> None:
    ended = launch.run("describes_itself.py", str(tmp_path), workers=2)
    assert ended.status == 0, ended
    worker = described(tmp_path, 1)
    assert worker["env"]["RANK_TABLE_FILE"].startswith(launch.log_dir)
    made = json.loads(worker["table"])
    assert (made["status"], made["version"], len(made["server_list"][0]["device"])) == ("completed", "1.0", 2)


# No table at all.


@pytest.mark.skipif(bool(glob.glob("/dev/davinci[0-9]*")), reason="there are cards here")
def test_a_machine_without_cards_is_told_where_they_were_looked_for(launch: Launcher, tmp_path) -> None:
    ended = launch.run("true", workers=None, env={"PATH": str(tmp_path)})
    assert ended.status == 1
    for word in ("no cards found", "/dev", "npu-smi", "nvidia-smi", "--simulate 8", "GPU engine"):
        assert word in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_cards_that_npu_smi_shows_are_used(launch: Launcher, tmp_path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "npu-smi").write_text(NPU_SMI)
    (tools / "npu-smi").chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    ended = launch.run("describes_itself.py", str(tmp_path), workers=None, env=env)
    if glob.glob("/dev/davinci[0-9]*"):
        pytest.skip("there are cards here")
    assert ended.status == 0, ended
    devices = json.loads(described(tmp_path, 1)["table"])["server_list"][0]["device"]
    assert [device["device_id"] for device in devices] == ["0", "1"]


NPU_SMI = """#!/bin/sh
[ "$*" = "info -m" ] || exit 1
cat <<END
	NPU ID                         Chip ID                        Chip Logic ID                  Chip Name
	0                              0                              0                              Ascend 910B3
	0                              1                              -                              Mcu
	1                              0                              1                              Ascend 910B3
	1                              1                              -                              Mcu
END
"""
