"""How many GPUs this machine has for us: from the user's choice, nvidia-smi, the device nodes, the container's wish."""

from __future__ import annotations

import os
import re
from typing import Mapping, Optional

from davincirun.devices.nvidia_smi import read_gpu_list
from davincirun.devices.reading import ReaderError
from davincirun.devices.tools import find_tool
from davincirun.mpi.gpus import Gpus, chosen, simulated

_LIST_SECONDS = 20.0


def count(environ: Mapping[str, str], simulate: Optional[str] = None, root: str = "/") -> Optional[Gpus]:
    """The GPUs that each node gives to the job; None when nothing tells. UsageError: `simulate` is no `gpu:N`."""
    if simulate:
        return Gpus(simulated(simulate), "simulated GPUs")
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip():
        return Gpus(len(chosen(visible)), "CUDA_VISIBLE_DEVICES")
    listed = _listed(environ, root)
    if listed:
        return Gpus(listed, "nvidia-smi -L")
    nodes = device_nodes(root)
    if nodes:
        return Gpus(nodes, os.path.join(root, "dev/nvidiaN"))
    wished = environ.get("NVIDIA_VISIBLE_DEVICES", "")
    if wished != "all" and chosen(wished):
        return Gpus(len(chosen(wished)), "NVIDIA_VISIBLE_DEVICES")
    if environ.get("MA_NUM_GPUS", "0").isdigit() and int(environ.get("MA_NUM_GPUS", "0")):
        return Gpus(int(environ["MA_NUM_GPUS"]), "MA_NUM_GPUS")
    return None


def evidence(environ: Mapping[str, str], root: str = "/") -> bool:
    """Whether there is any sign of a GPU.

    NVIDIA_VISIBLE_DEVICES=all is none: every CUDA image sets it. Neither is nvidia-smi, unless it lists one.
    """
    if chosen(environ.get("CUDA_VISIBLE_DEVICES", "")) or device_nodes(root):
        return True
    wished = environ.get("NVIDIA_VISIBLE_DEVICES", "")
    return (wished != "all" and bool(chosen(wished))) or _listed(environ, root) > 0


def device_nodes(root: str) -> int:
    try:
        return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir(os.path.join(root, "dev")))
    except OSError:
        return 0


def _listed(environ: Mapping[str, str], root: str) -> int:
    tool = find_tool("nvidia-smi", environ, root)
    if tool.path is None:
        return 0
    import subprocess

    try:
        done = subprocess.run([tool.path, "-L"], env=environ, stdout=subprocess.PIPE, timeout=_LIST_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    try:
        gpus = read_gpu_list(done.stdout.decode("utf-8", "replace")).gpus
    except ReaderError:
        return 0  # no driver, or no GPU
    return sum(len(gpu.migs) or 1 for gpu in gpus)
