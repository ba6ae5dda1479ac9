"""What signals to the launcher do: stop the job, be passed on, or stay ignored."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from helpers.launcher import ROOT, Launcher
from helpers.processes import has_ended, state
from helpers.streams import Stream, gather_until

STOPPING = [("SIGTERM", 143), ("SIGINT", 130), ("SIGHUP", 129), ("SIGQUIT", 131)]


@pytest.mark.parametrize(("name", "status"), STOPPING)
def test_a_stopping_signal_ends_the_job_with_its_own_status(launch: Launcher, name: str, status: int) -> None:
    with launch("leaves_grandchild.py", "session", "waits") as running:
        running.read_until("ready", times=2)
        running.send_signal(getattr(signal, name))
        ended = running.end()
    assert ended.status == status, ended
    assert f"davincirun: stopped by {name} after " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert launch.carriers() == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_workers_are_told_with_the_signal_they_know(launch: Launcher, name: str) -> None:
    with launch("prints_signals.py") as running:
        running.read_until("ready", times=2)
        running.send_signal(getattr(signal, name))
        running.wait()
        assert running.stdout.count(f"got {name}") == 2


def test_a_signal_to_the_supervisor_does_the_same(launch: Launcher) -> None:
    with launch("waits.py") as running:
        running.read_until("ready", times=2)
        os.kill(running.supervisor, signal.SIGTERM)
        assert running.wait() == 143


def test_what_workers_say_while_they_stop_is_kept(launch: Launcher) -> None:
    with launch("saves_on_sigterm.py", workers=4) as running:
        running.read_until("ready", times=4)
        running.send_signal(signal.SIGTERM)
        ended = running.end()
    for rank in range(4):
        assert f"saved {rank}" in ended.stdout
        assert ended.log(rank).endswith(f"saving {rank}\nsaved {rank}\n".encode())


def test_workers_deaf_to_sigterm_share_one_grace(launch: Launcher) -> None:
    with launch("ignores_sigterm.py", workers=4, options=["--grace", "0.5"]) as running:
        running.read_until("ready", times=4)
        running.send_signal(signal.SIGTERM)
        started = time.monotonic()
        ended = running.end()
    assert ended.status == 143
    assert 0.5 <= time.monotonic() - started < 1.9  # four graces one after the other would be 2
    assert "had to be killed after the grace of 0.5 s: ranks 0-3" in ended.stderr


def test_deaf_workers_outlive_a_failure_by_no_more_than_the_grace(launch: Launcher) -> None:
    with launch("ignores_sigterm.py", workers=4, options=["--grace", "0.3"]) as running:
        running.read_until("ready", times=4)
        os.kill(running.pids()[1], signal.SIGKILL)
        ended = running.end()
    assert ended.status == 137
    assert "had to be killed after the grace of 0.3 s: ranks 0, 2-3" in ended.stderr
    assert launch.carriers() == []


def test_a_second_sigint_kills_at_once(launch: Launcher) -> None:
    with launch("prints_signals_deafly.py", options=["--grace", "600"]) as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGINT)
        running.read_until("got SIGINT", times=2)
        running.send_signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130
    assert "had to be killed: ranks 0-1" in ended.stderr
    assert launch.carriers() == []


def test_a_second_sigterm_does_not_shorten_the_grace(launch: Launcher) -> None:
    with launch("prints_signals_deafly.py", workers=1, options=["--grace", "0.5"]) as running:
        running.read_until("ready")
        started = time.monotonic()
        running.send_signal(signal.SIGTERM)
        running.read_until("got SIGTERM")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
        assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGUSR2", "SIGWINCH"])
def test_other_signals_are_passed_on_and_end_nothing(launch: Launcher, name: str) -> None:
    with launch("prints_signals.py") as running:
        running.read_until("ready", times=2)
        running.send_signal(getattr(signal, name))
        running.read_until(f"got {name}", times=2)
        running.send_signal(signal.SIGTERM)
        ended = running.end()
    assert ended.stdout.count(f"got {name}") == 2


def test_a_signal_passed_on_is_not_for_workers_children(launch: Launcher) -> None:
    """USR1 would kill the grandchild, and is deadly to what doesn't expect it."""
    with launch("has_a_child.py") as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGUSR1)
        running.read_until("got SIGUSR1", times=2)
        assert running.stdout.count("child is alive") == 2
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143


