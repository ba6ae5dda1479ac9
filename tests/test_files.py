"""Files: written in one step, and waited for without polling where the kernel tells."""

from __future__ import annotations

import os
import select
import stat
import time
from typing import Callable, List, Sequence

import pytest

from davincirun import files


def far() -> float:
    return time.monotonic() + 30


class Pauses:
    """A pause that waits as asked and does something meanwhile."""

    def __init__(self, *doings: Callable[[], None]) -> None:
        self._doings = list(doings)
        self.seconds: List[float] = []
        self.was_woken = False  # the last one, before its time was over

    def __call__(self, fds: Sequence[int], seconds: float) -> None:
        self.seconds.append(seconds)
        if self._doings:
            self._doings.pop(0)()
        self.was_woken = bool(select.select(fds, [], [], seconds)[0])


def test_a_written_file_is_regular_readable_by_all_and_alone(tmp_path) -> None:
    path = tmp_path / "new" / "folder" / "table.json"
    before = os.umask(0o077)
    try:
        files.write_atomically(str(path), b"text")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"text"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(path.parent) == ["table.json"]


def test_a_file_is_replaced_and_not_written_into(tmp_path) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(b"old")
    with open(path, "rb") as reader:
        files.write_atomically(str(path), b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    files.write_atomically(str(tmp_path / "link"), b"new")
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"old"


def test_a_failed_write_leaves_nothing(tmp_path) -> None:
    (tmp_path / "table.json").mkdir()
    with pytest.raises(OSError):
        files.write_atomically(str(tmp_path / "table.json"), b"new")
    assert os.listdir(tmp_path) == ["table.json"]


def test_what_is_there_is_not_waited_for(tmp_path) -> None:
    pauses = Pauses()
    assert files.wait_until(str(tmp_path / "x"), lambda: "found", far(), pauses) == "found"
    assert pauses.seconds == []


def test_waiting_ends_at_the_deadline(tmp_path) -> None:
    started = time.monotonic()
    assert files.wait_until(str(tmp_path / "x"), lambda: None, started + 0.1, Pauses()) is None
    assert 0.1 <= time.monotonic() - started < 5


@pytest.mark.parametrize("by", ["creation", "writing", "rename"])
def test_a_change_ends_the_pause(tmp_path, by: str) -> None:
    path = tmp_path / "table.json"

    def happen() -> None:
        if by == "rename":
            (tmp_path / "other").write_text("done")
            os.rename(tmp_path / "other", path)
        else:
            path.write_text("done")

    def look() -> object:
        return (path.exists() and path.read_text() == "done") or None

    if by == "writing":
        path.write_text("begun")
    pauses = Pauses(happen)
    assert files.wait_until(str(path), look, far(), pauses)
    assert pauses.was_woken


def test_a_folder_that_is_not_there_yet_is_looked_for_again_and_again(tmp_path) -> None:
    path = tmp_path / "later" / "table.json"

    def happen() -> None:
        path.parent.mkdir()
        path.write_text("done")

    pauses = Pauses(*[lambda: None] * 3, happen)
    assert files.wait_until(str(path), lambda: path.exists() or None, far(), pauses)
    assert len(pauses.seconds) == 4


def test_pauses_grow_to_a_second_and_no_more(tmp_path) -> None:
    seconds: List[float] = []
    looks = iter([None] * 20 + ["found"])
    files.wait_until(str(tmp_path / "x"), lambda: next(looks), far(), lambda fds, pause: seconds.append(pause))
    assert seconds[0] <= 0.02 and seconds == sorted(seconds)
    assert seconds[-1] == 1.0


def test_a_pause_may_end_the_waiting_by_raising(tmp_path) -> None:
    def told_to_stop(fds: Sequence[int], seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.wait_until(str(tmp_path / "x"), lambda: None, far(), told_to_stop)
