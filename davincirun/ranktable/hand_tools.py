"""What MindSpore's hccl_tools.py and merge_hccl.py do, without their limits: more than 8 cards, IPv6, clean errors."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence

from davincirun.errors import DeviceError, UsageError
from davincirun.ranktable.merge import Part, merge


def device_range(text: str) -> List[int]:
    """The indexes in "[0,8)"; UsageError for anything else."""
    match = re.match(r"\s*\[\s*([0-9]+)\s*,\s*([0-9]+)\s*\)\s*\Z", text)
    if not match or int(match.group(1)) >= int(match.group(2)):
        raise UsageError(f"--device_num {text!r}: write a range like [0,8), which means 0 to 7")
    return list(range(int(match.group(1)), int(match.group(2))))


def chosen_devices(indexes: Sequence[int], visible: Sequence[int]) -> List[int]:
    """The physical ids that `indexes` mean among the `visible` ones; UsageError when there are too few."""
    if indexes[-1] >= len(visible):
        raise UsageError(
            f"--device_num reaches {indexes[-1]}, but --visible_devices names {len(visible)}: name them all"
        )
    return [visible[index] for index in indexes]


def server_table(server_id: str, device_ids: Sequence[int], addresses: Mapping[int, str]) -> Dict[str, Any]:
    """The 1.0 document of one server; DeviceError for a device without an address."""
    devices = []
    for rank, device_id in enumerate(device_ids):
        if not addresses.get(device_id):
            raise DeviceError(
                f"no address for card {device_id}: `hccn_tool -i {device_id} -ip -g` and /etc/hccn.conf have none"
            )
        devices.append({"device_id": str(device_id), "device_ip": addresses[device_id], "rank_id": str(rank)})
    server = {"server_id": server_id, "device": devices, "host_nic_ip": "reserve"}
    return {"version": "1.0", "server_count": "1", "server_list": [server], "status": "completed"}


def server_table_name(indexes: Sequence[int], server_id: str) -> str:
    """hccl_8p_01234567_10.0.0.1.json, as hccl_tools names it."""
    return f"hccl_{len(indexes)}p_{''.join(map(str, indexes))}_{server_id}.json"


def merged_table(parts: Sequence[Part]) -> Dict[str, Any]:
    """The document of all `parts`, ranks in the order given; RankTableError as from `merge`."""
    document = merge(parts)
    for server in document["server_list"]:
        server.setdefault("host_nic_ip", "reserve")
    return document


def merged_table_name(document: Dict[str, Any]) -> str:
    """hccl_2s_16p.json, as merge_hccl names it."""
    devices = sum([len(server["device"]) for server in document["server_list"]])
    return f"hccl_{len(document['server_list'])}s_{devices}p.json"


def local_addresses(device_ids: Sequence[int], environ: Mapping[str, str], root: str = "/") -> Dict[int, str]:
    """The cards' addresses by physical id, from hccn_tool, else from /etc/hccn.conf; no card needs to be there."""
    from davincirun.devices.commands import Commands
    from davincirun.devices.detect import TIMEOUT_SECONDS
    from davincirun.devices.hccn_conf import read_hccn_conf
    from davincirun.devices.network import ask_addresses
    from davincirun.devices.tools import find_tool, read_text, tool_environment

    conf_path = f"{root.rstrip('/')}/etc/hccn.conf"
    found = {number: card.address for number, card in read_hccn_conf(read_text(conf_path) or "").cards.items()}
    told = {device_id: found.get(device_id) or "" for device_id in device_ids}
    tool = find_tool("hccn_tool", environ, root).path
    if tool is None:
        return told
    with Commands(tool_environment(environ, root), TIMEOUT_SECONDS) as commands:
        for device_id, answer in ask_addresses(commands, tool, device_ids).items():
            told[device_id] = ",".join(answer.addresses) or told[device_id]
    return told
