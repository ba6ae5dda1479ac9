"""GPUs in texts: CUDA_VISIBLE_DEVICES and `--simulate gpu:8`."""

from __future__ import annotations

import re

from davincirun.errors import UsageError
from davincirun.values import Value

_NOTHING = ("", "none", "void", "-1", "NoDevFiles")


class Gpus(Value):
    """The GPUs of one node; a MIG instance counts as one."""

    per_node: int
    origin: str  # how we know


def simulated(spec: str) -> int:
    """The count in `gpu:8`; `gpu` alone is one."""
    match = re.fullmatch(r"gpu(?::([1-9]\d{0,3}))?", spec.strip().lower())
    if not match:
        raise UsageError(f"simulate {spec!r}: wanted gpu:COUNT with the GPU engine, as in gpu:8")
    return int(match.group(1) or 1)


def chosen(visible: str) -> list[str]:
    """The devices in a CUDA_VISIBLE_DEVICES: CUDA stops reading at the first that is none."""
    found = []
    for part in visible.split(","):
        if part.strip() in _NOTHING:
            break
        found.append(part.strip())
    return found
