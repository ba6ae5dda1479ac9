"""Fixtures of all tests: the launcher, and the guard that nothing is left of a test."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import uuid
from typing import Dict, Iterator

import pytest
from helpers.etcd import Etcd, needs_etcd
from helpers.launcher import DROP_IN, MODULE, ROOT, Launcher, kill_all
from helpers.nodes import free_port
from helpers.processes import carriers_after, newest_pid
from hypothesis import HealthCheck, settings

MARKER = "THIS_TEST"
signal.signal(signal.SIGINT, signal.default_int_handler)
for ignored in (signal.SIGQUIT, signal.SIGHUP):  # by a shell's background jobs, and under nohup: we would pass it on
    signal.signal(ignored, signal.SIG_DFL)

# a slow machine is no failure, and nothing is written into the checkout
settings.register_profile("calm", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")


@pytest.fixture(autouse=True)
def marker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The variable that marks this test's processes; no live one, and no descriptor of ours, may be left."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARKER, value)
    before = _descriptors()
    last_pid = newest_pid()
    yield f"{MARKER}={value}"
    left = carriers_after(f"{MARKER}={value}", 2) if newest_pid() != last_pid else []
    commands = [_command(pid) for pid in left]
    kill_all(left)
    assert not commands, "processes are left"
    if _descriptors() != before:
        gc.collect()
    opened = {fd: path for fd, path in _descriptors().items() if fd not in before}
    assert not opened, "descriptors are left open"


@pytest.fixture
def launch(tmp_path, marker: str) -> Launcher:
    """Starts `python -m davincirun`."""
    return Launcher(str(tmp_path), marker)


@pytest.fixture(params=["drop-in", "module", "single file"])
def launch_each_way(request, tmp_path, marker: str) -> Launcher:
    """Starts the launcher, in turn, in each of the ways in which users do."""
    if request.param == "single file":
        return Launcher(str(tmp_path), marker, (sys.executable, request.getfixturevalue("built_file")))
    return Launcher(str(tmp_path), marker, {"drop-in": DROP_IN, "module": MODULE}[request.param])


@pytest.fixture(params=["tcp", "directory", pytest.param("etcd", marks=needs_etcd)])
def where_to_meet(request, tmp_path) -> Iterator[str]:
    """A free port, a shared directory, a real etcd: in turn, each --rendezvous that needs no MPI."""
    if request.param == "tcp":
        yield f"tcp://127.0.0.1:{free_port()}"
    elif request.param == "directory":
        yield str(tmp_path / "shared")
    else:
        folder = tmp_path / "etcd"
        folder.mkdir()
        with Etcd(str(folder)) as member:
            yield member.where


@pytest.fixture(scope="session")
def built_file(tmp_path_factory) -> str:
    """The single file, built once."""
    path = str(tmp_path_factory.mktemp("dist") / "davincirun.py")
    build = os.path.join(ROOT, "tools", "build_zipapp.py")
    subprocess.check_call([sys.executable, build, path], stdout=subprocess.DEVNULL)
    return path


def _descriptors() -> Dict[int, str]:
    """Our open descriptors and what they are of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
    return found


def _command(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"{pid}: {file.read().replace(chr(0).encode(), b' ').decode('utf-8', 'replace')}"
    except OSError:
        return str(pid)
