"""Thousands of short launches without one wrong status, and signals at any moment: run with -m stress."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import List

import pytest
from helpers.launcher import WORKERS, Launcher

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

RUNS = 2000
AT_A_TIME = 4


def start(launch: Launcher, number: int, *command: str) -> "subprocess.Popen[bytes]":
    argv = [*launch.way, "--log-dir", launch.log_dir, "--job-id", f"job-{number}", "--simulate", "4", *command]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(argv, env=launch.environ, stdin=nowhere, stdout=nowhere, stderr=nowhere)


def test_thousands_of_short_launches_end_with_the_right_status(launch: Launcher) -> None:
    """Races between ends, reaping and exit show in the thousands of short jobs of a test farm."""

    def wrong(number: int) -> List[str]:
        wanted = number % 5
        script = f'[ "$RANK_ID" = {number % 4} ] && exit {wanted}; exit 0'
        status = start(launch, number % AT_A_TIME, "sh", "-c", script).wait(120)
        return [] if status == wanted else [f"run {number}: {status} instead of {wanted}"]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        assert [line for lines in pool.map(wrong, range(RUNS)) for line in lines] == []
    assert launch.carriers() == []


@pytest.mark.parametrize(("signum", "status"), [(signal.SIGTERM, 143), (signal.SIGKILL, 137)])
def test_a_signal_at_any_moment_stops_the_job_and_leaves_nothing(launch: Launcher, signum: int, status: int) -> None:
    chance = random.Random(1)

    def wrong(number: int) -> List[str]:
        process = start(launch, number % AT_A_TIME, sys.executable, "-S", os.path.join(WORKERS, "waits.py"))
        select.select([], [], [], chance.uniform(0, 0.5))
        process.send_signal(signum)
        ended = process.wait(120)
        ended = ended if ended >= 0 else 128 - ended  # by the signal itself, before it was handled
        return [] if ended == status else [f"run {number}: {ended} instead of {status}"]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        assert [line for lines in pool.map(wrong, range(300)) for line in lines] == []
