"""The modules that decide import nothing that acts, and no module that does."""

from __future__ import annotations

import ast
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ACTING = {
    *("ctypes", "fcntl", "logging", "mmap", "os", "resource", "select", "shutil", "signal", "socket", "subprocess"),
    *("sys", "tempfile", "threading", "time"),
}
# lifecycle and report speak of signals by name and number; they send none.
ALLOWED = {"lifecycle": {"signal"}, "report": {"signal"}}
ACTING_MODULES = {
    "davincirun.ranktable.hand_tools",  # asks hccn_tool, as the scripts whose place it takes do
    *(f"davincirun.devices.{name}" for name in ("commands", "detect", "network", "queries", "tools")),
}
PURE = (
    *("cluster", "command_line", "environment", "environment_modes", "environment_secrets", "errors", "identity"),
    *("lifecycle", "modelarts", "options", "plan", "plan_view", "ranktable", "report", "values"),
    "devices",
)


def modules_of(room: str) -> dict[str, str]:
    """The modules of a room that decide: dotted name and path."""
    path = os.path.join(ROOT, "davincirun", room)
    if not os.path.isdir(path):
        return {f"davincirun.{room}": f"{path}.py"}
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".py"):
                file_path = os.path.join(folder, name)
                dotted = os.path.relpath(file_path[: -len(".py")], ROOT).replace(os.sep, ".")
                found[dotted.replace(".__init__", "")] = file_path
    return {name: path for name, path in found.items() if name not in ACTING_MODULES}


PURE_MODULES = {name: path for room in PURE for name, path in modules_of(room).items()}


def imported(path: str) -> set[str]:
    """The full names that a module imports; for `from package import name`, both readings."""
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    return names


def is_module_of_ours(name: str) -> bool:
    path = os.path.join(ROOT, *name.split("."))
    return name.startswith("davincirun.") and (os.path.isfile(f"{path}.py") or os.path.isdir(path))


@pytest.mark.parametrize("name", sorted(PURE_MODULES))
def test_a_module_that_decides_does_not_act(name: str) -> None:
    imports = imported(PURE_MODULES[name])
    acting = {one.split(".")[0] for one in imports} & ACTING
    assert acting <= ALLOWED.get(name.replace("davincirun.", ""), set())
    assert {one for one in imports if is_module_of_ours(one)} <= set(PURE_MODULES)
