"""Which engine a launch takes: ours for Ascend cards, or mpirun."""

from __future__ import annotations

import os
from typing import Mapping

from davincirun.errors import DeviceError
from davincirun.options import Options

_VARIABLES = "OPENMPI_"


def is_for_mpirun(options: Options, environ: Mapping[str, str], root: str = "/") -> bool:
    """Whether mpirun starts the workers: as `--engine` says, else as the table and the cards do.

    A DeviceError names what was looked for when nothing speaks for either engine.
    """
    if options.engine != "auto":
        return options.engine == "mpi"
    if options.simulate:
        return options.simulate.strip().lower().startswith("gpu")
    if _names_a_table(options, environ, root):
        return False
    return _is_for_gpus(environ, root)


def _is_for_gpus(environ: Mapping[str, str], root: str) -> bool:
    from davincirun.devices.detect import read_nodes
    from davincirun.devices.tools import find_tool
    from davincirun.mpi import cards

    if read_nodes(root):
        return False
    if cards.evidence(environ, root) or _has_variables(environ):
        return True
    if find_tool("npu-smi", environ, root).path:
        return False
    dev = os.path.join(root, "dev")
    raise DeviceError(
        f"no cards found. Ascend: no rank table is named, {dev} has no davinciN and npu-smi is nowhere. GPUs: no"
        f" nvidia-smi, no {dev}/nvidiaN, none in CUDA_VISIBLE_DEVICES, no {_VARIABLES} variable. In a container mount"
        " the cards (--device=/dev/davinci0 and so on, or --gpus all); for a try without cards use --simulate 8 or"
        " --simulate gpu:8; --engine ascend or --engine mpi (the GPU engine) insists on one"
    )


def _names_a_table(options: Options, environ: Mapping[str, str], root: str) -> bool:
    named = options.rank_table or environ.get("RANK_TABLE_FILE_V_1_0") or environ.get("RANK_TABLE_FILE")
    return bool(named) or os.path.exists(os.path.join(root, "user/config/jobstart_hccl.json"))


def _has_variables(environ: Mapping[str, str]) -> bool:
    return any(name.startswith(_VARIABLES) and value for name, value in environ.items())
