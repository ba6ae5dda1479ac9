"""Tools run side by side, and none is left behind."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from davincirun.devices.commands import Commands

ENVIRON = {"PATH": "/usr/bin:/bin"}


def test_an_answer_has_the_status_and_both_streams() -> None:
    with Commands(ENVIRON, 30) as commands:
        answer = commands.start("/bin/sh", "-c", "echo out; echo err >&2; exit 13").answer()
    assert answer[1:] == (13, "out\n", "err\n", "")


def test_output_that_is_no_utf8_is_text_all_the_same() -> None:
    with Commands(ENVIRON, 30) as commands:
        assert commands.start("/bin/sh", "-c", "printf '\\377ok'").answer().stdout == "\ufffdok"


def test_a_command_that_is_not_there_is_an_answer() -> None:
    with Commands(ENVIRON, 30) as commands:
        answer = commands.start("/no/such/tool").answer()
    assert answer.status is None
    assert answer.failure.startswith("can't be run: No such file or directory")


def test_commands_wait_for_each_other_at_the_same_time(tmp_path: Path) -> None:
    """Each of two opens one fifo for reading and the other for writing: alone, neither would ever end."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    os.mkfifo(first)
    os.mkfifo(second)
    with Commands(ENVIRON, 30) as commands:
        one = commands.start("/bin/sh", "-c", f"echo from-one > {first}; cat {second}")
        two = commands.start("/bin/sh", "-c", f"cat {first}; echo from-two > {second}")
        assert (one.answer().stdout, two.answer().stdout) == ("from-two\n", "from-one\n")


def test_more_commands_than_may_run_at_once_all_answer() -> None:
    with Commands(ENVIRON, 30) as commands:
        calls = [commands.start("/bin/echo", str(number)) for number in range(40)]
        assert [call.answer().stdout for call in calls] == [f"{number}\n" for number in range(40)]


def test_a_pipe_held_by_a_descendant_costs_the_time_and_no_more() -> None:
    start = time.monotonic()
    with Commands(ENVIRON, 0.3) as commands:
        answer = commands.start("/bin/sh", "-c", "/bin/sleep 1000 & echo started").answer()
    assert answer.failure == "no answer in 0.3 s"
    assert time.monotonic() - start < 10


def test_leaving_the_block_early_kills_what_still_runs(tmp_path: Path) -> None:
    fifo = str(tmp_path / "fifo")
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(KeyboardInterrupt), Commands(ENVIRON, 1000) as commands:
            commands.start("/bin/sh", "-c", f"exec > {fifo}; echo ready; exec /bin/sleep 1000")
            assert select.select([reader], [], [], 10)[0]
            assert os.read(reader, 100) == b"ready\n"
            raise KeyboardInterrupt
        assert select.select([reader], [], [], 10)[0]
        assert os.read(reader, 1) == b""  # the writer is gone
    finally:
        os.close(reader)
