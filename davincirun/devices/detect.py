"""Finds this machine's cards.

1. /dev/davinciN says which exist: one directory is read, no driver is called, and it is right in containers.
2. `npu-smi info -m` says which ids belong together, `npu-smi info` adds names, health and processes.
3. hccn_tool, else /etc/hccn.conf, says the addresses; on Atlas A3 npu-smi the place in the super pod.
4. Where neither a node nor npu-smi tells of a card, those are taken that hccn_tool answers for.

A missing, failing or hanging tool costs its part of the answer and a note, never the launch.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Tuple

from davincirun.devices import Detected, LocalDevice
from davincirun.devices.devnodes import device_ids
from davincirun.devices.pci import PCI_VENDOR, generation_of
from davincirun.devices.reading import whole_number
from davincirun.devices.tools import Tool, find_tool, read_text, tool_environment
from davincirun.errors import DeviceError

if TYPE_CHECKING:
    from davincirun.devices.commands import Commands, Wait

TIMEOUT_SECONDS = 10.0  # a full report of eight cards takes up to 5.4 s

_NODES_ALONE = "only the nodes in /dev tell which cards there are: names, health and processes are not known"
_UNFIT = ("Alarm", "Critical", "UNKNOWN")


def detect(
    environ: Mapping[str, str],
    root: str = "/",
    timeout_seconds: float = TIMEOUT_SECONDS,
    addresses: bool = True,
    details: bool = True,
    require_healthy: bool = False,
    wait: Optional[Wait] = None,
) -> Detected:
    """The devices below `root`, the tools being looked for along the PATH of `environ` first.

    `timeout_seconds` is for each run of a tool, and `wait(fd, what)` is called while one runs: it returns when `fd` is
    readable or earlier, or raises to give up, which ends all of them. Without `details` npu-smi is not asked where
    there are nodes, and without `addresses` nor hccn_tool; then nothing is run. A DeviceError says where no card was
    found, or with `require_healthy`, which needs the details, which one is unfit.
    """
    nodes = read_nodes(root)
    details = details or require_healthy or not nodes
    if not (addresses or details):
        return Detected(
            tuple(LocalDevice(index, node, source=f"/dev/davinci{node}") for index, node in enumerate(nodes))
        )
    detected = _ask_tools(nodes, environ, root, (timeout_seconds, wait), addresses, details)
    if require_healthy:
        refuse_unfit(detected)
    return detected


def read_nodes(root: str = "/") -> Tuple[int, ...]:
    """The physical ids of the device nodes below `root`, in numeric order; empty without any."""
    try:
        return device_ids(os.listdir(os.path.join(root, "dev")))
    except OSError:
        return ()


def generation_here(environ: Mapping[str, str], root: str = "/", ask: bool = True) -> str:
    """The generation of this machine's cards, `unknown` without any: by the PCI bus, else, to `ask`, by npu-smi."""
    generation = _generation_of_bus(root) if read_nodes(root) else "unknown"
    if generation != "unknown" or not ask:
        return generation
    try:
        return detect(environ, root, addresses=False).generation
    except DeviceError:
        return "unknown"


def refuse_unfit(detected: Detected) -> None:
    """Raises a DeviceError if a device reports Alarm, Critical or UNKNOWN, or its health isn't known."""
    unfit = [device for device in detected.devices if device.health is None or device.health in _UNFIT]
    if unfit:
        told = ", ".join(f"device {device.device_id} is {device.health or 'of unknown health'}" for device in unfit)
        raise DeviceError(
            f"not every card is healthy: {told}; `npu-smi info -t health -i NPU` says why, "
            "--devices leaves cards out, and without --require-healthy they are used all the same"
        )


