"""Where the hardware tools are on a machine, and the environment in which they run."""

from __future__ import annotations

import os
from typing import Dict, List, Mapping, Optional, Tuple

from davincirun.devices.driver_files import read_install_info
from davincirun.values import Value

_ASCEND = "usr/local/Ascend"
_BIN = ("usr/local/bin", "usr/local/sbin", "usr/bin", "usr/sbin")
_LIBRARIES = ("lib64", "lib64/common", "lib64/driver")  # libc_sec.so is in the second, libdrvdsmi_host.so in the third


class Tool(Value):
    """A tool that was looked for."""

    name: str
    path: Optional[str]  # None: it is neither on PATH nor in `places`
    places: Tuple[str, ...]  # besides PATH

    @property
    def absence(self) -> str:
        """Where the tool is not."""
        return f"{self.name} is neither on PATH nor in {', '.join(self.places)}"


def find_tool(name: str, environ: Mapping[str, str], root: str) -> Tool:
    """Looks along PATH, then where the driver's installer puts its tools; most of them are on no PATH."""
    on_path = [place for place in environ.get("PATH", "").split(os.pathsep) if place]
    places = [os.path.join(driver, "tools") for driver in driver_directories(root)]
    places += [os.path.join(root, place) for place in _BIN]
    for place in (*on_path, *places):
        path = os.path.join(place, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return Tool(name, path, tuple(places))
    return Tool(name, None, tuple(places))


def tool_environment(environ: Mapping[str, str], root: str) -> Dict[str, str]:
    """`environ` with plain messages and with the driver's libraries, which ssh and cron shells lack."""
    libraries = [os.path.join(driver, place) for driver in driver_directories(root) for place in _LIBRARIES]
    known = [place for place in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if place]
    found = [place for place in libraries if place not in known and os.path.isdir(place)]
    environment = {**environ, "LC_ALL": "C"}
    if known or found:
        environment["LD_LIBRARY_PATH"] = os.pathsep.join([*known, *found])
    return environment


def driver_directories(root: str) -> List[str]:
    """Where a driver may be installed: where its installer says, and the usual place."""
    chosen = read_install_info(read_text(os.path.join(root, "etc/ascend_install.info")) or "").driver_path
    parents = [chosen] if chosen else []
    return [os.path.join(root, parent.lstrip("/"), "driver") for parent in dict.fromkeys([*parents, _ASCEND])]


def read_text(path: str) -> Optional[str]:
    """The file's text, or None if it can't be read (docker makes a directory of a missing bind source)."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
