"""The machine that the fakes speak for: read from a short text, FAKE_ASCEND.

GENERATION:COUNT or GENERATION:PHYSICAL_IDS, then options after semicolons; the README lists them.
"""

from __future__ import annotations

import os
import sys
import time
from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:  # loading `typing` takes longer than all the rest, and a test runs dozens of these
    from typing import Dict, List, Optional, Tuple

VARIABLE = "FAKE_ASCEND"


# A generation of cards. `layout`: which table npu-smi prints, 310 310P HBM A3 950; `map_name`: as in `info -m`.
Kind = namedtuple("Kind", "layout name map_name driver chips_per_npu memory_total hbm_total", defaults=(1, 0, 0))
# One device. `address`: IPv4 or IPv6; None: not set.
Chip = namedtuple("Chip", "logic_id phy_id npu_id chip_id health pids address")


KINDS = {
    "310": Kind("310", "310", "Ascend 310", "20.2.2", chips_per_npu=4, memory_total=8192),
    "310p": Kind("310P", "310P3", "Ascend 310P3", "22.0.4", memory_total=21534),
    "310pduo": Kind("310P", "310P3", "Ascend 310P3", "25.2.0", chips_per_npu=2, memory_total=44280),
    "910": Kind("HBM", "910A", "Ascend 910A", "23.0.5", memory_total=15079, hbm_total=32768),
    "910b": Kind("HBM", "910B3", "Ascend 910B3", "25.5.1", hbm_total=65536),
    "a3": Kind("A3", "Ascend910", "Ascend910", "25.5.1", chips_per_npu=2, hbm_total=65536),
    "950": Kind("950", "Ascend950PR", "Ascend950PR", "25.7.rc1", hbm_total=131072),
    "gpu": Kind("gpu", "NVIDIA A100-SXM4-40GB", "", "535.104.05", memory_total=40960),
}


class Machine(namedtuple("Machine", "kind chips options")):
    """What the fakes know: the kind of the cards, the chips that npu-smi lists, the options of the spec."""

    @property
    def driver(self) -> str:
        return self.options.get("driver", self.kind.driver)

    def of_npu(self, npu_id: str) -> List[Chip]:
        return [chip for chip in self.chips if str(chip.npu_id) == npu_id]


def machine_for(tool: str) -> Machine:
    """The machine of FAKE_ASCEND; waits, hangs or fails first where its options tell this tool to."""
    machine = parse(os.environ.get(VARIABLE, "910b:8"))
    time.sleep(float(machine.options.get("delay", "0")))
    if machine.options.get("hang") in ("all", tool, " ".join([tool, *sys.argv[1:]])):
        time.sleep(3600)
    return machine


def parse(spec: str) -> Machine:
    """The machine that `spec` describes; a spec that makes no sense ends the fake with a message."""
    head, *rest = (part.strip() for part in spec.split(";"))
    options = dict(_option(part) for part in rest if part)
    generation, _, ids_text = head.partition(":")
    kind = KINDS.get(generation.lower())
    ids = list(range(int(ids_text))) if ids_text.isdigit() else _ids(ids_text)
    if kind is None or not ids:
        sys.exit(f"{VARIABLE}={spec}: wanted GENERATION:COUNT or GENERATION:IDS of {', '.join(KINDS)}")
    missing = _ids(options.get("missing", ""))
    listed = [phy_id for phy_id in ids if phy_id not in missing]
    return Machine(kind, tuple(_chip(kind, index, phy_id, options) for index, phy_id in enumerate(listed)), options)


def fail(text: str, status: int, to_stderr: bool = False) -> None:
    """Ends as the real tools do: npu-smi complains on standard output, hccn_tool on standard error."""
    print(text, file=sys.stderr if to_stderr else sys.stdout)
    sys.exit(status & 0xFF)


def _chip(kind: Kind, logic_id: int, phy_id: int, options: Dict[str, str]) -> Chip:
    npu_id, chip_id = divmod(phy_id, kind.chips_per_npu)
    health = _by_id(options.get("health", "")).get(phy_id, "OK")
    pids = _by_id(options.get("busy", "")).get(phy_id, "")
    address: Optional[str] = f"10.20.{phy_id % 4}.{11 + phy_id}"
    if "ipv6" in options:
        address = f"fd00::{phy_id:x}"
    if phy_id in _ids(options.get("noip", "")) or options.get("noip") == "all" or kind.layout.startswith("310"):
        address = None
    first_npu = int(options.get("first_npu", "0"))
    return Chip(
        logic_id,
        phy_id,
        first_npu + npu_id,
        chip_id,
        health,
        tuple(int(pid) for pid in pids.split("+") if pid),
        _by_id(options.get("ip", "")).get(phy_id, address),
    )


def _option(part: str) -> Tuple[str, str]:
    key, _, value = part.partition("=")
    return key.strip(), value.strip()


def _ids(text: str) -> List[int]:
    return [int(word) for word in text.split(",") if word.isdigit()]


def _by_id(text: str) -> Dict[int, str]:
    """`3:Alarm,4:Warning` as numbers to words."""
    pairs = (word.partition(":") for word in text.split(",") if word)
    return {int(number): value for number, _, value in pairs}
