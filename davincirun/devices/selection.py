"""Which of the devices a job may use: the `--devices` option and ASCEND_RT_VISIBLE_DEVICES."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

from davincirun.devices import Detected
from davincirun.devices.reading import whole_number
from davincirun.errors import DeviceError, UsageError

_HIGHEST_ID = 4095  # above every id in use; keeps a mistyped range from filling the memory
_VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"


def parse_devices_option(text: str) -> Tuple[int, ...]:
    """The logical ids in `0,2-3`: ascending, each once, without blanks. Anything else is a UsageError."""
    try:
        return parse_ids(text)
    except ValueError as error:
        raise UsageError(f"--devices {text!r}: {error}; wanted logical ids and ranges, as in 0,2-3") from None


def parse_visible_devices(text: str, count: int) -> Tuple[int, ...]:
    """The logical ids in ASCEND_RT_VISIBLE_DEVICES, on a machine of `count` devices.

    The runtime takes digits and commas in ascending order, and silently stops at the first thing it doesn't like,
    so that a job runs on fewer cards than it says. Here that is a DeviceError which tells what would have happened.
    """
    ids: List[int] = []
    for item in text.split(","):
        number = whole_number(item)
        problem = _problem(item, number, ids, count)
        if problem or number is None:
            raise DeviceError(
                f"{_VARIABLE}={text}: {problem}; {_runtime_would(number, ids)}; "
                f"wanted ascending logical ids from 0 to {count - 1}, parted by commas alone, or the variable not set"
            )
        ids.append(number)
    return tuple(ids)


def parse_container_devices(text: str) -> Tuple[int, ...]:
    """The physical ids in ASCEND_VISIBLE_DEVICES, by which docker's Ascend runtime mounts cards.

    Forms: `0-2,4`, names as `npu-1,npu-3` or `Ascend910-0`, never mixed; `void` or nothing mounts none. Ids from
    100 are virtual NPUs. Anything else is a DeviceError.
    """
    if text in ("", "void"):
        return ()
    items = [item.strip() for item in text.split(",")]
    prefixes = {item.rpartition("-")[0] for item in items if not item[:1].isdigit()}
    if prefixes and (len(prefixes) > 1 or any(item[:1].isdigit() for item in items)):
        raise DeviceError(f"ASCEND_VISIBLE_DEVICES={text}: wanted ids or names of one kind, not both")
    bare = [item.rpartition("-")[2] if prefixes else item for item in items]
    try:
        return parse_ids(",".join(bare))
    except ValueError as error:
        raise DeviceError(f"ASCEND_VISIBLE_DEVICES={text}: {error}; wanted ids as 0-2,4 or names as npu-1") from None


def select(detected: Detected, logical_ids: Sequence[int]) -> Detected:
    """`detected` with only the devices of these logical ids, in this order; the ids stay what they are.

    An id that no device has is a DeviceError.
    """
    by_id = {device.logical_id: device for device in detected.devices}
    missing = [logical_id for logical_id in logical_ids if logical_id not in by_id]
    if missing:
        raise DeviceError(
            f"no device with logical id {', '.join(map(str, missing))}: "
            f"this machine has {', '.join(map(str, by_id)) or 'none'} "
            f"(physical {', '.join(str(device.device_id) for device in detected.devices) or 'none'})"
        )
    return detected._replace(devices=tuple(by_id[logical_id] for logical_id in logical_ids))


def parse_ids(text: str) -> Tuple[int, ...]:
    """The numbers in `0,2-3`, which must ascend; ValueError says what is wrong."""
    ids: List[int] = []
    for item in text.split(","):
        first_text, dash, last_text = item.partition("-")
        first = whole_number(first_text)
        last = whole_number(last_text) if dash else first
        if first is None or last is None:
            raise ValueError(f"{item!r} is not a number or a range" if item else "a number is missing")
        if max(first, last) > _HIGHEST_ID:
            raise ValueError(f"{item} is beyond {_HIGHEST_ID}")
        if last < first:
            raise ValueError(f"{item} runs backwards")
        if ids and first <= ids[-1]:
            raise ValueError(f"{first} comes after {ids[-1]}: ids must ascend, each once")
        ids.extend(range(first, last + 1))
    return tuple(ids)


def _problem(item: str, number: Optional[int], ids: Sequence[int], count: int) -> str:
    if number is None:
        return f"{item!r} is not made of digits alone" if item else "an id is missing"
    if number >= count:
        return f"{number} is out of range: there are {count} devices here, counted from 0 whatever their physical ids"
    if number in ids:
        return f"{number} comes twice"
    if ids and number < ids[-1]:
        return f"{number} comes after {ids[-1]}"
    return ""


def _runtime_would(number: Optional[int], ids: Sequence[int]) -> str:
    """What CANN's runtime does with it, after its documentation of the variable."""
    if number in ids:
        return "the runtime refuses an id that comes twice"
    used = ",".join(map(str, ids))
    return f"the runtime would silently use {used} alone" if used else "the runtime would find no device at all"
