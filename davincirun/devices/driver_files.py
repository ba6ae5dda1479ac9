"""Reads the `key=value` files of the driver's installer: version.info and ascend_install.info.

They are not there under docker's Ascend runtime. The toolkit's file writes `version=` where the driver's and the
firmware's write `Version=`.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, numbered_lines
from davincirun.values import Value


class VersionInfo(Value):
    """A version.info of the driver or the firmware, or the toolkit's install.info."""

    version: Optional[str]
    package_name: Optional[str] = None
    path: Optional[str] = None
    values: Tuple[Tuple[str, str], ...] = ()  # every key, in the file's order
    problems: Tuple[Problem, ...] = ()


class InstallInfo(Value):
    """/etc/ascend_install.info."""

    driver_path: Optional[str]  # the parent of `driver/`
    complete: Optional[bool]  # False: npu-smi warns below its tables; None when the file doesn't say
    user_name: Optional[str] = None
    problems: Tuple[Problem, ...] = ()


def read_version_info(text: str) -> VersionInfo:
    """The version and what else the file says; the version is None where no line gives one."""
    pairs, problems = _pairs(text)
    values = dict(pairs)
    version = values.get("Version") or values.get("version") or values.get("package_version")
    return VersionInfo(version, values.get("package_name"), values.get("path"), tuple(pairs), tuple(problems))


def read_install_info(text: str) -> InstallInfo:
    """Where the driver is installed, whether to the end, and for which user."""
    pairs, problems = _pairs(text)
    values: Dict[str, str] = dict(pairs)
    status = values.get("Driver_Install_Status")
    return InstallInfo(
        values.get("Driver_Install_Path_Param"),
        None if status is None else status == "complete",
        values.get("UserName"),
        tuple(problems),
    )


def _pairs(text: str) -> Tuple[List[Tuple[str, str]], List[Problem]]:
    pairs: List[Tuple[str, str]] = []
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        key, equals, value = line.strip().partition("=")
        if equals and key.strip():
            pairs.append((key.strip(), value.strip()))
        elif not key.startswith("#"):
            problems.append(Problem(number, line, "not key=value"))
    return pairs, problems
