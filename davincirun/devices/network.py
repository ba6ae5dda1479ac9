"""Asks for the devices' addresses and, on Atlas A3, for their places in the super pod."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

from davincirun.devices import Detected, LocalDevice
from davincirun.devices.addresses import Told, with_addresses
from davincirun.devices.commands import Answer, Call, Commands
from davincirun.devices.hccn_950 import read_card_info
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.hccn_network import read_failure
from davincirun.devices.hccn_tool import NO_ADDRESS_STATUS, read_addresses
from davincirun.devices.queries import read_answer
from davincirun.devices.reading import first_line
from davincirun.devices.smi_records import read_super_pod
from davincirun.devices.tools import Tool

_WITHOUT_NETWORK = ("310", "310P", "310B")  # their cards have no interface of their own
_UNSET = "none is set on the card"
_QUERY_950 = "hccn_tool -g -dev_info"


def ask_network(
    commands: Commands, detected: Detected, npu_smi: Tool, hccn_tool: Tool, conf_text: Optional[str]
) -> Detected:
    """`detected` with what the tools and the text of /etc/hccn.conf say."""
    if detected.generation in _WITHOUT_NETWORK:
        return detected
    in_pod = npu_smi.path is not None and detected.generation == "A3"
    pod_calls = _start_super_pods(commands, npu_smi.path or "", detected.devices) if in_pod else {}
    told = _ask(commands, hccn_tool, detected)
    conf = None if conf_text is None else read_hccn_conf(conf_text)
    addressed = with_addresses(detected.devices, told, conf)
    detected = detected._replace(devices=addressed.devices, notes=(*detected.notes, *addressed.notes))
    return _in_super_pod(detected, pod_calls)


def ask_addresses(
    commands: Commands, path: str, device_ids: Sequence[int], has_virtual_nic: bool = False
) -> Dict[int, Told]:
    """What each card says: its IPv4 addresses, else its IPv6 ones, else those of its virtual interface (on A3)."""
    told: Dict[int, Told] = {}
    for query in ("-ip", "-ip -inet6", *(["-vnic"] if has_virtual_nic else [])):
        calls = {
            device_id: commands.start(path, "-i", str(device_id), *query.split(), "-g")
            for device_id in device_ids
            if device_id not in told or told[device_id].reason == _UNSET
        }
        for device_id, call in calls.items():
            answer = _told(call.answer(), query)
            told[device_id] = answer if answer.addresses else told.get(device_id, answer)
    return told


def _ask(commands: Commands, hccn_tool: Tool, detected: Detected) -> Dict[int, Told]:
    if hccn_tool.path is None:
        return {device.device_id: Told(reason=hccn_tool.absence) for device in detected.devices}
    if detected.generation == "950":
        return _ask_950(commands, hccn_tool.path, detected.devices)
    device_ids = [device.device_id for device in detected.devices]
    return ask_addresses(commands, hccn_tool.path, device_ids, has_virtual_nic=detected.generation == "A3")


def _told(answer: Answer, query: str) -> Told:
    read = read_addresses(answer.stdout)
    if read.addresses:
        return Told(tuple(nic.address for nic in read.addresses), f"hccn_tool {query}")
    if read.problems:
        return Told(reason=f"hccn_tool {query}: {read.problems[0]}")
    failure = read_failure(answer.stderr + "\n" + answer.stdout)
    if answer.status in (0, NO_ADDRESS_STATUS) or (failure and failure.is_unset):
        return Told(reason=_UNSET)
    said = failure.text if failure else first_line(answer.stderr)[1].strip()[:200]
    problem = answer.failure or f"status {answer.status}"
    return Told(reason=f"hccn_tool {query}: {problem}" + (f", {said!r}" if said else ""))


def _ask_950(commands: Commands, path: str, devices: Sequence[LocalDevice]) -> Dict[int, Told]:
    """The 950's tool goes by the logical id and lists every interface of the card."""
    calls = {
        device.device_id: commands.start(path, "-g", "-dev_info", "-i", str(device.logical_id)) for device in devices
    }
    told: Dict[int, Told] = {}
    for device_id, call in calls.items():
        info, failure = read_answer(call.answer(), read_card_info)
        reason = failure or "no ipourma interface has one"
        told[device_id] = Told((), _QUERY_950, f"{_QUERY_950}: {reason}")
        if info:
            told[device_id] = told[device_id]._replace(
                addresses=info.fabric_addresses, eid=info.first_eid, ports=info.ports_up
            )
    return told


def _start_super_pods(commands: Commands, path: str, devices: Sequence[LocalDevice]) -> Dict[int, Call]:
    return {
        device.device_id: commands.start(
            path, "info", "-t", "spod-info", "-i", str(device.npu_id), "-c", str(device.chip_id)
        )
        for device in devices
        if device.npu_id is not None and device.chip_id is not None
    }


def _in_super_pod(detected: Detected, calls: Dict[int, Call]) -> Detected:
    """Adds what the calls answer; a machine outside a super pod refuses the query, which is no fault."""
    answers = {device_id: read_answer(call.answer(), read_super_pod)[0] for device_id, call in calls.items()}
    places = {device_id: place for device_id, place in answers.items() if place is not None}
    pods = sorted({place.super_pod_id or "" for place in places.values()})
    notes = list(detected.notes)
    if len(pods) > 1:
        notes.append(f"the devices name different super pods: {', '.join(pods)}; none is used")
    if 0 < len(places) < len(calls):
        missing = [str(device_id) for device_id in calls if device_id not in places]
        notes.append(f"npu-smi tells the super pod of some devices, but not of {', '.join(missing)}")
    devices = tuple(
        device._replace(super_device_id=places[device.device_id].super_device_id)
        if device.device_id in places
        else device
        for device in detected.devices
    )
    return detected._replace(devices=devices, notes=tuple(notes), super_pod_id=pods[0] if len(pods) == 1 else None)