def test_stop_and_continue_reach_launcher_and_workers(launch: Launcher) -> None:
    with launch("waits.py") as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(running.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        _await_states(running.pids().values(), "T")
        running.send_signal(signal.SIGCONT)
        _await_states(running.pids().values(), "S")
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143


def test_stopped_workers_end_at_sigterm_without_the_grace(launch: Launcher) -> None:
    with launch("waits.py", options=["--grace", "600"]) as running:
        running.read_until("ready", times=2)
        for pid in running.pids().values():
            os.kill(pid, signal.SIGSTOP)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143


def test_under_nohup_a_hangup_is_ignored(launch: Launcher) -> None:
    with launch("prints_signals.py", wrap=["nohup"]) as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGHUP)
        running.send_signal(signal.SIGUSR1)
        running.read_until("got SIGUSR1", times=2)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
        assert "SIGHUP" not in running.stdout + running.stderr


def test_a_shells_background_job_ignores_sigint(launch: Launcher) -> None:
    with launch("prints_signals.py", wrap=["sh", "-c", 'trap "" INT QUIT; exec "$@"', "sh"]) as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGINT)
        running.send_signal(signal.SIGQUIT)
        running.send_signal(signal.SIGUSR1)
        running.read_until("got SIGUSR1", times=2)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
        assert "got SIGINT" not in running.stdout


def test_signals_that_were_blocked_are_heard_and_not_blocked_in_workers(launch: Launcher) -> None:
    """A program that blocks signals in the thread that starts us passes its mask on."""
    blocked = [sys.executable, "-S", os.path.join(ROOT, "tests", "helpers", "with_blocked_signals.py")]
    with launch("prints_signals.py", wrap=blocked) as running:
        running.read_until("ready", times=2)
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
    assert launch.run("grep", "SigBlk", "/proc/self/status", wrap=blocked).stdout.split()[1::2] == ["0" * 16] * 2


def test_an_ignored_sigchld_takes_no_status_away(launch: Launcher) -> None:
    ended = launch.run("exits_with.py", "3", wrap=["sh", "-c", 'trap "" CHLD; exec "$@"', "sh"])
    assert ended.status == 3


def test_ctrl_c_on_a_terminal_reaches_each_worker_once(launch: Launcher) -> None:
    """The terminal's own SIGINT must not add to ours."""
    ours, terminal = pty.openpty()
    on_terminal = [sys.executable, "-S", os.path.join(ROOT, "tests", "helpers", "on_terminal.py")]
    command = [*on_terminal, *launch.way, "--log-dir", launch.log_dir, "--simulate", "3"]
    worker = [sys.executable, "-S", os.path.join(ROOT, "tests", "workers", "counts_sigints.py")]
    process = subprocess.Popen(
        [*command, *worker], env=launch.environ, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    screen = Stream(ours)
    deadline = time.monotonic() + 30
    assert gather_until(lambda: screen.data.count(b"ready") >= 3, [screen], deadline), screen.data
    os.write(ours, b"\x03")
    assert gather_until(lambda: screen.data.count(b"SIGINTs: ") >= 3, [screen], deadline), screen.data
    gather_until(lambda: False, [screen], deadline)
    screen.close()
    assert process.wait(30) == 130
    assert screen.data.count(b"SIGINTs: 1") == 3


def _await_states(pids, letter: str) -> None:
    """A stop is done by the kernel when each of the process's threads is next scheduled."""
    deadline = time.monotonic() + 10
    for pid in pids:
        while state(pid) != letter and time.monotonic() < deadline:
            has_ended(pid, 0.005)
        assert state(pid) == letter
