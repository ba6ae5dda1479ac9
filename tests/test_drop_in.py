"""`tools/davincirun.py`: the launcher as a script, and how it makes way for the package when a worker imports it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

import davincirun

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DROP_IN = os.path.join(ROOT, "tools", "davincirun.py")
IMPORTS_THE_PACKAGE = """
import sys

path_before = sys.path[:]
import davincirun
import davincirun.cluster
from davincirun import errors

assert davincirun is sys.modules["davincirun"]
assert sys.path == path_before
assert errors.UsageError.exit_status == 1
print(davincirun.__version__, davincirun.__file__)
"""


def run_python(*arguments: str, package_folder: str = "") -> subprocess.CompletedProcess[str]:
    """Run this interpreter with nothing but `package_folder` on its path and no installed packages."""
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": package_folder},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=60,
    )


@pytest.fixture
def copied(tmp_path) -> str:
    """A folder outside any checkout that holds a copy of the drop-in file and a worker that imports the package."""
    shutil.copy(DROP_IN, str(tmp_path))
    (tmp_path / "worker.py").write_text(IMPORTS_THE_PACKAGE)
    return str(tmp_path)


def test_a_checkout_needs_nothing_installed() -> None:
    ended = run_python(DROP_IN, "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert davincirun.__version__ in ended.stdout


def test_a_copy_uses_the_installed_package(copied: str) -> None:
    ended = run_python(os.path.join(copied, "davincirun.py"), "--version", package_folder=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert davincirun.__version__ in ended.stdout


def test_a_copy_without_a_package_says_what_to_install(copied: str) -> None:
    ended = run_python(os.path.join(copied, "davincirun.py"), "true")
    assert ended.returncode == 1
    assert ended.stderr.startswith("davincirun: ") and "pip install" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_worker_beside_the_copy_imports_the_package(copied: str) -> None:
    ended = run_python(os.path.join(copied, "worker.py"), package_folder=ROOT)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == [davincirun.__version__, os.path.join(ROOT, "davincirun", "__init__.py")]


def test_a_worker_beside_the_checkouts_file_imports_the_package(tmp_path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    shutil.copy(DROP_IN, str(tools))
    shutil.copytree(os.path.join(ROOT, "davincirun"), str(tmp_path / "davincirun"))
    (tools / "worker.py").write_text(IMPORTS_THE_PACKAGE)
    ended = run_python(str(tools / "worker.py"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split()[1] == str(tmp_path / "davincirun" / "__init__.py")


def test_importing_the_copy_without_a_package_is_an_ordinary_import_error(copied: str) -> None:
    ended = run_python(os.path.join(copied, "worker.py"))
    assert ended.returncode == 1
    assert ended.stderr.rstrip().endswith("ModuleNotFoundError: No module named 'davincirun'")
