"""What a worker finds: its arguments, variables, directory, descriptors, signals and limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest
from helpers.launcher import Launcher

GLIBC_IGNORES = 0b11 << 31  # its two signals of its own, in whatever posix_spawn has started: these tests, say


@pytest.fixture
def describe(launch: Launcher, tmp_path):
    """Runs workers that describe themselves; their descriptions by rank."""

    def run(*arguments: str, workers: int = 2, **how) -> list:
        ended = launch.run("describes_itself.py", str(tmp_path), *arguments, workers=workers, **how)
        assert ended.status == 0, ended
        return [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(workers)]

    return run


def test_each_rank_knows_who_it_is(describe) -> None:
    for rank, worker in enumerate(describe(workers=4)):
        env = worker["env"]
        for name in ("RANK_ID", "RANK", "LOCAL_RANK", "DEVICE_ID", "ASCEND_DEVICE_ID"):
            assert env[name] == str(rank)
        for name in ("RANK_SIZE", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "DEVICE_NUM"):
            assert env[name] == "4"
        assert env["JOB_ID"] == "job"


def test_all_ranks_meet_at_one_port(describe) -> None:
    workers = describe()
    assert {worker["env"]["MASTER_ADDR"] for worker in workers} == {"127.0.0.1"}
    assert len({worker["env"]["MASTER_PORT"] for worker in workers}) == 1


def test_an_inherited_identity_is_not_believed(describe) -> None:
    strangers = {"RANK": "7", "LOCAL_RANK": "7", "RANK_ID": "7", "WORLD_SIZE": "99", "MS_ROLE": "MS_WORKER"}
    worker = describe(env=strangers)[1]
    assert (worker["env"]["RANK"], worker["env"]["WORLD_SIZE"]) == ("1", "2")
    assert "MS_ROLE" not in worker["env"]


def test_values_that_the_user_set_stand(describe) -> None:
    chosen = {"OMP_NUM_THREADS": "7", "MASTER_PORT": "12345", "PYTHONUNBUFFERED": "", "HCCL_CONNECT_TIMEOUT": "60"}
    env = describe(env=chosen)[0]["env"]
    assert {name: env[name] for name in chosen} == chosen


@pytest.mark.parametrize(
    "value",
    ["two\nlines", 'a "b" {"k": [1]} $(x) ;\\ \'q\' 64(x2) ==', "中文", os.fsdecode(b"\xff\xfe"), "", "x" * 120000],
    ids=["newline", "quotes", "non-ASCII", "no UTF-8", "empty", "long"],
)
def test_values_arrive_unchanged(describe, value: str) -> None:
    assert describe(env={"SOME_VALUE": value})[1]["env"]["SOME_VALUE"] == value


def test_a_megabyte_of_environment_arrives(describe) -> None:
    variables = {f"BIG_{number}": "x" * 120000 for number in range(10)}
    env = describe(workers=1, env=variables)[0]["env"]
    assert all(env[name] == value for name, value in variables.items())


def test_options_after_the_command_are_the_workers(describe) -> None:
    arguments = ["--grace", "x", "--simulate", "-q", "--", "--", "--dry-run", "--help"]
    assert describe(*arguments)[0]["argv"] == arguments


def test_a_double_dash_ends_our_own_options(launch: Launcher) -> None:
    ended = launch.run("--", "sh", "-c", "echo $0 $1", "--", "-x", workers=1)
    assert ended.stdout == "-- -x\n"


def test_workers_start_where_the_launcher_was_started(describe, tmp_path) -> None:
    assert {worker["cwd"] for worker in describe()} == {str(tmp_path)}


def test_a_working_directory_can_be_named(describe, tmp_path) -> None:
    assert describe(options=["--workdir", "new/place"])[1]["cwd"] == str(tmp_path / "new" / "place")


def test_a_platforms_workspace_has_a_folder_per_device(describe, tmp_path) -> None:
    workers = describe(env={"FMK_WORKSPACE": str(tmp_path / "ws")})
    assert [worker["cwd"] for worker in workers] == [str(tmp_path / "ws" / f"device{rank}") for rank in range(2)]


def test_a_workspace_that_cannot_be_made_is_explained(launch: Launcher, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    ended = launch.run("true", env={"FMK_WORKSPACE": str(tmp_path / "file")})
    assert ended.status == 1
    assert f"{tmp_path}/file/device0: the working directory can't be made there: Not a directory" in ended.stderr
    assert "--workdir" in ended.stderr and "Traceback" not in ended.stderr


def test_a_read_only_workspace_is_explained(launch: Launcher, tmp_path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    read_only = 'mount -t tmpfs -o ro tmpfs "$0" && exec "$@"'
    wrap = ["unshare", "-m", "sh", "-c", read_only, str(folder)]
    if subprocess.call([*wrap, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("file systems can't be mounted here")
    ended = launch.run("true", env={"FMK_WORKSPACE": str(folder)}, wrap=wrap)
    assert ended.status == 1
    assert "device0: the working directory can't be made there: Read-only file system" in ended.stderr


def test_a_current_directory_that_is_gone_is_explained(launch: Launcher, tmp_path) -> None:
    (tmp_path / "gone").mkdir()
    wrap = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh"]
    ended = launch.run("true", wrap=wrap, cwd=str(tmp_path / "gone"))
    assert ended.status == 1
    assert "davincirun: the current directory is gone (No such file or directory): --workdir" in ended.stderr
    (tmp_path / "gone").mkdir()
    assert launch.run("true", wrap=wrap, cwd=str(tmp_path / "gone"), options=["--workdir", "/"]).status == 0


def test_paths_may_hold_blanks_and_any_script(launch: Launcher, tmp_path) -> None:
    folder = tmp_path / "a b" / "中"
    folder.mkdir(parents=True)
    (folder / "t r.sh").write_text('echo ran in "$PWD"')
    options = ["--log-dir", str(folder / "l g"), "--workdir", str(folder / "w s")]
    ended = launch.run("sh", str(folder / "t r.sh"), options=options, env={"LANG": "C"})
    assert ended.status == 0, ended
    assert ended.output.decode().count(f"ran in {folder}/w s\n") == 2
    assert (folder / "l g" / "job-proc-rank-1-device-1.txt").read_text() == f"ran in {folder}/w s\n"


def test_only_the_standard_descriptors_are_inherited(describe) -> None:
    read_fd, write_fd = os.pipe()
    try:
        workers = describe(workers=4, pass_fds=(read_fd, write_fd))
    finally:
        os.close(read_fd)
        os.close(write_fd)
    assert [worker["descriptors"] for worker in workers] == [[0, 1, 2]] * 4


def test_no_signal_is_blocked_or_ignored(describe) -> None:
    """Python itself ignores SIGPIPE and SIGXFSZ, in the launcher and in a worker that is Python."""
    python_ignores = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    for worker in describe():
        assert (worker["blocked"], worker["ignored"] & ~python_ignores & ~GLIBC_IGNORES) == (0, 0)


def test_a_workers_sigpipe_is_the_default_one(launch: Launcher) -> None:
    ended = launch.run("grep", "-E", "SigBlk|SigIgn", "/proc/self/status", workers=1)
    blocked, ignored = (int(line.split()[1], 16) for line in ended.stdout.splitlines())
    assert (blocked, ignored & ~GLIBC_IGNORES) == (0, 0)


def test_each_worker_leads_a_session_of_its_own(describe) -> None:
    assert all(worker["is_group_leader"] for worker in describe())


def test_a_low_limit_of_open_files_is_no_obstacle_and_stays_the_workers_own(launch: Launcher) -> None:
    wrap = ["sh", "-c", 'ulimit -Sn 128; exec "$@"', "sh"]
    ended = launch.run("sh", "-c", "ulimit -Sn", workers=100, wrap=wrap)
    assert ended.status == 0, ended
    assert ended.stdout.splitlines() == ["128"] * 100


def test_workers_keep_the_cpus_that_the_launcher_was_given(launch: Launcher) -> None:
    cpu = min(os.sched_getaffinity(0))
    ended = launch.run("grep", "Cpus_allowed_list", "/proc/self/status", wrap=["taskset", "-c", str(cpu)])
    assert ended.stdout.split() == ["Cpus_allowed_list:", str(cpu)] * 2
    assert "OMP_NUM_THREADS=1: 1 cores, shared by 2 workers" in ended.stderr


def test_a_lone_worker_has_the_launchers_stdin_and_several_have_none(launch: Launcher) -> None:
    for workers, expected in ((1, "typed\n"), (2, "")):
        with launch("cat", workers=workers, stdin=subprocess.PIPE) as running:
            running.type(b"typed\n")
            assert running.wait() == 0
            assert running.stdout == expected


def test_the_launcher_is_quiet_inside_a_pid_namespace_and_reaps_its_strangers(launch: Launcher) -> None:
    wrap = ["unshare", "-pf", "--kill-child", "--mount-proc"]
    if subprocess.call([*wrap, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("namespaces can't be made here")
    with launch("orphans_processes.py", "20", workers=1, wrap=wrap) as running:
        running.read_until("orphans: 20, zombies: 0")
        ended = running.end()
    assert ended.status == 0, ended


def test_orphans_of_workers_leave_no_zombies_while_the_job_runs(launch: Launcher) -> None:
    ended = launch.run("orphans_processes.py", "20", workers=2)
    assert ended.status == 0, ended
    assert ended.stdout.count("orphans: 20, zombies: 0") == 2
