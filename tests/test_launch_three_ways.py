"""The launcher end to end in each way that users start it: in a checkout, installed, and as the single file."""

from __future__ import annotations

import json
import os
import signal

import pytest
from helpers.launcher import JOB, Launcher
from helpers.processes import carriers_after
from helpers.tables import table


@pytest.mark.parametrize(
    ("how", "status"), [("0", 0), ("3", 3), ("255", 255), ("SIGKILL", 128 + 9), ("SIGSEGV", 128 + 11)]
)
def test_the_status_is_the_workers(launch_each_way: Launcher, how: str, status: int) -> None:
    ended = launch_each_way.run("exits_with.py", how)
    assert ended.status == status, ended


def test_a_failed_worker_ends_the_others(launch_each_way: Launcher) -> None:
    ended = launch_each_way.run("exits_with.py", "3", "1", workers=4)
    assert ended.status == 3, ended
    assert "rank 1 failed first: it ended with exit status 3" in ended.stderr
    assert "0 processes left" in ended.stderr


def test_sigterm_reaches_every_worker(launch_each_way: Launcher) -> None:
    with launch_each_way("prints_signals.py") as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 128 + signal.SIGTERM
        assert running.stdout.count("got SIGTERM") == 2


def test_nothing_is_left_when_the_launcher_is_killed(launch_each_way: Launcher) -> None:
    with launch_each_way("leaves_grandchild.py", "session", "waits") as running:
        running.read_until("ready", times=2)
        os.kill(running.pid, signal.SIGKILL)
        assert carriers_after(launch_each_way.marker, 1) == []


def test_output_goes_to_the_console_and_to_a_file_per_rank(launch_each_way: Launcher) -> None:
    ended = launch_each_way.run("prints.py", r"to stdout\n", r"to stderr\n")
    assert ended.status == 0, ended
    assert sorted(ended.stdout.splitlines()) == ["to stderr"] * 2 + ["to stdout"] * 2
    assert ended.log(0) == ended.log(1) == b"to stdout\nto stderr\n"


def test_arguments_reach_the_worker_byte_for_byte(launch_each_way: Launcher, tmp_path) -> None:
    arguments = ["", "a b", "'\"$HOME`x`\\", "two\nlines", os.fsdecode(b"\xff\xfe"), "~", "*", "{}"]
    arguments += ["--simulate", "-q", "--", "--help"]
    ended = launch_each_way.run("describes_itself.py", str(tmp_path), *arguments, workers=1)
    assert ended.status == 0, ended
    assert description(tmp_path, 0)["argv"] == arguments


def test_a_platforms_table_is_used(launch_each_way: Launcher, tmp_path) -> None:
    path = tmp_path / "table.json"
    path.write_text(table(2))
    env = {"RANK_TABLE_FILE_V_1_0": str(path)}
    ended = launch_each_way.run("describes_itself.py", str(tmp_path), workers=None, env=env)
    assert ended.status == 0, ended
    assert description(tmp_path, 1)["env"]["RANK_TABLE_FILE"] == str(path)
    assert description(tmp_path, 1)["table"] == table(2)


def test_a_plan_can_be_had_as_json(launch_each_way: Launcher) -> None:
    ended = launch_each_way.run("train", workers=8, options=["--dry-run", "--json"])
    assert ended.status == 0, ended
    plan = json.loads(ended.stdout)
    assert (plan["job_id"], plan["world_size"], len(plan["workers"])) == (JOB, 8, 8)


def test_no_command_is_a_usage_error(launch_each_way: Launcher) -> None:
    ended = launch_each_way.run(workers=None)
    assert ended.status == 1
    assert ended.stderr.startswith("davincirun: no command to start\nusage: davincirun [OPTIONS] [--] COMMAND")


def test_an_unknown_option_is_told_with_the_nearest(launch_each_way: Launcher) -> None:
    ended = launch_each_way.run("true", options=["--simulte", "2"], workers=None)
    assert ended.status == 1
    assert "davincirun: unknown option --simulte: did you mean --simulate?" in ended.stderr
    assert "Traceback" not in ended.stderr


def description(folder, rank: int) -> dict:
    """What a worker of describes_itself.py wrote."""
    return json.loads((folder / f"{rank}.json").read_text())
