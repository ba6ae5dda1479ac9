"""How a launch ends: whose failure is reported, with which status, and that nothing of the job is left."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from helpers.launcher import WITHOUT_PIDFDS, Launcher, worker
from helpers.processes import carriers_after, has_ended
from helpers.tables import table


@pytest.fixture(params=["pidfds", "without pidfds"])
def launch_with_either(request, launch: Launcher) -> Launcher:
    """The launcher as newer and as older kernels let it see the ends of its workers."""
    return launch if request.param == "pidfds" else Launcher(launch.folder, launch.marker, WITHOUT_PIDFDS)


def test_an_unknown_command_is_127(launch: Launcher) -> None:
    ended = launch.run("no-such-command")
    assert ended.status == 127
    assert "rank 0 can't be started: no-such-command: command not found" in ended.stderr


def test_a_script_that_is_not_there_is_127(launch: Launcher, tmp_path) -> None:
    assert launch.run(str(tmp_path / "train.sh")).status == 127


@pytest.mark.parametrize("content", ["#!/bin/sh\n", "no program\n"])
def test_a_file_that_is_not_executable_is_126(launch: Launcher, tmp_path, content: str) -> None:
    script = tmp_path / "train.sh"
    script.write_text(content)
    script.chmod(0o644 if content.startswith("#!") else 0o755)
    ended = launch.run(str(script))
    assert ended.status == 126
    assert str(script) in ended.stderr and "Traceback" not in ended.stderr


def test_a_script_whose_interpreter_is_missing_is_explained(launch: Launcher, tmp_path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ended = launch.run(str(script))
    assert ended.status in (126, 127)
    assert "interpreter" in ended.stderr


@pytest.mark.parametrize(("how", "status"), [("0", 0), ("3", 3), ("SIGKILL", 137)])
def test_statuses_are_right_with_either_way_of_seeing_ends(launch_with_either: Launcher, how: str, status: int) -> None:
    ended = launch_with_either.run("exits_with.py", how, workers=4)
    assert ended.status == status, ended
    assert "0 processes left" in ended.stderr


def test_a_failure_after_others_have_succeeded_counts(launch: Launcher) -> None:
    with launch("prints_signals.py", workers=3) as running:
        running.read_until("ready", times=3)
        pids = running.pids()
        for rank in (0, 2):
            os.kill(pids[rank], signal.SIGTERM)  # ends it with 0
            assert has_ended(pids[rank], 10)
        os.kill(pids[1], signal.SIGKILL)
        assert running.wait() == 137


def test_a_death_by_signal_is_reported_by_its_name(launch: Launcher) -> None:
    ended = launch.run("exits_with.py", "SIGSEGV", "1")
    assert ended.status == 139
    assert "rank 1 failed first: it died of SIGSEGV" in ended.stderr


def test_the_first_of_two_failures_in_one_wake_up_is_the_cause(launch: Launcher) -> None:
    """Both ends lie before the supervisor when it wakes: the order in which they happened decides, not the rank."""
    with launch("exits_on_usr1.py", workers=4) as running:
        running.read_until("ready", times=4)
        pids = running.pids()
        os.kill(running.supervisor, signal.SIGSTOP)
        for rank in (2, 0, 3):
            os.kill(pids[rank], signal.SIGUSR1)
            assert has_ended(pids[rank], 10)
        os.kill(running.supervisor, signal.SIGCONT)
        ended = running.end()
    assert ended.status == 42, ended
    assert "rank 2 failed first" in ended.stderr


def test_statuses_that_our_own_sigterm_provoked_are_not_the_cause(launch: Launcher) -> None:
    with launch("exits_on_usr1.py", workers=4) as running:
        running.read_until("ready", times=4)
        os.kill(running.pids()[1], signal.SIGUSR1)
        assert running.wait() == 41


def test_the_report_tells_what_the_failed_rank_said_last(launch: Launcher) -> None:
    script = '[ "$RANK_ID" = 2 ] || exec sleep 300; seq -f "step %g" 500; echo "ValueError: the cause" >&2; exit 9'
    ended = launch.run("sh", "-c", script, workers=4)
    assert ended.status == 9
    report = ended.stderr[ended.stderr.index("davincirun: rank 2 failed first") :]
    assert "  | ValueError: the cause" in report
    assert report.count("  | ") == 20
    assert "job-proc-rank-2-device-2.txt" in report
    assert ended.log(2).count(b"step ") == 500


def test_success_is_one_line(launch: Launcher) -> None:
    ended = launch.run("true", workers=4)
    assert ended.status == 0
    assert "davincirun: 4 workers finished in " in ended.stderr


def test_a_quiet_launch_says_nothing_of_success(launch: Launcher, tmp_path) -> None:
    (tmp_path / "table.json").write_text(table(2))
    ended = launch.run("true", workers=None, options=["-q", "--rank-table", str(tmp_path / "table.json")])
    assert (ended.status, ended.stdout, ended.stderr) == (0, "", "")


def test_a_quiet_launch_still_reports_a_failure(launch: Launcher) -> None:
    ended = launch.run("exits_with.py", "3", options=["-q"])
    assert ended.status == 3
    assert "failed first" in ended.stderr


@pytest.mark.parametrize("where", ["group", "session"])
@pytest.mark.parametrize("status", [0, 3])
def test_what_a_worker_leaves_behind_is_ended(launch: Launcher, where: str, status: int) -> None:
    """It holds the output pipe open, too, which must not delay the end."""
    started = time.monotonic()
    ended = launch.run("leaves_grandchild.py", where, str(status), workers=2)
    assert ended.status == status, ended
    assert "0 processes left" in ended.stderr
    assert launch.carriers() == []
    assert time.monotonic() - started < 10  # the grace is 15


@pytest.mark.parametrize("where", ["group", "session"])
def test_what_a_worker_leaves_behind_is_killed_when_it_is_deaf(launch: Launcher, where: str) -> None:
    ended = launch.run("leaves_grandchild.py", where, "3", "deaf", workers=1, options=["--grace", "0.2"])
    assert ended.status == 3, ended
    assert "had to be killed after the grace of 0.2 s: what workers left behind" in ended.stderr
    assert launch.carriers() == []


@pytest.mark.parametrize("deaf", [[], ["deaf"]])
def test_nothing_is_left_when_the_guardian_is_killed(launch: Launcher, deaf: list) -> None:
    with launch("leaves_grandchild.py", "session", "waits", *deaf, workers=4) as running:
        running.read_until("ready", times=4)
        os.kill(running.pid, signal.SIGKILL)
        assert carriers_after(launch.marker, 1) == []
        assert running.wait() == 128 + signal.SIGKILL
        assert "the launcher was killed" in running.stderr


@pytest.mark.parametrize("deaf", [[], ["deaf"]])
def test_nothing_is_left_when_the_supervisor_is_killed(launch: Launcher, deaf: list) -> None:
    with launch("leaves_grandchild.py", "session", "waits", *deaf, workers=4) as running:
        running.read_until("ready", times=4)
        os.kill(running.supervisor, signal.SIGKILL)
        assert running.wait() == 128 + signal.SIGKILL
        assert launch.carriers() == []
        assert "the supervisor was killed by SIGKILL: job killed, 0 processes left" in running.stderr


def test_nothing_is_left_when_the_launchers_group_is_killed(launch: Launcher) -> None:
    with launch("leaves_grandchild.py", "session", "waits", start_new_session=True) as running:
        running.read_until("ready", times=2)
        os.killpg(running.pid, signal.SIGKILL)
        assert carriers_after(launch.marker, 1) == []


def test_nothing_is_left_when_the_guardian_is_killed_while_the_table_is_awaited(launch: Launcher, tmp_path) -> None:
    with launch("waits.py", workers=None, options=["--rank-table", str(tmp_path / "none.json")]) as running:
        running.read_until("waiting for the rank table", among="stderr")
        os.kill(running.pid, signal.SIGKILL)
        assert carriers_after(launch.marker, 1) == []


def test_a_stranger_with_the_same_command_and_rank_survives(launch: Launcher) -> None:
    stranger = subprocess.Popen(worker("waits.py"), env={"RANK_ID": "0"}, stdout=subprocess.PIPE)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline().startswith(b"ready 0")
        assert launch.run("exits_with.py", "3").status == 3
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.communicate()


def test_a_launcher_within_a_launcher_keeps_status_and_cleanliness(launch: Launcher) -> None:
    inner = [*launch.way, "--log-dir", launch.log_dir, "--job-id", "inner", "--simulate", "2", "sh", "-c", "exit 5"]
    ended = launch.run(*inner, workers=1)
    assert ended.status == 5, ended
    assert launch.carriers() == []


def test_two_launches_of_one_host_leave_each_other_alone(launch: Launcher) -> None:
    with launch("prints_signals.py") as other:
        other.read_until("ready", times=2)
        failed = launch.run("exits_with.py", "3", options=["--job-id", "another"])
        assert failed.status == 3
        other.send_signal(signal.SIGTERM)
        assert other.wait() == 143
        assert other.stdout.count("got SIGTERM") == 2


def test_sixty_four_workers_run_and_end(launch: Launcher) -> None:
    ended = launch.run("sh", "-c", "echo rank $RANK_ID", workers=64)
    assert ended.status == 0, ended
    assert sorted(ended.stdout.splitlines()) == sorted(f"rank {rank}" for rank in range(64))
    assert ended.log(63) == b"rank 63\n"
    assert "64 workers finished in" in ended.stderr


def test_the_first_of_sixty_four_to_fail_ends_all(launch: Launcher) -> None:
    ended = launch.run("sh", "-c", '[ "$RANK_ID" = 40 ] && exit 9; exec sleep 300', workers=64)
    assert ended.status == 9, ended
    assert launch.carriers() == []
