"""What the documents promise is there: commands, files, options, variables, exit statuses."""

from __future__ import annotations

import argparse
import glob
import os
import re
import subprocess
import sys

import pytest

from davincirun import ctl, environment, environment_modes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DOCUMENTS = sorted(
    glob.glob(os.path.join(ROOT, "*.rst")) + glob.glob(os.path.join(ROOT, "docs", "**", "*.rst"), recursive=True)
)


def read(*path: str) -> str:
    with open(os.path.join(ROOT, *path), encoding="utf-8") as document:
        return document.read()


@pytest.fixture(scope="module")
def help_text() -> str:
    return subprocess.check_output([sys.executable, "-m", "davincirun", "--help"], cwd=ROOT, timeout=60).decode()


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def options_of_help(text: str) -> set[str]:
    """Those that --help lists, not those of its examples' commands."""
    return options_in("\n".join(line for line in text.splitlines() if line.startswith("  -")))


def options_of_davincictl() -> set[str]:
    """Those of all its verbs."""
    parsers, options = [ctl._parser()], set()
    for parser in parsers:
        for action in parser._actions:
            options.update(action.option_strings)
            parsers += action.choices.values() if isinstance(action, argparse._SubParsersAction) else []
    return options


@pytest.mark.parametrize("document", ["docs/devices.rst", "docs/ranktables.rst"])
def test_the_pages_of_davincictl_name_its_options(document: str, help_text: str) -> None:
    described = options_in(read(*document.split("/")))
    assert described - options_of_help(help_text) - options_of_davincictl() == set()


def test_the_readme_has_one_command_that_trains_and_one_that_tests() -> None:
    commands = re.findall(r"^    (python3 -m venv .*)$", read("README.rst"), re.MULTILINE)
    assert [command.split("&&")[-1].strip() for command in commands] == [
        "python tools/davincirun.py --simulate 8 python tools/examples/train.py",
        "python -m pytest -n auto",
    ]


def test_the_chinese_guide_starts_with_the_same_command() -> None:
    (first, _) = re.findall(r"^    python3 -m venv .*$", read("README.rst"), re.MULTILINE)
    assert first in read("docs", "zh", "guide.rst")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: os.path.relpath(path, ROOT))
def test_files_that_a_document_names_are_there(document: str) -> None:
    with open(document, encoding="utf-8") as opened:
        text = opened.read()
    linked = [os.path.join(os.path.dirname(document), path) for path in re.findall(r"<([\w./]+\.rst)>`_", text)]
    named = [os.path.join(ROOT, path) for path in re.findall(r"\btools/[\w/]*\w(?:\.py)?", text)]
    assert [path for path in [*linked, *named] if not os.path.exists(path)] == []


@pytest.mark.parametrize("document", ["README.rst", "docs/zh/guide.rst"])
def test_the_options_are_those_of_help(document: str, help_text: str) -> None:
    described = options_in(read(*document.split("/")))
    existing = options_of_help(help_text)
    assert existing - described <= {"--quiet", "--verbose", "--help"}
    assert described - existing - options_of_davincictl() == set()


def test_every_variable_that_a_worker_gets_is_described() -> None:
    rows = (*environment.OVERWRITTEN, *environment.UNLESS_SET, *environment.UNLESS_FILLED)
    modes = [
        {"MA_DIAG_MODE_ENV": "faults", "MA_ENGINE_VERSION": "mindspore_2.0-cann"},
        {"MA_DIAG_MODE_ENV": "profile"},
        {"MA_RUN_MODE_ENV": "performance"},
    ]
    names = {row.name for row in rows} | set(environment.REMOVED)
    names.update(name for mode in modes for name in environment_modes.mode_variables(mode, "", 0))
    described = set(re.findall(r"\b[A-Z][A-Za-z_]+\b", read("docs", "variables.rst")))
    assert names - described == set()


def test_the_architecture_page_names_every_module() -> None:
    """Of modules like ranktable_cli it is enough to name the room, ranktable."""
    package = os.path.join(ROOT, "davincirun")
    modules = {name.replace(".py", "") for name in os.listdir(package) if not name.startswith(("__", "."))}
    named = set(re.findall(r"``(\w+)``", read("docs", "architecture.rst")))
    assert {module for module in modules if not named & {module, module.split("_")[0]}} == set()


def test_the_version_has_its_changes() -> None:
    from davincirun import __version__

    assert f"\n{__version__}\n---" in read("CHANGELOG.rst")


def test_the_project_says_under_which_licence_it_is() -> None:
    assert "Apache License" in read("LICENSE") and "Version 2.0, January 2004" in read("LICENSE")
