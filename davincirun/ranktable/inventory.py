"""Servers that can't be asked, described by hand: `--hosts` with `--device-ips`, or an inventory file.

An inventory has one server a line, its id, then its devices as DEVICE[=ADDRESS][@SDID], and pod=ID for its super pod:

    # two halves of a super pod
    10.0.0.1 0=192.98.1.11@0 1=192.99.1.11@1 pod=0
    10.0.0.2 0-7 pod=0
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from davincirun.cluster import Cluster, Device, Server, SuperPod
from davincirun.errors import UsageError

_ID = "[0-9]{1,4}"  # no machine has more cards than that: a longer one is a slip of the finger
_DEVICE = re.compile(rf"({_ID})(-{_ID})?(?:=([^@]+))?(?:@([0-9]+))?\Z")
_RANGE = re.compile(rf"({_ID})(?:-({_ID}))?\Z")


class _Row(NamedTuple):
    device_id: int
    address: Optional[str]
    own_id: Optional[str]


def of_hosts(hosts: Sequence[str], device_ids: Sequence[int], addresses: Sequence[str]) -> Cluster:
    """The cluster of equal `hosts`; `addresses`, host by host, may be empty. UsageError when they don't match."""
    wanted = len(hosts) * len(device_ids)
    if addresses and len(addresses) != wanted:
        message = f"{len(addresses)} device addresses for {len(hosts)} hosts with {len(device_ids)} devices each"
        raise UsageError(f"--device-ips: {message}: give {wanted}, host by host")
    given = iter(addresses)
    rows = [(host, [_Row(device_id, next(given, None), None) for device_id in device_ids]) for host in hosts]
    return _cluster(rows, {})


def read_inventory(text: str, path: str) -> Cluster:
    """The cluster that an inventory describes; UsageError naming the line that can't be read."""
    rows: List[Tuple[str, List[_Row]]] = []
    pods: Dict[str, List[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        pod_ids = [word[len("pod=") :] for word in words[1:] if word.startswith("pod=")]
        devices = [row for word in words[1:] if not word.startswith("pod=") for row in _rows(word, f"{path}:{number}")]
        if not devices:
            raise UsageError(f"{path}:{number}: server {words[0]} has no devices: add some, for example 0-7")
        rows.append((words[0], devices))
        for pod_id in pod_ids:
            pods.setdefault(pod_id, []).append(words[0])
    if not rows:
        raise UsageError(f"{path}: it lists no server: one a line, for example: 10.0.0.1 0=192.98.1.11 1=192.99.1.11")
    return _cluster(rows, pods)


def id_list(text: str) -> List[int]:
    """The ids in "0-3,6"; UsageError for anything else."""
    ids: List[int] = []
    for part in text.replace(" ", "").split(","):
        match = _RANGE.match(part)
        if not match or (match.group(2) and int(match.group(2)) < int(match.group(1))):
            raise UsageError(f"{text!r} is no list of device ids: write for example 0-7 or 0,1,4-7")
        ids += range(int(match.group(1)), int(match.group(2) or match.group(1)) + 1)
    if len(set(ids)) != len(ids):
        raise UsageError(f"{text!r} names a device twice")
    return ids


def _rows(word: str, place: str) -> List[_Row]:
    match = _DEVICE.match(word)
    if not match:
        raise UsageError(f"{place}: {word!r} is no device: write DEVICE, DEVICE=ADDRESS or DEVICE=ADDRESS@SDID")
    first, last, address, own_id = match.groups()
    if last is None:
        return [_Row(int(first), address, own_id)]
    if address or own_id:
        raise UsageError(f"{place}: {word!r} gives several devices one address: list them one by one")
    try:
        return [_Row(device_id, None, None) for device_id in id_list(first + last)]
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _cluster(rows: Sequence[Tuple[str, Sequence[_Row]]], pods: Dict[str, List[str]]) -> Cluster:
    servers = []
    rank = 0
    for server_id, own in rows:
        devices = []
        for row in own:
            devices.append(Device._make((rank, row.device_id, row.address, row.own_id, None, ())))
            rank += 1
        servers.append(Server(server_id, tuple(devices)))
    return Cluster(tuple(servers), (), tuple([SuperPod(pod_id, tuple(ids)) for pod_id, ids in pods.items()]))
