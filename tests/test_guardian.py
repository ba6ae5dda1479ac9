"""The guardian and the supervisor: statuses, signals and errors pass from one to the other."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.launcher import ROOT

GUARDED = """
import os, signal, sys
from davincirun.guardian import guarded

def supervise(lifeline_fd):
    {body}

sys.exit(guarded(supervise))
"""


def guarded(body: str) -> "subprocess.CompletedProcess[str]":
    """Run a guardian whose supervisor does `body`."""
    return subprocess.run(
        [sys.executable, "-c", GUARDED.format(body=body)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=30,
    )


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_the_supervisors_status_is_the_launchers(status: int) -> None:
    ended = guarded(f"return {status}")
    assert (ended.returncode, ended.stderr) == (status, "")


@pytest.mark.parametrize(("name", "status"), [("SIGKILL", 137), ("SIGSEGV", 139)])
def test_a_supervisor_that_dies_is_reported(name: str, status: int) -> None:
    body = f"import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), signal.{name})"
    ended = guarded(body)
    assert ended.returncode == status
    assert ended.stderr == f"davincirun: the supervisor was killed by {name}: job killed, 0 processes left\n"


def test_an_error_of_our_own_is_shown_and_is_status_1() -> None:
    ended = guarded("raise ZeroDivisionError('a bug')")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback") and ended.stderr.endswith("ZeroDivisionError: a bug\n")


def test_what_was_printed_is_not_lost() -> None:
    assert guarded("print('said'); return 0").stdout == "said\n"


def test_the_supervisor_is_a_session_of_its_own_and_sees_the_guardians_end() -> None:
    ended = guarded(
        "assert os.getsid(0) == os.getpid(); os.kill(os.getppid(), signal.SIGKILL);"
        " assert os.read(lifeline_fd, 1) == b''; os.write(1, b'alone\\n'); return 0"
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-9, "alone\n", "")


def test_the_guardian_is_told_apart_by_its_name() -> None:
    """It passes signals on only once it has its name: the signal that comes back says that we can look."""
    ended = guarded(
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]);"
        " os.kill(os.getppid(), signal.SIGUSR1); signal.sigwait([signal.SIGUSR1]);"
        " print(open(f'/proc/{os.getppid()}/cmdline').read().strip(chr(0))); return 0"
    )
    assert ended.stdout == "davincirun-guardian\n"
