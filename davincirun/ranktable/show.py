"""A table as a picture for a terminal; many servers fold into few lines."""

from __future__ import annotations

from typing import Iterator, List, Sequence

from davincirun.cluster import Cluster, Device, Server
from davincirun.ranktable.order import ranges

DEVICES_ONE_BY_ONE = 64  # up to here every device has its line
SERVERS_LISTED = 40  # up to here every server has its line
_ENDS = 8  # of more servers, this many at each end


def show(cluster: Cluster, form: str, title: str) -> List[str]:
    """Lines that say which ranks are where."""
    lines = [
        f"{title}: {_form(form)}, {_plural(cluster.world_size, 'device')} on {_plural(len(cluster.servers), 'server')}"
    ]
    if not cluster.names_servers:
        lines.append("(2.0 names no servers: these are guessed from local_id)")
    if cluster.super_pods:
        for pod in cluster.super_pods:
            lines.append(f"super pod {pod.super_pod_id}: {_plural(len(pod.server_ids), 'server')}")
    pods = {pod.devices[0].rank: pod.pod_name for pod in cluster.pods if pod.devices}
    if cluster.world_size <= DEVICES_ONE_BY_ONE:
        for server in cluster.servers:
            lines.append(_server_line(server))
            lines += _device_lines(server.devices, pods)
        return lines
    return [*lines, *_folded(cluster.servers)]


def _form(form: str) -> str:
    return form if form == "group_list" else f"version {form}"


def _plural(count: int, name: str) -> str:
    return f"{count:,} {name}" + ("" if count == 1 else "s")


def _server_line(server: Server) -> str:
    names = f" ({', '.join(server.addresses)})" if server.addresses else ""
    ranks = ranges([device.rank for device in server.devices])
    devices = ranges([device.device_id for device in server.devices])
    return f"{server.server_id}{names}: ranks {ranks} on devices {devices}"


def _device_lines(devices: Sequence[Device], pods: "dict[int, str]") -> Iterator[str]:
    for local_rank, device in enumerate(devices):
        if device.rank in pods:
            yield f"  pod {pods[device.rank]}"
        address = f"  {device.device_ip}" if device.device_ip else ""
        own_id = f"  SDID {device.super_device_id}" if device.super_device_id else ""
        yield f"  rank {device.rank:<4} local {local_rank:<3} device {device.device_id:<3}{address}{own_id}".rstrip()


def _folded(servers: Sequence[Server]) -> Iterator[str]:
    if len(servers) <= SERVERS_LISTED:
        yield from map(_server_line, servers)
        return
    yield from map(_server_line, servers[:_ENDS])
    between = servers[_ENDS:-_ENDS]
    sizes = sorted({len(server.devices) for server in between})
    each = f"{sizes[0]} devices each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} devices each"
    yield f"… {len(between):,} more servers, {each} …"
    yield from map(_server_line, servers[-_ENDS:])
