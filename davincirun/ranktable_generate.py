"""`davincictl ranktable generate`: the table of this server, of simulated cards, or of servers described by hand."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from typing import List, Sequence, Tuple

from davincirun.cluster import Cluster, Server, SuperPod
from davincirun.errors import DeviceError, UsageError
from davincirun.ranktable import RankTable, from_servers, version_for
from davincirun.ranktable.convert import convert
from davincirun.ranktable.finding import ERROR, as_error
from davincirun.ranktable.inventory import id_list, of_hosts, read_inventory
from davincirun.ranktable.validate import examine, version_for_chip
from davincirun.ranktable.writing import dumps
from davincirun.ranktable_files import read_input, write_output

_NAME = "the generated table"
_PRETTY_UP_TO = 1024  # devices; beyond that a table isn't for reading


def generate_table(options: argparse.Namespace) -> int:
    """Writes the table; errors as from the parts, and a RankTableError if what was described makes no usable table."""
    cluster, version = _described(options)
    if options.super_pod is not None:
        pod = SuperPod(options.super_pod, tuple([server.server_id for server in cluster.servers]))
        cluster, version = cluster._replace(super_pods=(pod,)), "1.2"
    write_output(options.output, table_text(cluster, options.format or version))
    return 0


def table_text(cluster: Cluster, form: str) -> bytes:
    """The table of `cluster`, checked: RankTableError for what can't work, warnings go to standard error."""
    version = form if form in ("1.2", "2.0") else "1.0"
    if version == "2.0":
        _refuse_portless(cluster)
    text = from_servers(cluster.servers, version, cluster.super_pods)
    _check(text)
    if form == version and cluster.world_size > _PRETTY_UP_TO:
        return text
    table = RankTable(version, json.loads(text), text)
    return dumps(table.document) if form == version else convert(table, _NAME, form).text


def own_server_id() -> str:
    """The address that this machine's traffic leaves from, else its first one, else its name; never loopback."""
    from davincirun.host import this_host

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: connecting a UDP socket only chooses the route
            address = str(probe.getsockname()[0])
        except OSError:
            address = ""
    if address and not address.startswith(("127.", "0.")):
        return address
    return next(iter(this_host().addresses), os.uname().nodename)


def _described(options: argparse.Namespace) -> Tuple[Cluster, str]:
    """The cluster, and the version that its chips read."""
    if options.inventory and options.hosts:
        raise UsageError("--inventory and --hosts describe the same thing: give one of them")
    if options.inventory:
        data, name = read_input(options.inventory)
        cluster = read_inventory(data.decode("utf-8", "replace"), name)
        return cluster, version_for("unknown", bool(cluster.super_pods))
    addresses = [address for address in options.device_ips.replace(";", ",").split(",") if address]
    if options.hosts:
        hosts = [host for host in options.hosts.split(",") if host]
        return of_hosts(hosts, id_list(options.devices or "0-7"), addresses), "1.0"
    if addresses:
        raise UsageError("--device-ips needs --hosts: the addresses of this server's cards are asked from them")
    return _this_server(options)


def _this_server(options: argparse.Namespace) -> Tuple[Cluster, str]:
    from davincirun.devices import cluster_device
    from davincirun.devices.detect import detect
    from davincirun.devices.simulated import simulate

    detected = simulate(options.simulate) if options.simulate else detect(os.environ)
    for note in detected.notes:
        print(f"davincictl: {note}", file=sys.stderr)
    wanted = id_list(options.devices) if options.devices else [device.device_id for device in detected.devices]
    by_id = {device.device_id: device for device in detected.devices}
    _refuse_unknown(wanted, list(by_id))
    devices = [cluster_device(rank, by_id[device_id]) for rank, device_id in enumerate(wanted)]
    server_id = options.server_id or own_server_id()
    pods = [SuperPod(detected.super_pod_id, (server_id,))] if detected.super_pod_id is not None else []
    version = version_for(detected.generation, bool(pods))
    if options.format:
        for finding in version_for_chip(detected.generation, options.format):
            print(f"davincictl: warning: {finding.text}", file=sys.stderr)
    return Cluster.of([Server(server_id, tuple(devices))], super_pods=pods), version


def _refuse_portless(cluster: Cluster) -> None:
    """A DeviceError where a device's address or ports aren't known: 2.0 lists them, so only its own server can."""
    for server in cluster.servers:
        for device in server.devices:
            if not (device.ports and (device.eid or device.device_ip)):
                raise DeviceError(
                    f"server {server.server_id}, device {device.device_id}: its address and ports aren't known, and"
                    " 2.0 lists both: generate the table on each server, where hccn_tool -g -dev_info tells them, and"
                    " merge the files"
                )


def _refuse_unknown(wanted: Sequence[int], known: List[int]) -> None:
    unknown = [device_id for device_id in wanted if device_id not in known]
    if unknown:
        raise UsageError(f"--devices: this server has no device {unknown[0]}; it has {', '.join(map(str, known))}")


def _check(text: bytes) -> None:
    """Addresses may be missing: inside an A3 super pod none is needed, and they can be added by hand."""
    for finding in examine(text, _NAME).findings:
        if finding.severity == ERROR and finding.code != "no-device-ip":
            raise as_error(_NAME, finding)
        print(f"davincictl: warning: {finding.where}: {finding.text}", file=sys.stderr)
