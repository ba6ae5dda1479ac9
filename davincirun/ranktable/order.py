"""How people order names: 9 before 10."""

from __future__ import annotations

import re
from typing import List, Sequence, Tuple

_DIGITS = re.compile(r"([0-9]+)")


def natural(name: str) -> List[Tuple[int, int, str]]:
    """A sort key by which 10.0.13.90 comes before 10.0.13.100, and worker-2 before worker-10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part]


def ranges(numbers: Sequence[int]) -> str:
    """`numbers` with runs folded: "0-7,9"; they keep their order."""
    runs: List[List[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join([str(first) if first == last else f"{first}-{last}" for first, last in runs])
