"""`tools/build_zipapp.py`: the single file is the same bytes everywhere and runs on every Python, alone."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

import davincirun

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, "tools", "build_zipapp.py")
SUPPORTED = ["3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]


def interpreter(version: str) -> str:
    """The path of a working Python of this version; skips the test where there is none."""
    candidates = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    for python in [*candidates, *([on_path] if on_path else [])]:
        if subprocess.call([python, "-c", "import zipfile"], stderr=subprocess.DEVNULL) == 0:
            return python
    return pytest.skip(f"no Python {version} here")


def build(python: str, output_path: str) -> bytes:
    """What the build script writes under `python`."""
    subprocess.check_call([python, BUILD, output_path], stdout=subprocess.DEVNULL)
    with open(output_path, "rb") as built:
        return built.read()


@pytest.fixture(scope="module")
def single_file(tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("dist") / "davincirun.py")
    build(sys.executable, path)
    return path


def test_two_builds_are_the_same_bytes(single_file: str, tmp_path) -> None:
    with open(single_file, "rb") as first:
        assert first.read() == build(sys.executable, str(tmp_path / "again.py"))


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_python_builds_the_same_bytes(version: str, single_file: str, tmp_path) -> None:
    with open(single_file, "rb") as first:
        assert first.read() == build(interpreter(version), str(tmp_path / "other.py"))


@pytest.mark.parametrize("version", SUPPORTED)
def test_it_runs_alone_on_every_python(version: str, single_file: str, tmp_path) -> None:
    """-I -S: no installed package, no PYTHONPATH, no current directory."""
    command = [interpreter(version), "-I", "-S", single_file, "--version"]
    assert davincirun.__version__ in subprocess.check_output(command, cwd=str(tmp_path), timeout=60).decode()


def test_it_can_be_executed_by_itself(single_file: str) -> None:
    assert davincirun.__version__ in subprocess.check_output([single_file, "--version"], timeout=60).decode()


def test_it_holds_the_package_and_nothing_else(single_file: str) -> None:
    names = zipfile.ZipFile(single_file).namelist()
    assert names == sorted(names)
    assert "davincirun/__init__.py" in names
    assert all(name == "__main__.py" or name.startswith("davincirun/") for name in names)
    assert all(name.endswith(".py") for name in names)
