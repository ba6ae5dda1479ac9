"""Where workers' output goes: exact files, whole lines on any console, and consoles and disks that fail."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time
from typing import Iterator

import pytest
from helpers.launcher import Launcher
from helpers.streams import Stream, gather_until
from helpers.tables import table

DISK = 'mount -t tmpfs -o size=128k tmpfs "$0" && exec "$@"'  # a disk of 128 KiB on the folder $0


class Note:
    """A fifo by which workers tell the test something past the launcher."""

    def __init__(self, path: str) -> None:
        os.mkfifo(path)
        self.path = path
        self._stream = Stream(os.open(path, os.O_RDWR))

    def read_until(self, text: str, times: int) -> None:
        wanted = text.encode()
        deadline = time.monotonic() + 30
        assert gather_until(lambda: self._stream.data.count(wanted) >= times, [self._stream], deadline)

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def note(tmp_path) -> Iterator[Note]:
    note = Note(str(tmp_path / "note"))
    yield note
    note.close()


class StuckConsole:
    """A fifo with a reader that doesn't read yet."""

    def __init__(self, path: str) -> None:
        os.mkfifo(path)
        self._stream = Stream(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        os.set_blocking(self._stream.fd, True)
        self.fd = os.open(path, os.O_WRONLY)

    def hand_over(self) -> None:
        """Leave the writing end to the launcher alone."""
        os.close(self.fd)

    def read(self) -> bytes:
        """All of it, up to its end."""
        gather_until(lambda: False, [self._stream], time.monotonic() + 60)
        assert self._stream.is_ended
        return bytes(self._stream.data)

    def close(self) -> None:
        self._stream.close()


@pytest.fixture
def stuck_console(tmp_path) -> Iterator[StuckConsole]:
    console = StuckConsole(str(tmp_path / "console"))
    yield console
    console.close()


# What is printed.


def test_files_hold_exactly_what_was_printed(launch: Launcher) -> None:
    ended = launch.run("prints.py", r"nul \x00 and \xff\xfe\n", r"half \xe4\xb8", r"\xad of a character\r\n", r"no end")
    expected = b"nul \0 and \xff\xfe\nhalf \xe4\xb8\xad of a character\r\nno end"
    assert ended.log(0) == ended.log(1) == expected


def test_the_console_shows_bytes_that_are_no_text_as_they_are(launch: Launcher) -> None:
    ended = launch.run("prints.py", r"nul \x00 and \xff\xfe\n", workers=1)
    assert ended.output == b"nul \0 and \xff\xfe\n"


def test_last_lines_without_an_end_are_shown_apart(launch: Launcher) -> None:
    ended = launch.run("prints_without_newline.py", workers=4)
    assert ended.log(2) == b"a line\nthe last of 2"
    lines = ended.stdout.splitlines()
    assert sorted(lines) == ["a line"] * 4 + [f"the last of {rank}" for rank in range(4)]


def test_many_workers_lines_never_mix(launch: Launcher) -> None:
    ended = launch.run("prints_lines.py", "2000", workers=4)
    expected = [f"line {number} of {rank}" for rank in range(4) for number in range(2000)]
    assert sorted(ended.stdout.splitlines()) == sorted(expected)
    for rank in range(4):
        own = [line for line in ended.stdout.splitlines() if line.endswith(f" of {rank}")]
        assert ended.log(rank).decode().splitlines() == own


def test_a_hundred_megabytes_without_a_line_end_come_through(launch: Launcher, tmp_path) -> None:
    size = 100_000_000
    with open(tmp_path / "console", "wb") as console:
        running = launch("floods_output.py", str(size), workers=1, stdout=console.fileno())
    with running:
        assert running.wait(60) == 0
    assert os.path.getsize(tmp_path / "console") == size
    log = os.path.join(launch.log_dir, "job-proc-rank-0-device-0.txt")
    assert os.path.getsize(log) == size
    os.truncate(tmp_path / "console", 0)  # pytest keeps the folder for a while
    os.truncate(log, 0)


def test_output_comes_as_it_is_printed(launch: Launcher) -> None:
    """Python's, too, which would keep it to the end without PYTHONUNBUFFERED."""
    script = "import signal; print('first'); signal.pause()"
    with launch("python3", "-c", script) as running:
        running.read_until("first", times=2)
        assert running.log(1) == b"first\n"


def test_a_lone_workers_prompt_is_shown_without_its_line_end(launch: Launcher) -> None:
    with launch("sh", "-c", "printf 'name? '; read -r name; echo hello $name", workers=1, stdin=subprocess.PIPE) as run:
        run.read_until("name? ")
        run.type(b"world\n")
        assert run.wait() == 0
        assert run.stdout == "name? hello world\n"


# How it is shown.


def test_prefixes_can_be_had_anywhere(launch: Launcher) -> None:
    ended = launch.run("prints.py", r"one\n", options=["--prefix"])
    assert sorted(ended.stdout.splitlines()) == ["[rank 0] one", "[rank 1] one"]
    assert ended.log(1) == b"one\n"


def test_progress_bars_are_collapsed_in_a_file_and_exact_in_the_log(launch: Launcher) -> None:
    ended = launch.run("prints.py", r"10%\r20%\r100%\n", workers=1)
    assert ended.stdout == "100%\n"
    assert ended.log(0) == b"10%\r20%\r100%\n"


def test_a_terminal_gets_coloured_prefixes_and_every_state_of_a_progress_bar(launch: Launcher) -> None:
    screen = on_terminal(launch, "prints.py", r"10%\r100%\n")
    assert b"\x1b[36m[rank 0]\x1b[0m 10%" in screen
    assert b"\x1b[32m[rank 1]\x1b[0m 10%" in screen
    assert screen.count(b"100%") == 2


def test_a_terminal_without_colour_gets_plain_prefixes(launch: Launcher) -> None:
    screen = on_terminal(launch, "prints.py", r"one\n", env={"NO_COLOR": "1"})
    assert b"[rank 0] one" in screen and b"[rank 1] one" in screen
    assert b"\x1b" not in screen


def test_a_terminal_without_prefixes_gets_the_lines_alone(launch: Launcher) -> None:
    screen = on_terminal(launch, "prints.py", r"one\n", options=["--no-prefix"])
    assert b"[rank" not in screen
    assert screen.count(b"one\r\n") == 2


def test_no_escape_codes_go_to_a_pipe(launch: Launcher) -> None:
    ended = launch.run("prints.py", r"one\n", options=["--prefix", "-v"])
    assert "\x1b" not in ended.stdout + ended.stderr


# Consoles that fail.


def test_a_closed_console_lets_the_training_go_on(launch: Launcher, note: Note) -> None:
    with launch("prints_lines.py", "3000", note.path) as running:
        running.read_until("line")
        running.close_stdout()  # as `| head -1` does
        note.read_until("done", times=2)
        ended = running.end()
    assert ended.status == 0, ended
    assert ended.log(0).count(b"line") == ended.log(1).count(b"line") == 3000
    assert "Traceback" not in ended.stderr


def test_a_console_that_nobody_reads_delays_no_worker_and_no_end(
    launch: Launcher, note: Note, stuck_console: StuckConsole
) -> None:
    with launch("floods_output_and_waits.py", "1000000", note.path, stdout=stuck_console.fd) as running:
        stuck_console.hand_over()
        note.read_until("done", times=2)
        started = time.monotonic()
        running.send_signal(signal.SIGTERM)
        assert running.wait() == 143
        assert time.monotonic() - started < 5
        assert len(running.log(0)) == len(running.log(1)) == 1000000


def test_a_console_that_is_read_late_gets_everything(launch: Launcher, note: Note, stuck_console: StuckConsole) -> None:
    with launch("floods_output.py", "1000000", note.path, stdout=stuck_console.fd) as running:
        stuck_console.hand_over()
        note.read_until("done", times=2)
        assert stuck_console.read().count(b"x") == 2000000
        assert running.wait() == 0


def test_a_launcher_whose_console_is_stuck_can_be_killed(
    launch: Launcher, note: Note, stuck_console: StuckConsole
) -> None:
    with launch("floods_output_and_waits.py", "1000000", note.path, stdout=stuck_console.fd) as running:
        stuck_console.hand_over()
        note.read_until("done", times=2)
        os.kill(running.supervisor, signal.SIGKILL)
        assert running.wait() == 137


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_descriptors_closed_at_the_start_never_become_something_else(launch: Launcher, closed: str) -> None:
    wrap = ["sh", "-c", f'exec "$@" {closed}', "sh"]
    ended = launch.run("prints.py", r"to stdout\n", r"to stderr\n", wrap=wrap)
    assert ended.status == 0, ended
    assert ended.log(0) == ended.log(1) == b"to stdout\nto stderr\n"


def test_stdout_and_stderr_in_one_file_keep_all_lines_whole(launch: Launcher, tmp_path) -> None:
    with open(tmp_path / "both", "wb") as both:
        running = launch("prints_lines.py", "500", stdout=both.fileno(), stderr=both.fileno())
    with running:
        assert running.wait() == 0
    lines = (tmp_path / "both").read_text().splitlines()
    assert len([line for line in lines if line.startswith("line ")]) == 1000
    assert any(line.startswith("davincirun: 2 workers finished") for line in lines)


# Files that fail.


def test_a_full_disk_costs_the_log_and_one_warning(launch: Launcher) -> None:
    os.mkdir(launch.log_dir)
    if subprocess.call(["unshare", "-m", "sh", "-c", DISK, launch.log_dir, "true"], stderr=subprocess.DEVNULL):
        pytest.skip("file systems can't be mounted here")
    ended = launch.run("prints_x_and_fine.py", "400000", wrap=["unshare", "-m", "sh", "-c", DISK, launch.log_dir])
    assert_console_goes_on(ended, "No space left on device")


def test_a_limit_of_file_sizes_costs_the_log_and_one_warning(launch: Launcher) -> None:
    limit = 'ulimit -f 64; exec "$@"'
    ended = launch.run("prints_x_and_fine.py", "400000", wrap=["sh", "-c", limit, "sh"])
    assert_console_goes_on(ended, "File too large")
    assert 0 < len(ended.log(0)) <= 65536


def test_the_report_shows_the_last_lines_although_the_file_has_failed(launch: Launcher) -> None:
    script = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo ValueError: the cause; exit 3"
    ended = launch.run("sh", "-c", script, workers=1, wrap=["sh", "-c", 'ulimit -f 64; exec "$@"', "sh"])
    assert ended.status == 3
    assert "  | ValueError: the cause" in ended.stderr


def test_a_log_folder_that_cannot_be_made_costs_the_logs_and_a_warning(launch: Launcher, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "table.json").write_text(table(2))
    options = ["--log-dir", str(tmp_path / "file" / "log"), "--rank-table", str(tmp_path / "table.json")]
    ended = launch.run("prints_x_and_fine.py", "10", workers=None, options=options)
    assert ended.status == 0, ended
    assert ended.stdout.count("fine") == 2
    assert "Traceback" not in ended.stderr


def assert_console_goes_on(ended, reason: str) -> None:
    assert ended.status == 0, ended
    assert ended.stdout.count("x") == 800000
    assert sorted(line for line in ended.stdout.splitlines() if "fine" in line) == ["fine 0", "fine 1"]
    assert ended.stderr.count("log file can't be written") == ended.stderr.count(reason) == 1


def on_terminal(launch: Launcher, *command: str, **how) -> bytes:
    """What a terminal gets from a launch whose stdout it is."""
    ours, terminal = pty.openpty()
    with launch(*command, stdout=terminal, **how) as running:
        os.close(terminal)
        screen = Stream(ours)
        gather_until(lambda: False, [screen], time.monotonic() + 30)
        screen.close()
        assert running.wait() == 0
    return bytes(screen.data)
