"""The process that copies a growing log file into the object store until its stdin ends."""

from __future__ import annotations

import importlib
import os
import select
import sys
from typing import Any, Optional, Sequence

NO_MOXING = 3  # exit status where ModelArts' moxing isn't installed: nothing can be copied


def main(argv: Sequence[str]) -> int:
    """Copy `source` to `target` every `interval` seconds and once after stdin's end; 1 if that last copy failed."""
    source, target, interval = argv
    try:
        moxing = importlib.import_module("moxing")
    except ImportError:
        return NO_MOXING
    told = None
    while not _stdin_ended(float(interval)):
        problem = _copy(moxing, source, target)
        if problem and problem != told:
            print(f"davincirun: {target}: {problem}; trying again", file=sys.stderr, flush=True)
        told = problem
    problem = _copy(moxing, source, target)
    if problem:
        print(f"davincirun: {target}: {problem}", file=sys.stderr, flush=True)
    return 1 if problem else 0


def _stdin_ended(seconds: float) -> bool:
    readable, _, _ = select.select([0], [], [], seconds)
    return bool(readable) and not os.read(0, 4096)


def _copy(moxing: Any, source: str, target: str) -> Optional[str]:
    """What went wrong, in a line; None if nothing did."""
    try:
        moxing.file.copy(source, target)
    except Exception as error:  # moxing documents none of what it raises, and the next copy may succeed
        return f"{type(error).__name__}: {error}"
    return None
