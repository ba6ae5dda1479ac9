"""Asks npu-smi and hccn_tool about the cards, everything that can be asked at once at once."""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from davincirun.devices import Detected, LocalDevice
from davincirun.devices.addresses import Told, with_addresses
from davincirun.devices.commands import Answer, Call, Commands
from davincirun.devices.hccn_conf import read_hccn_conf
from davincirun.devices.hccn_tool import read_addresses
from davincirun.devices.reading import ReaderError, first_line
from davincirun.devices.smi_failure import read_failure
from davincirun.devices.smi_map import IdMap, read_map
from davincirun.devices.smi_records import read_super_pod
from davincirun.devices.smi_table import InfoTable, read_info

_T = TypeVar("_T")
_WITHOUT_NETWORK = ("310", "310P", "310B")  # their cards have no interface of their own


class SmiAnswers(NamedTuple):
    """What npu-smi said of the machine; None where it failed, and then why."""

    id_map: Optional[IdMap] = None
    table: Optional[InfoTable] = None
    failures: Tuple[str, ...] = ()  # and lines that could not be understood


def ask_npu_smi(commands: Commands, path: str) -> SmiAnswers:
    """The map of ids and the table with health and processes."""
    map_call, table_call = commands.start(path, "info", "-m"), commands.start(path, "info")
    id_map, map_failure = _read(map_call.answer(), read_map)
    table, table_failure = _read(table_call.answer(), read_info)
    problems = [f"npu-smi info -m: {problem}" for problem in (id_map.problems if id_map else ())]
    problems += [f"npu-smi info: {problem}" for problem in (table.problems if table else ())]
    failures = [failure for failure in (map_failure, table_failure) if failure]
    return SmiAnswers(id_map, table, tuple(dict.fromkeys([*failures, *problems])))


def ask_network(
    commands: Commands, detected: Detected, npu_smi: Optional[str], hccn_tool: Optional[str], conf_text: Optional[str]
) -> Detected:
    """`detected` with addresses and, on Atlas A3, with each device's place in the super pod."""
    if detected.generation in _WITHOUT_NETWORK:
        return detected
    asks_pods = npu_smi is not None and detected.generation == "A3"
    pod_calls = _start_super_pods(commands, npu_smi, detected.devices) if npu_smi and asks_pods else {}
    told = _ask_addresses(commands, hccn_tool, detected.devices) if hccn_tool else {}
    addressed = with_addresses(detected.devices, told, read_hccn_conf(conf_text) if conf_text else None)
    detected = detected._replace(devices=addressed.devices, notes=detected.notes + addressed.notes)
    return _in_super_pod(detected, pod_calls)


def _ask_addresses(commands: Commands, path: str, devices: Sequence[LocalDevice]) -> Dict[int, Told]:
    """What hccn_tool says, by physical id: the IPv4 addresses, else the IPv6 ones."""
    told = _ask_each(commands, path, [device.device_id for device in devices], "-ip")
    without = [device.device_id for device in devices if device.device_id not in told]
    return {**told, **_ask_each(commands, path, without, "-ip", "-inet6")}


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
    answers = {device_id: _read(call.answer(), read_super_pod)[0] for device_id, call in calls.items()}
    places = {device_id: answer for device_id, answer in answers.items() if answer is not None}
    pods = {place.super_pod_id for place in places.values()}
    devices = tuple(
        device._replace(super_device_id=places[device.device_id].super_device_id)
        if device.device_id in places
        else device
        for device in detected.devices
    )
    return detected._replace(devices=devices, super_pod_id=pods.pop() if len(pods) == 1 else None)


def _ask_each(commands: Commands, path: str, device_ids: Sequence[int], *query: str) -> Dict[int, Told]:
    calls: List[Tuple[int, Call]] = [
        (device_id, commands.start(path, "-i", str(device_id), *query, "-g")) for device_id in device_ids
    ]
    told: Dict[int, Told] = {}
    for device_id, call in calls:
        found = read_addresses(call.answer().stdout).addresses
        if found:
            told[device_id] = Told(tuple(nic.address for nic in found), " ".join(("hccn_tool", *query)))
    return told


def _read(answer: Answer, read: Callable[[str], _T]) -> Tuple[Optional[_T], Optional[str]]:
    """The value in the answer, or None and a text that says what came instead."""
    if answer.status == 0:
        try:
            return read(answer.stdout), None
        except ReaderError as error:
            problem = error.problem
    else:
        problem = answer.failure or f"status {answer.status}"
    failure = read_failure(answer.stdout + "\n" + answer.stderr)
    if failure:
        problem = f"{failure.text} ({failure.meaning})"
    elif not answer.failure and answer.status != 0:
        said = first_line(answer.stderr)[1] or first_line(answer.stdout)[1]
        problem += f", {said.strip()[:200]!r}" if said else ", printed nothing"
    return None, f"{answer.command_line}: {problem}"
