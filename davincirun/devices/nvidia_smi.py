"""Reads nvidia-smi, for the GPU engine: `-L`, and `--query-gpu=… --format=csv` with a head."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, ReaderError, decimal, numbered_lines, unreadable, whole_number
from davincirun.values import Value

TOOL = "nvidia-smi"
_FAILURES = (  # how the line begins, what to do
    ("NVIDIA-SMI has failed", "the driver isn't loaded: install or start it"),
    ("Failed to initialize NVML", "the driver and its library don't match, or the container has no access to the GPUs"),
    ("No devices were found", "the driver sees no GPU"),
    ("NVIDIA-SMI couldn't find libnvidia-ml.so", "the driver's library isn't mounted or isn't on the path"),
    ("Unable to determine the device handle", "a GPU is lost: it has dropped off the PCIe bus"),
)


class MigDevice(Value):
    """A slice of a GPU."""

    number: int
    profile: str  # 1g.5gb
    uuid: str


class Gpu(Value):
    """One line of `nvidia-smi -L` with the slices below it."""

    number: int  # the tool's index
    name: str
    uuid: str
    migs: Tuple[MigDevice, ...] = ()


class GpuList(Value):
    """`nvidia-smi -L`."""

    gpus: Tuple[Gpu, ...]
    problems: Tuple[Problem, ...] = ()


def read_gpu_list(text: str) -> GpuList:
    """The GPUs and their MIG slices; a ReaderError says what to do where the tool failed."""
    gpus: List[Gpu] = []
    migs: List[List[MigDevice]] = []  # by GPU
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        mig = _mig(line)
        gpu = None if mig else _gpu(line)
        if mig and gpus:
            migs[-1].append(mig)
        elif gpu:
            gpus.append(gpu)
            migs.append([])
        else:
            _raise_failure(number, line)
            problems.append(Problem(number, line, "neither a GPU nor a MIG device"))
    if not gpus:
        raise unreadable(TOOL, text, "line 'GPU N: …'")
    return GpuList(tuple(gpu._replace(migs=tuple(own)) for gpu, own in zip(gpus, migs)), tuple(problems))


def read_csv(text: str) -> Tuple[Dict[str, str], ...]:
    """The rows of a csv query by the heads without their units: `memory.total [MiB]` is `memory.total`.

    No value of nvidia-smi contains a comma. A row that doesn't fit the head is a ReaderError.
    """
    heads: List[str] = []
    rows: List[Dict[str, str]] = []
    for number, line in numbered_lines(text):
        _raise_failure(number, line)
        values = [value.strip() for value in line.split(",")]
        if not heads:
            heads = [value.partition(" [")[0] for value in values]
        elif len(values) != len(heads):
            raise ReaderError(TOOL, str(Problem(number, line, f"wanted {len(heads)} values")))
        else:
            rows.append(dict(zip(heads, values)))
    if not heads:
        raise unreadable(TOOL, text, "csv head")
    return tuple(rows)


def number_of(value: str) -> Optional[float]:
    """The number in a csv value with or without its unit: `40960 MiB`; None for `[N/A]` and the like."""
    return decimal(value.split()[0]) if value.split() else None


def _gpu(line: str) -> Optional[Gpu]:
    """`GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-…)`."""
    before, colon, rest = line.strip().partition(":")
    number = whole_number(before[len("GPU ") :]) if before.startswith("GPU ") else None
    name, found, uuid = rest.rpartition("(UUID:")
    if number is None or not colon or not found:
        return None
    return Gpu(number, name.strip(), uuid.strip(" )"))


def _mig(line: str) -> Optional[MigDevice]:
    """`  MIG 1g.5gb     Device  0: (UUID: MIG-…)`."""
    before, found, uuid = line.strip().rpartition("(UUID:")
    words = before.rstrip(": ").split()
    if not found or len(words) < 4 or words[0] != "MIG" or words[-2] != "Device":
        return None
    number = whole_number(words[-1])
    return None if number is None else MigDevice(number, " ".join(words[1:-2]), uuid.strip(" )"))


def _raise_failure(number: int, line: str) -> None:
    for start, remedy in _FAILURES:
        if line.strip().startswith(start):
            raise ReaderError(TOOL, f"{Problem(number, line, 'the tool failed')}; {remedy}")
