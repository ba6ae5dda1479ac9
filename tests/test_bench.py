"""The benchmark runs, and its measuring stick is straight: both workers print the same, and its checks see damage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BENCH = os.path.join(ROOT, "tools", "bench")
PYTHON_WORKER = [sys.executable, os.path.join(BENCH, "worker.py")]

pytestmark = pytest.mark.skipif(sys.version_info < (3, 9), reason="the benchmark needs pidfds, Python 3.9")


@pytest.fixture(scope="module", params=["C", "Python"])
def worker(request, tmp_path_factory) -> list[str]:
    if request.param == "Python":
        return PYTHON_WORKER
    if not shutil.which("gcc"):
        return pytest.skip("no gcc here")
    program = str(tmp_path_factory.mktemp("bench") / "worker")
    subprocess.check_call(["gcc", "-static", "-o", program, os.path.join(BENCH, "worker.c")])
    return [program]


def printed(worker: list[str], tmp_path, rank: int, lines: int) -> bytes:
    state = tmp_path / "state"
    state.write_bytes(bytes(64 * 8))
    return subprocess.check_output(
        [*worker, str(state), "print", str(lines), "end"], env={**os.environ, "RANK_ID": str(rank)}
    )


def checked(worker: list[str], tmp_path, text: bytes) -> dict[str, int]:
    (tmp_path / "text").write_bytes(text)
    return json.loads(subprocess.check_output([*worker, "check", str(tmp_path / "text")]))


def test_both_workers_print_the_same(worker: list[str], tmp_path) -> None:
    assert printed(worker, tmp_path, 3, 500) == printed(PYTHON_WORKER, tmp_path, 3, 500)


def test_whole_lines_of_several_ranks_are_no_damage(worker: list[str], tmp_path) -> None:
    text = printed(worker, tmp_path, 0, 10) + b"a stranger's line\n" + printed(worker, tmp_path, 1, 10)
    assert checked(worker, tmp_path, text) == {"whole": 20, "broken": 0, "disordered": 0}


def test_a_line_cut_by_another_is_seen(worker: list[str], tmp_path) -> None:
    lines = printed(worker, tmp_path, 0, 3)
    other = printed(worker, tmp_path, 1, 1)
    assert checked(worker, tmp_path, lines[:160] + other + lines[160:]) == {"whole": 2, "broken": 2, "disordered": 1}


def test_every_launcher_of_this_machine_can_be_measured() -> None:
    words = ["--quick", "--only", "davincirun", "--only", "floor", "--measure", "start", "--measure", "term"]
    command = [sys.executable, os.path.join(BENCH, "launch.py"), *words]
    table = subprocess.check_output(command, stderr=subprocess.DEVNULL)
    rows = table.decode().splitlines()
    assert rows[1].split() == ["davincirun", "floor"]
    assert [row.split()[-2] for row in rows if row.startswith("left after TERM")] == ["0"]
