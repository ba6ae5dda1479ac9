"""`davincictl devices`: which cards this machine has, and where each fact about them comes from."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from davincirun.devices import Detected, LocalDevice
from davincirun.devices.detect import detect, refuse_unfit
from davincirun.devices.simulated import simulate
from davincirun.errors import DeviceError

_HEADS = ("LOGICAL", "PHYSICAL", "NPU/CHIP", "NAME", "HEALTH", "ADDRESS", "NUMA", "PIDS", "SOURCE")


def add_parser(subparsers: Any) -> None:
    """Registers the verb; `subparsers` is what `ArgumentParser.add_subparsers` returned."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "devices", help="show this machine's cards", description="Shows this machine's cards and how each was found."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--simulate", metavar="SPEC", help="show simulated cards: 8, 910b:8, a3:16, 310p:2")
    parser.add_argument("--require-healthy", action="store_true", help="fail if a card is ill, or can't be asked")
    parser.set_defaults(handler=show_devices)


def show_devices(options: argparse.Namespace, environ: Optional[Mapping[str, str]] = None) -> int:
    """Prints the devices and returns 0; a DeviceError when there are none, with --json after an empty object."""
    try:
        detected = _devices(options, os.environ if environ is None else environ)
    except DeviceError as error:
        if options.json:
            print(_json(Detected((), (str(error),))))
        raise
    print(_json(detected) if options.json else _table(detected))
    return 0


def _devices(options: argparse.Namespace, environ: Mapping[str, str]) -> Detected:
    detected = detect(environ) if options.simulate is None else simulate(options.simulate)
    if options.require_healthy:
        refuse_unfit(detected)
    return detected


def _json(detected: Detected) -> str:
    document: Dict[str, Any] = {
        "generation": detected.generation,
        "super_pod_id": detected.super_pod_id,
        "devices": [device._asdict() for device in detected.devices],
        "notes": detected.notes,
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _table(detected: Detected) -> str:
    rows: List[Sequence[str]] = [_HEADS, *(_row(device) for device in detected.devices)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    pod = "" if detected.super_pod_id is None else f", super pod {detected.super_pod_id}"
    lines.append(f"{len(detected.devices)} devices, generation {detected.generation}{pod}")
    return "\n".join(lines + [f"note: {note}" for note in detected.notes])


def _row(device: LocalDevice) -> Sequence[str]:
    npu = "-" if device.npu_id is None else str(device.npu_id)
    return (
        str(device.logical_id),
        str(device.device_id),
        npu if device.chip_id is None else f"{npu}/{device.chip_id}",
        device.name or "-",
        device.health or "-",
        device.device_ip or "-",
        "-" if device.numa_node is None else str(device.numa_node),
        ",".join(map(str, device.pids)) or "-",
        device.source or "-",
    )
