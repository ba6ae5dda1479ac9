"""Which cards a machine has by their nodes, /dev/davinciN: right in containers, and when every tool fails."""

from __future__ import annotations

from typing import Iterable, Optional, Tuple

from davincirun.devices.reading import whole_number

_PREFIX = "davinci"  # but davinci_manager is the driver, and vdavinciN a virtual card seen from the host


def device_ids(names: Iterable[str]) -> Tuple[int, ...]:
    """The physical ids in the names of a /dev directory, in numeric order: 2 before 10."""
    return tuple(sorted({number for number in map(_device_id, names) if number is not None}))


def read_listing(text: str) -> Tuple[int, ...]:
    """The physical ids in what `ls /dev/davinci*` or `ls -l /dev` printed."""
    return device_ids(word.rpartition("/")[2] for word in text.split())


def _device_id(name: str) -> Optional[int]:
    return whole_number(name[len(_PREFIX) :]) if name.startswith(_PREFIX) else None
