"""The closing lines: the first failure with its evidence, or one line that all is well."""

from __future__ import annotations

import signal
from typing import List, Sequence

import pytest
from helpers.plans import plan

from davincirun.lifecycle import DONE, Exit, GuardianDied, Launch, SignalReceived, StartFailed, WorkerExited
from davincirun.report import duration, ranges, summary


def told(launch: Launch, tail: Sequence[str] = (), left: Sequence[str] = (), seconds: float = 12.0) -> str:
    return summary(launch, plan(), "host-1", {0: 100, 1: 101}, tail, left, seconds)


def over(cause=None, **changes) -> Launch:
    exits = {rank: WorkerExited(rank, Exit(code=0), 1.0) for rank in range(2)}
    return Launch(15.0, DONE, frozenset(), exits, cause)._replace(**changes)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.00 s"),
        (0.042, "0.04 s"),
        (0.42, "0.42 s"),
        (1, "1 s"),
        (9.94, "9.9 s"),
        (12.4, "12 s"),
        (59.6, "1 min 0 s"),
        (192, "3 min 12 s"),
        (7440, "2 h 4 min"),
        (86400 * 3 + 3600 * 5, "3 d 5 h"),
    ],
)
def test_time_spans_are_said_as_people_do(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0-1"), ([5, 0, 2, 1], "0-2, 5"), ([0, 2, 4], "0, 2, 4")],
)
def test_numbers_are_listed_in_ranges(numbers: List[int], text: str) -> None:
    assert ranges(numbers) == text


def test_success_is_one_line_and_nothing_is_left() -> None:
    assert told(over(), seconds=192.0) == "davincirun: 2 workers finished in 3 min 12 s\n  0 processes left\n"


def test_one_worker_is_not_several() -> None:
    launch = over()._replace(exits={0: WorkerExited(0, Exit(code=0), 1.0)})
    assert told(launch).startswith("davincirun: 1 worker finished in 12 s\n")


def test_a_failure_names_rank_status_place_and_last_lines() -> None:
    failed = over(WorkerExited(1, Exit(code=9), 75.0))
    assert told(failed, ["Traceback (most recent call last):", "ValueError: bad"]) == (
        "davincirun: rank 1 failed first: it ended with exit status 9 after 1 min 15 s\n"
        "  device 1 (/dev/davinci5), host host-1, pid 101; log: /logs/job-proc-rank-1-device-1.txt\n"
        "  its last lines:\n"
        "  | Traceback (most recent call last):\n"
        "  | ValueError: bad\n"
        "  0 processes left\n"
    )


def test_a_failure_without_a_word_says_so() -> None:
    assert "  it printed nothing\n" in told(over(WorkerExited(1, Exit(code=9), 75.0)))


def test_a_signal_is_named_and_a_kill_from_outside_explained() -> None:
    text = told(over(WorkerExited(0, Exit(signum=signal.SIGKILL), 1.0)))
    assert "rank 0 failed first: it died of SIGKILL after 1 s" in text
    assert "killed from outside" in text and "memory" in text
    assert "killed from outside" not in told(over(WorkerExited(0, Exit(signum=signal.SIGSEGV), 1.0)))


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (SignalReceived(signal.SIGTERM), "davincirun: stopped by SIGTERM after 12 s\n"),
        (StartFailed(1, 127, "train: command not found"), "rank 1 can't be started: train: command not found\n"),
        (GuardianDied(), "davincirun: the launcher was killed after 12 s; the job was killed with it\n"),
    ],
)
def test_other_ends_are_one_line(cause, line: str) -> None:
    assert line in told(over(cause))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"killed": (0, 1)}, "  had to be killed after the grace of 15 s: ranks 0-1\n"),
        ({"killed": (1,)}, "  had to be killed after the grace of 15 s: rank 1\n"),
        ({}, "  had to be killed after the grace of 15 s: what workers left behind\n"),
        ({"killed": (0,), "is_hurried": True}, "  had to be killed: rank 0\n"),
    ],
)
def test_what_had_to_be_killed_is_told(changes: dict, line: str) -> None:
    assert line in told(over(SignalReceived(signal.SIGTERM), was_killed=True, **changes))


def test_processes_that_cannot_be_killed_are_listed() -> None:
    text = told(over(SignalReceived(15)), left=[f"pid {number} (python)" for number in range(12)])
    assert "  12 processes left that can't be killed; the machine needs a look:\n    pid 0 (python)\n" in text
    assert text.count("(python)") == 10
