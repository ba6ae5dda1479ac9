"""Real training jobs on simulated cards: PyTorch's DDP on gloo and MindSpore on CPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import List

import pytest
from helpers.launcher import WORKERS, Launcher

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def needs(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"{module} is not installed for {sys.executable}")


def training(name: str, *arguments: str) -> List[str]:
    """The command of a worker that needs installed packages."""
    return [sys.executable, os.path.join(WORKERS, name), *arguments]


@needs("torch")
def test_a_ddp_job_on_gloo_agrees_on_its_weights(launch: Launcher) -> None:
    ended = launch.run(*training("trains_ddp.py"), workers=4, deadline=300)
    assert ended.status == 0, ended
    sums = {line.split("weights ")[1] for line in ended.stdout.splitlines() if "weights " in line}
    assert ended.stdout.count("weights ") == 4
    assert len(sums) == 1
    assert "4 workers finished in" in ended.stderr


@needs("torch")
def test_a_ddp_job_whose_rank_fails_ends_at_once(launch: Launcher) -> None:
    """The others hang in a collective that the failed rank never joins."""
    ended = launch.run(*training("trains_ddp.py", "fails"), workers=4, deadline=300, options=["--grace", "5"])
    assert ended.status == 1, ended
    assert "rank 2 failed first: it ended with exit status 1" in ended.stderr
    assert "ValueError: rank 2 has had enough\n  0 processes left" in ended.stderr
    assert launch.carriers() == []


@needs("mindspore")
def test_a_mindspore_job_knows_its_ranks(launch: Launcher) -> None:
    ended = launch.run(*training("trains_mindspore.py"), workers=4, deadline=300)
    assert ended.status == 0, ended
    for rank in range(4):
        assert f"rank {rank} of 4: loss falls" in ended.stdout
