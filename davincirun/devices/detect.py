"""Finds this machine's cards.

1. /dev/davinciN says which exist: one directory is read, no driver is called, and it is right in containers.
2. `npu-smi info -m` says which ids belong together, `npu-smi info` adds names, health and processes.
3. hccn_tool, else /etc/hccn.conf, says the addresses; on Atlas A3 npu-smi the place in the super pod.

A missing, failing or hanging tool costs its part of the answer and a note, never the launch.
"""

from __future__ import annotations

import os
from typing import Mapping, Sequence, Tuple

from davincirun.devices import Detected
from davincirun.devices.devnodes import device_ids
from davincirun.devices.identify import Identified, identify
from davincirun.devices.tools import Tool, find_tool, read_text, tool_environment
from davincirun.errors import DeviceError

_UNFIT = ("Alarm", "Critical", "UNKNOWN")


def detect(
    environ: Mapping[str, str],
    root: str = "/",
    timeout_seconds: float = 20.0,
    addresses: bool = True,
    details: bool = True,
    require_healthy: bool = False,
) -> Detected:
    """The devices below `root`, the tools being looked for along the PATH of `environ` first.

    `timeout_seconds` is for each run of a tool. Without `addresses` and `details` the nodes are read and nothing
    is run, if there are any. A DeviceError says where no card was found, or with `require_healthy` which is unfit.
    """
    nodes = read_nodes(root)
    if nodes and not (addresses or details or require_healthy):
        return Detected(identify(nodes, None, None).devices)
    detected = _ask_tools(nodes, environ, root, timeout_seconds, addresses)
    if require_healthy:
        _refuse_unfit(detected)
    return detected


def read_nodes(root: str = "/") -> Tuple[int, ...]:
    """The physical ids of the device nodes below `root`, in numeric order; empty without any."""
    try:
        return device_ids(os.listdir(os.path.join(root, "dev")))
    except OSError:
        return ()


def _ask_tools(
    nodes: Sequence[int], environ: Mapping[str, str], root: str, timeout_seconds: float, addresses: bool
) -> Detected:
    npu_smi = find_tool("npu-smi", environ, root)
    if npu_smi.path is None and not nodes:
        raise DeviceError(_no_card([_not_found(npu_smi)], environ, root))
    from davincirun.devices import queries  # these two bring `subprocess`: only where there is something to run
    from davincirun.devices.commands import Commands

    with Commands(tool_environment(environ, root), timeout_seconds) as commands:
        smi = queries.ask_npu_smi(commands, npu_smi.path) if npu_smi.path else queries.SmiAnswers()
        identified = identify(nodes, smi.id_map, smi.table)
        if not identified.devices:
            raise DeviceError(_no_card(list(smi.failures) or ["npu-smi lists no chip"], environ, root))
        notes = list(smi.failures) if npu_smi.path else [_not_found(npu_smi)]
        if notes and not (smi.id_map or smi.table):
            notes.append("the devices are those of /dev alone: names, health and processes are not known")
        detected = Detected(identified.devices, (*notes, *identified.notes), identified.generation)
        detected = _with_numa_nodes(detected, identified, root)
        if not addresses:
            return detected
        hccn_tool = find_tool("hccn_tool", environ, root)
        conf_text = read_text(os.path.join(root, "etc/hccn.conf"))
        return queries.ask_network(commands, detected, npu_smi.path, hccn_tool.path, conf_text)


def _with_numa_nodes(detected: Detected, identified: Identified, root: str) -> Detected:
    """The NUMA nodes, which the kernel knows by bus id; -1 there means that it doesn't."""
    devices = []
    for device in detected.devices:
        bus_id = identified.bus_ids.get(device.device_id, "").lower()
        path = os.path.join(root, "sys/bus/pci/devices", bus_id, "numa_node")
        text = (read_text(path) or "").strip() if bus_id else ""
        devices.append(device._replace(numa_node=int(text)) if text.isdigit() else device)
    return detected._replace(devices=tuple(devices))


def _refuse_unfit(detected: Detected) -> None:
    unfit = [device for device in detected.devices if device.health is None or device.health in _UNFIT]
    if unfit:
        told = ", ".join(f"device {device.device_id} is {device.health or 'of unknown health'}" for device in unfit)
        raise DeviceError(
            f"not every card is healthy: {told}; `npu-smi info -t health -i NPU` says why, "
            "--devices leaves cards out, and without --require-healthy they are used all the same"
        )


def _no_card(answers: Sequence[str], environ: Mapping[str, str], root: str) -> str:
    """Where was looked, what was found there, what can be done."""
    gpu = " (nvidia-smi is here)" if find_tool("nvidia-smi", environ, root).path else ""
    return (
        f"no Ascend card found: {os.path.join(root, 'dev')} has no davinciN; {'; '.join(answers)}. "
        "In a container mount the cards (--runtime=ascend, or --device=/dev/davinci0 and so on); "
        f"for a try without cards use --simulate 8; for GPUs{gpu} use the GPU engine, mpirun"
    )


def _not_found(tool: Tool) -> str:
    return f"{tool.name} is neither on PATH nor in {', '.join(tool.places)}"
