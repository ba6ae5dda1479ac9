"""This machine's cards: what they are, and how that is found out.

The readers turn what a tool printed into values and act on nothing; `identify` and `addresses` join their
values; `detect` alone runs tools and reads the machine. `simulated` makes the same values out of a short text.
"""

from __future__ import annotations

from typing import Optional, Tuple

from davincirun.cluster import Device
from davincirun.values import Value


class LocalDevice(Value):
    """One device of this machine that a worker can be started on (on Atlas A3: one die)."""

    logical_id: int  # what CANN and ASCEND_RT_VISIBLE_DEVICES count by; always from 0 in a container
    device_id: int  # physical: the N of /dev/davinciN, and what rank tables and hccn_tool want
    device_ip: Optional[str] = None  # the device's own NIC; several are joined by commas
    npu_id: Optional[int] = None  # npu-smi's card: a slot number, not an ordinal
    chip_id: Optional[int] = None  # the chip (on A3: the die) within that card
    name: Optional[str] = None  # as npu-smi prints it: 910B3, Ascend910, 310P3
    health: Optional[str] = None  # OK, Warning, Alarm, Critical, UNKNOWN; None when it wasn't asked or told
    super_device_id: Optional[str] = None  # the SDID inside an A3 super pod
    eid: Optional[str] = None  # the 950's address in the UB fabric: 32 hexadecimal digits
    ports: Tuple[str, ...] = ()  # of the 950 that are connected: die/port
    numa_node: Optional[int] = None
    pids: Tuple[int, ...] = ()  # processes that use the device now
    source: str = ""  # where each value came from


class Detected(Value):
    """The devices of this machine, in the order of their logical ids."""

    devices: Tuple[LocalDevice, ...]
    notes: Tuple[str, ...] = ()  # what a user should know: fallbacks, disagreements, ill cards
    generation: str = "unknown"  # 310 310P 310B 910 910B A3 950 unknown
    super_pod_id: Optional[str] = None  # of an A3 super pod


def cluster_device(rank: int, device: LocalDevice) -> Device:
    """What a rank table says of `device`."""
    return Device(rank, device.device_id, device.device_ip, device.super_device_id, device.eid, device.ports)
