#!/usr/bin/env python3
"""The drop-in for the platform's `davincirun.py`: `python davincirun.py [OPTIONS] COMMAND [ARG...]`.

Works in a checkout, and copied anywhere once the package is installed. A worker script that lies beside it and says
`import davincirun` finds this file first; as a module, it makes way for the real package.
"""

from __future__ import annotations

import os
import sys


def package_search_path() -> list[str]:
    """`sys.path` for finding the package: the checkout's or neighbouring one first, this file's folder never else."""
    here = os.path.dirname(os.path.realpath(__file__))
    elsewhere = [entry for entry in sys.path if os.path.realpath(entry) != here]
    for root in (here, os.path.dirname(here)):
        if os.path.isfile(os.path.join(root, "davincirun", "__init__.py")):
            return [root, *elsewhere]
    return elsewhere


def make_way() -> None:
    """Put the real package where the import system expects this module; `sys.path` is as before afterwards."""
    before = sys.path[:]
    del sys.modules[__name__]
    sys.path[:] = package_search_path()
    try:
        import davincirun

        sys.modules[__name__] = davincirun
    finally:
        sys.path[:] = before


def launch() -> None:
    """Run the launcher; a missing package is explained without a traceback."""
    sys.path[:] = package_search_path()
    try:
        from davincirun.cli import run
    except ModuleNotFoundError as error:
        if error.name != "davincirun":
            raise
        sys.exit(f"davincirun: {__file__}: needs the davincirun package: {sys.executable} -m pip install davincirun")
    run()


if __name__ == "__main__":
    launch()
else:
    make_way()