def _ask_tools(
    nodes: Sequence[int],
    environ: Mapping[str, str],
    root: str,
    patience: Tuple[float, Optional[Wait]],
    addresses: bool,
    details: bool,
) -> Detected:
    npu_smi, hccn_tool = find_tool("npu-smi", environ, root), find_tool("hccn_tool", environ, root)
    if not nodes and npu_smi.path is None and hccn_tool.path is None:
        raise DeviceError(_no_card([npu_smi.absence], environ, root))
    # These bring `subprocess` and the readers, which are only paid for where there is something to run.
    from davincirun.devices.commands import Commands
    from davincirun.devices.identify import identify
    from davincirun.devices.network import ask_network
    from davincirun.devices.queries import SmiAnswers, ask_npu_smi

    conf_text = read_text(os.path.join(root, "etc/hccn.conf"))
    with Commands(tool_environment(environ, root), *patience) as commands:
        smi = ask_npu_smi(commands, npu_smi) if details else SmiAnswers()
        identified = identify(nodes, smi.id_map, smi.table)
        detected = Detected(identified.devices, (*smi.notes, *identified.notes), identified.generation)
        if not detected.devices:
            detected = _by_hccn_tool(commands, hccn_tool, conf_text, smi.notes or ["npu-smi lists no chip"])
        if not detected.devices:
            raise DeviceError(_no_card(detected.notes, environ, root))
        detected = _with_numa_nodes(detected, identified.bus_ids, root)
        if nodes and not (smi.id_map or smi.table):
            detected = _with_generation_of_bus(detected, root)
        if addresses:
            detected = ask_network(commands, detected, npu_smi, hccn_tool, conf_text)
    return detected


def _by_hccn_tool(commands: Commands, hccn_tool: Tool, conf_text: Optional[str], notes: Sequence[str]) -> Detected:
    """The cards that hccn_tool answers for, the loudest note first; no device where there is none."""
    from davincirun.devices.hccn_conf import read_hccn_conf
    from davincirun.devices.last_resort import ask_for_cards

    if hccn_tool.path is None:
        return Detected((), (*notes, hccn_tool.absence))
    answered = ask_for_cards(commands, hccn_tool.path, list(read_hccn_conf(conf_text or "").cards))
    if not answered.devices:
        return Detected((), (*notes, "hccn_tool answers for no card"))
    return Detected(answered.devices, (*answered.notes, *notes), answered.generation)


def _with_generation_of_bus(detected: Detected, root: str) -> Detected:
    """The generation by the PCI bus, for when only nodes are known: it decides on the form of the rank table."""
    generation = _generation_of_bus(root)
    read_off = "" if generation == "unknown" else f"; the PCI bus says generation {generation}"
    return detected._replace(generation=generation, notes=(*detected.notes, _NODES_ALONE + read_off))


def _generation_of_bus(root: str) -> str:
    folder = os.path.join(root, "sys/bus/pci/devices")
    try:
        places = [os.path.join(folder, name) for name in os.listdir(folder)]
    except OSError:
        return "unknown"
    ours = [place for place in places if (read_text(os.path.join(place, "vendor")) or "").strip() == PCI_VENDOR]
    return generation_of(read_text(os.path.join(place, "device")) or "" for place in ours)


def _with_numa_nodes(detected: Detected, bus_ids: Mapping[int, str], root: str) -> Detected:
    """The NUMA nodes, which the kernel knows by bus id; -1 there means that it doesn't."""
    devices = []
    for device in detected.devices:
        bus_id = bus_ids.get(device.device_id, "").lower()
        path = os.path.join(root, "sys/bus/pci/devices", bus_id, "numa_node")
        node = whole_number((read_text(path) or "").strip()) if bus_id else None
        source = f"{device.source}, NUMA node: /sys"
        devices.append(device if node is None else device._replace(numa_node=node, source=source))
    return detected._replace(devices=tuple(devices))


def _no_card(answers: Sequence[str], environ: Mapping[str, str], root: str) -> str:
    """Where was looked, what was found there, what can be done."""
    gpu = " (nvidia-smi is here)" if find_tool("nvidia-smi", environ, root).path else ""
    return (
        f"no Ascend card found: {os.path.join(root, 'dev')} has no davinciN; {'; '.join(answers)}. "
        "In a container mount the cards (--runtime=ascend, or --device=/dev/davinci0 and so on); "
        f"for a try without cards use --simulate 8; for GPUs{gpu} use the GPU engine, mpirun"
    )
