"""Who may import whom: pure modules import nothing that acts, and a launch loads nothing that is slow to load."""

from __future__ import annotations

import ast
import glob
import os
import subprocess
import sys
from typing import Iterator, List

import pytest
from helpers.launcher import ROOT, Launcher

PACKAGE = os.path.join(ROOT, "davincirun")
PURE_MODULES = {
    "cluster",
    "environment",
    "environment_modes",
    "environment_secrets",
    "errors",
    "identity",
    "lifecycle",
    "modelarts",
    "options",
    "plan",
    "plan_view",
    "report",
    "values",
}
PURE_ROOMS = ("devices", "mpi", "ranktable")  # all of them but these, which run tools and read files
ACTING_MODULES = {
    "devices.commands",
    "devices.detect",
    "devices.driver_files",
    "devices.last_resort",
    "devices.network",
    "devices.queries",
    "devices.tools",
    "mpi.choice",
    "mpi.conductor",
    "mpi.engine",
    "mpi.follower",
    "mpi.cards",
    "mpi.hub",
    "mpi.plan",
    "mpi.shim",
    "mpi.sshd",
    "mpi.view",
    "mpi.wire",
    "ranktable.files",
    "ranktable.hand_tools",
}
COMMAND_LINES = {"cli", "ctl", "devices_cli", "ranktable_cli", "ranktable_generate"}
OWN_PROGRAMS = {"log_upload", "mpi.shim", "route_planning"}  # run as processes of their own
ACTING = {
    "ctypes",
    "fcntl",
    "glob",
    "io",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "platform",
    "resource",
    "select",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
}
SLOW = ["argparse", "asyncio", "dataclasses", "logging", "numpy", "pathlib", "psutil", "socket", "tempfile"]


def all_modules() -> List[str]:
    """The package's modules, without the package's own name: cli, devices, devices.detect."""
    paths = glob.glob(os.path.join(PACKAGE, "**", "*.py"), recursive=True)
    names = (os.path.relpath(path, PACKAGE)[: -len(".py")].replace(os.sep, ".") for path in paths)
    return sorted(name[: -len(".__init__")] if name.endswith(".__init__") else name for name in names)


def is_pure(name: str) -> bool:
    return name in PURE_MODULES or (name.split(".")[0] in PURE_ROOMS and name not in ACTING_MODULES)


ALL = [name for name in all_modules() if name != "__init__"]
PURE = [name for name in ALL if is_pure(name)]


@pytest.mark.parametrize("name", PURE)
def test_a_pure_module_imports_nothing_that_acts(name: str) -> None:
    imported = set(imports(name))
    assert not imported & ACTING
    ours = {module[len("davincirun.") :] for module in imported if module.startswith("davincirun.")}
    assert [module for module in ours if not is_pure(module)] == []


@pytest.mark.parametrize("name", PURE)
def test_signals_are_only_numbers_to_a_pure_module(name: str) -> None:
    used = {
        node.attr
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "signal"
    }
    assert all(attribute.startswith("SIG") or attribute == "Signals" for attribute in used)


def test_only_command_lines_read_the_environment() -> None:
    readers = {
        name
        for name in ALL
        for node in ast.walk(tree(name))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
        if isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert readers <= COMMAND_LINES | OWN_PROGRAMS


@pytest.mark.parametrize("name", ALL)
def test_importing_a_module_has_no_effect(name: str) -> None:
    """Below its docstring stand definitions and imports; __main__ alone does something there."""
    module = tree(name)
    for statement in module.body[1:] if ast.get_docstring(module) else module.body:
        assert not isinstance(statement, (ast.For, ast.While, ast.With, ast.Delete))
        assert name == "__main__" or not isinstance(statement, ast.Expr)


@pytest.mark.parametrize("name", ALL)
def test_no_error_is_caught_unseen(name: str) -> None:
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None
            is_any = isinstance(node.type, ast.Name) and node.type.id == "Exception"
            assert not is_any or name in OWN_PROGRAMS


@pytest.mark.parametrize("module", ["launch", "cli", "guardian"])
def test_a_launch_loads_nothing_that_is_slow_to_load(module: str) -> None:
    script = f"import sys; sys.path.insert(0, {ROOT!r}); import davincirun.{module}; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", script]
    loaded = subprocess.check_output(command, universal_newlines=True).split()
    assert f"davincirun.{module}" in loaded
    assert not set(SLOW) & set(loaded)


def test_neither_does_it_while_it_goes_on(launch: Launcher) -> None:
    """What functions import, and what the standard library imports in its own functions."""
    ended = launch.run("true", env={"PYTHONPROFILEIMPORTTIME": "1"})
    loaded = {line.split("|")[-1].strip() for line in ended.stderr.splitlines() if line.startswith("import time:")}
    assert "davincirun.supervise" in loaded
    slow = {*SLOW, "ipaddress", "shutil"} - {"argparse"}
    assert not loaded & (slow - {"shutil"} if sys.version_info[:2] == (3, 8) else slow)  # argparse has it there


def imports(name: str) -> Iterator[str]:
    """The modules that a module of ours imports anywhere in its text; type checkers' imports don't count."""
    for node in without_type_checking(tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "io" and [alias.name for alias in node.names] == ["BytesIO"]:
                continue  # which is memory
            yield node.module
            if node.module in ("davincirun", "davincirun.devices", "davincirun.ranktable"):
                found = {f"{node.module}.{alias.name}" for alias in node.names}
                yield from found & {f"davincirun.{module}" for module in ALL}


def without_type_checking(root: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(root):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from without_type_checking(node)


def tree(name: str) -> ast.Module:
    path = os.path.join(PACKAGE, *name.split("."))
    path = os.path.join(path, "__init__.py") if os.path.isdir(path) else f"{path}.py"
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)
