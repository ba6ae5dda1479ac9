"""Reads the matrix of `npu-smi info -t topo`: how the cards reach each other, and which CPUs are near them."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, numbered_lines, unreadable
from davincirun.values import Value

TOOL = "npu-smi info -t topo"
_AFFINITY = "CPU Affinity"


class Topology(Value):
    """The matrix; the names are `NPU0` or, on Atlas A3, `Phy-ID0`, and only those of visible cards."""

    names: Tuple[str, ...]
    links: Dict[str, Dict[str, str]]  # links["NPU0"]["NPU1"] is HCCS, SIO, HCCS_SW, PIX, PXB, PHB, SYS, UB or NA
    cpu_affinity: Dict[str, str]  # as `0-63,128-191`; empty on ARM A3 and in 950 pods, where it isn't printed
    problems: Tuple[Problem, ...] = ()


def read_topology(text: str) -> Topology:
    """The matrix in `text`; rows that don't fit the head become `problems`."""
    heads: List[str] = []
    links: Dict[str, Dict[str, str]] = {}
    affinity: Dict[str, str] = {}
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        words = _words(line)
        if words[0].startswith("Legend"):
            break
        if not heads:
            heads = words if _is_device(words[0]) and words[0] != _AFFINITY else []
        elif _fits(words, heads):
            row = dict(zip(heads, words[1:]))
            affinity.update({words[0]: row.pop(_AFFINITY)} if _AFFINITY in row else {})
            links[words[0]] = row
        else:
            problems.append(Problem(number, line, f"not a row of {len(heads)} columns"))
    if not links:
        raise unreadable(TOOL, text, "matrix of NPUs")
    return Topology(tuple(head for head in heads if head != _AFFINITY), links, affinity, tuple(problems))


def device_number(name: str) -> Optional[int]:
    """The N of `NPUN` or `Phy-IDN`; None for a network interface."""
    for prefix in ("NPU", "Phy-ID"):
        digits = name[len(prefix) :]
        if name.startswith(prefix) and digits.isdigit() and digits.isascii() and len(digits) <= 4:
            return int(digits)
    return None


def _fits(words: List[str], heads: List[str]) -> bool:
    """Whether a row has its name and a cell for each head; that of a network interface may lack the affinity."""
    if not _is_device(words[0]) and heads[-1] == _AFFINITY:
        return len(heads) <= len(words) <= len(heads) + 1
    return len(words) == len(heads) + 1


def _is_device(word: str) -> bool:
    return device_number(word) is not None


def _words(line: str) -> List[str]:
    """The words of a row, with the one head that is two words put together."""
    before, found, after = line.partition(_AFFINITY)
    return [*before.split(), _AFFINITY, *after.split()] if found else line.split()
