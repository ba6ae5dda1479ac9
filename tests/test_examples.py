"""The example training jobs train: alone with numpy here, with torch and MindSpore where those are installed."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DROP_IN = os.path.join(ROOT, "tools", "davincirun.py")
EXAMPLES = os.path.join(ROOT, "tools", "examples")
# The example as it runs where these modules aren't installed.
WITHOUT = """
import runpy, sys
script, *hidden = sys.argv[1:]
sys.modules.update(dict.fromkeys(hidden))
sys.argv = [script]
sys.path[0] = script.rpartition("/")[0]
runpy.run_path(script, run_name="__main__")
"""


def without(*modules: str, example: str = "train.py") -> list[str]:
    """The command that runs `example` as if `modules` weren't installed."""
    return [sys.executable, "-c", WITHOUT, os.path.join(EXAMPLES, example), *modules]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launched(tmp_path, workers: int, command: list[str]) -> subprocess.CompletedProcess[str]:
    """What the launcher makes of `command` on a simulated node."""
    options = ["--simulate", str(workers), "--log-dir", str(tmp_path), "--no-prefix"]
    return subprocess.run(
        [sys.executable, DROP_IN, *options, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        cwd=str(tmp_path),
    )


def assert_trained(ended: subprocess.CompletedProcess[str], workers: int) -> None:
    """The job ended well, its loss fell, and it said so once."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last_lines = re.findall(r"^(\d+) workers trained together: loss ([\d.]+) -> ([\d.]+)$", ended.stdout, re.MULTILINE)
    assert len(last_lines) == 1, ended.stdout
    count, first_loss, last_loss = last_lines[0]
    assert int(count) == workers
    assert float(last_loss) < float(first_loss) / 2


def test_four_workers_train_with_numpy_where_torch_is_missing(tmp_path) -> None:
    ended = launched(tmp_path, 4, without("torch"))
    assert_trained(ended, 4)
    assert ended.stdout.count("no torch here") == 1


def test_the_variables_are_all_a_worker_needs() -> None:
    """Any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT can run the example."""
    common = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    workers = [
        subprocess.Popen(without("torch"), env={**common, "RANK": rank}, stdout=subprocess.PIPE) for rank in "01"
    ]
    said = [worker.communicate()[0].decode() for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert said[0].endswith("\n") and "2 workers trained together" in said[0]
    assert said[1] == ""


@pytest.mark.parametrize("example, variable", [("train.py", "RANK"), ("train_mindspore.py", "RANK_ID")])
def test_without_a_launcher_it_says_how_to_start_it(example: str, variable: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != variable}
    ended = subprocess.run([sys.executable, os.path.join(EXAMPLES, example)], env=environ, stderr=subprocess.PIPE)
    assert ended.returncode == 1
    assert variable in ended.stderr.decode() and "davincirun --simulate" in ended.stderr.decode()
    assert "Traceback" not in ended.stderr.decode()


@pytest.mark.parametrize(
    "command",
    [without("torch", "numpy"), without("mindspore", example="train_mindspore.py")],
    ids=["neither torch nor numpy", "no mindspore"],
)
def test_a_missing_framework_is_named_with_what_to_install(command: list[str]) -> None:
    environ = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "RANK_ID": "0", "RANK_SIZE": "1"}
    ended = subprocess.run(command, env=environ, stderr=subprocess.PIPE)
    assert ended.returncode == 1
    assert "pip install" in ended.stderr.decode()


@pytest.mark.integration
@pytest.mark.timeout(300)
def test_four_workers_train_with_torch_over_gloo(tmp_path) -> None:
    ended = launched(tmp_path, 4, [sys.executable, os.path.join(EXAMPLES, "train.py")])
    assert_trained(ended, 4)
    assert ended.stdout.count("DistributedDataParallel over gloo") == 1


@pytest.mark.integration
@pytest.mark.timeout(300)
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed")
def test_four_workers_train_with_mindspore(tmp_path) -> None:
    ended = launched(tmp_path, 4, [sys.executable, os.path.join(EXAMPLES, "train_mindspore.py")])
    assert_trained(ended, 4)
    assert ended.stdout.count("on CPU: gradients over plain sockets") == 1
