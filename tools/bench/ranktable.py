#!/usr/bin/env python3
"""Measure the rank-table room at 131,072 devices (8,192 servers of 16) against json alone, in one interleaved run.

Each step is a process of its own, and right before it runs its yardstick, as a machine's speed may change within
seconds: what counts is the median of the rounds' multiples, of CPU seconds and of the process's peak memory. The
yardstick of generate, validate, merge and convert is json.load and json.dump of the same document (at most 3 times
that); the launch's is json.load alone (at most 1.5 times), also where it has to convert a group_list. As every launch
imports the package, that isn't counted there. The status is 1 when a step takes more.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))

LOAD_AND_DUMP, LOAD = 3.0, 1.5


def write_inputs(folder: str, servers: int, devices: int) -> None:
    """v1.json, group.json, half-0.json and half-1.json, which hold the same cluster, and the inventory of it.

    pods.json (1.2) has super pods of 48 servers too, and v2.json (2.0) the layer of each device.
    """
    entries = [
        {
            "server_id": f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}",
            "device": [
                {
                    "device_id": str(device),
                    "device_ip": f"192.{device}.{index >> 8}.{index & 255}",
                    "rank_id": str(index * devices + device),
                }
                for device in range(devices)
            ],
        }
        for index in range(servers)
    ]
    write(folder, "v1.json", table(entries))
    write(folder, "pods.json", in_super_pods(entries))
    write(folder, "v2.json", version_2(entries))
    for half in (0, 1):
        part = entries[half * servers // 2 : (half + 1) * servers // 2]
        write(folder, f"half-{half}.json", table([renumbered(entry, half * servers // 2 * devices) for entry in part]))
    instances = [
        {
            "pod_name": f"job-{index}",
            "server_id": entry["server_id"],
            "devices": [{key: fields[key] for key in ("device_id", "device_ip")} for fields in entry["device"]],
        }
        for index, entry in enumerate(entries)
    ]
    counts = {"device_count": str(servers * devices), "instance_count": str(servers)}
    group = {"group_name": "workers", **counts, "instance_list": instances}
    write(folder, "group.json", {"status": "completed", "group_count": "1", "group_list": [group]})
    lines = [
        " ".join([entry["server_id"], *[f"{fields['device_id']}={fields['device_ip']}" for fields in entry["device"]]])
        for entry in entries
    ]
    with open(os.path.join(folder, "inventory"), "w") as file:
        file.write("\n".join(lines))


def table(entries: list) -> dict:
    return {"status": "completed", "version": "1.0", "server_count": str(len(entries)), "server_list": entries}


def in_super_pods(entries: list) -> dict:
    servers = [
        {
            **entry,
            "device": [
                {**fields, "super_device_id": str(index % 48 << 18 | 2 * int(fields["device_id"]))}
                for fields in entry["device"]
            ],
        }
        for index, entry in enumerate(entries)
    ]
    pods = [
        {
            "super_pod_id": str(first // 48),
            "server_list": [{"server_id": one["server_id"]} for one in servers[first:][:48]],
        }
        for first in range(0, len(servers), 48)
    ]
    return {**table(servers), "version": "1.2", "super_pod_list": pods}


def version_2(entries: list) -> dict:
    ranks = []
    for entry in entries:
        for fields in entry["device"]:
            rank, device = int(fields["rank_id"]), int(fields["device_id"])
            address = {"addr_type": "EID", "addr": f"{rank:032x}", "ports": ["0/1", "1/1"], "plane_id": "0"}
            layer = {
                "net_layer": 0,
                "net_instance_id": entry["server_id"],
                "net_type": "TOPO_FILE_DESC",
                "net_attr": "",
            }
            level_list = [{**layer, "rank_addr_list": [address]}]
            ranks.append({"rank_id": rank, "local_id": device, "device_id": device, "level_list": level_list})
    return {"status": "completed", "version": "2.0", "rank_count": len(ranks), "rank_list": ranks}


def renumbered(entry: dict, offset: int) -> dict:
    return {
        **entry,
        "device": [{**fields, "rank_id": str(int(fields["rank_id"]) - offset)} for fields in entry["device"]],
    }


def write(folder: str, name: str, document: dict) -> None:
    with open(os.path.join(folder, name), "w") as file:
        json.dump(document, file)


def json_load(name: str) -> None:
    with open(name) as file:
        json.load(file)


def json_load_and_dump(name: str) -> None:
    with open(name) as file:
        document = json.load(file)
    with open("out.json", "w") as file:
        json.dump(document, file)


def run_verb(*argv: str) -> None:
    from davincirun import ranktable_cli

    parser = argparse.ArgumentParser()
    ranktable_cli.add_parser(parser.add_subparsers())
    options = parser.parse_args(["ranktable", *argv])
    options.handler(options)


def launch(name: str) -> None:
    """What the launch does with a table: read it, and write the 1.0 table where there is none."""
    from davincirun import ranktable

    with open(name, "rb") as file:
        found = ranktable.read(file.read(), name)
    if isinstance(found, ranktable.RankTable):
        cluster = ranktable.to_cluster(found, name)
        if found.form == "group_list":
            with open("out.json", "wb") as out:
                out.write(ranktable.from_servers(cluster.servers))


YARDSTICKS = {
    "json.load 1.0": lambda: json_load("v1.json"),
    "json.load 1.2": lambda: json_load("pods.json"),
    "json.load 2.0": lambda: json_load("v2.json"),
    "json.load group_list": lambda: json_load("group.json"),
    "json.load + json.dump 1.0": lambda: json_load_and_dump("v1.json"),
    "json.load + json.dump group_list": lambda: json_load_and_dump("group.json"),
}
# step: (what it does, its yardstick, how often the yardstick's time and memory it may take)
STEPS = {
    "launch from 1.0": (lambda: launch("v1.json"), "json.load 1.0", LOAD),
    "launch from 1.2": (lambda: launch("pods.json"), "json.load 1.2", LOAD),
    "launch from 2.0": (lambda: launch("v2.json"), "json.load 2.0", LOAD),
    "launch from group_list": (lambda: launch("group.json"), "json.load group_list", LOAD),
    "generate": (
        lambda: run_verb("generate", "--inventory", "inventory", "-o", "out.json"),
        "json.load + json.dump 1.0",
        LOAD_AND_DUMP,
    ),
    "validate 1.0": (lambda: run_verb("validate", "v1.json"), "json.load + json.dump 1.0", LOAD_AND_DUMP),
    "validate group_list": (
        lambda: run_verb("validate", "group.json"),
        "json.load + json.dump group_list",
        LOAD_AND_DUMP,
    ),
    "merge": (
        lambda: run_verb("merge", "half-0.json", "half-1.json", "-o", "out.json"),
        "json.load + json.dump 1.0",
        LOAD_AND_DUMP,
    ),
    "convert group_list to 1.0": (
        lambda: run_verb("convert", "--to", "1.0", "group.json", "-o", "out.json"),
        "json.load + json.dump group_list",
        LOAD_AND_DUMP,
    ),
}


class Taken(NamedTuple):
    seconds: float  # of CPU
    megabytes: float  # at the peak


def measure(step: str, folder: str) -> Taken:
    """What one step takes, in a process of its own."""
    argv = [sys.executable, os.path.abspath(__file__), "--step", step]
    done = subprocess.run(argv, cwd=folder, stdout=subprocess.PIPE, check=True, universal_newlines=True)
    return Taken(*json.loads(done.stdout.splitlines()[-1]))


def run_step(step: str) -> None:
    """Do the step and print what it took; the interpreter's start doesn't count."""
    if step.startswith("launch"):
        importlib.import_module("davincirun.ranktable")
    before = time.process_time()
    (YARDSTICKS[step] if step in YARDSTICKS else STEPS[step][0])()
    seconds = time.process_time() - before
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
    print(json.dumps([seconds, peak / 1024]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=8192)
    parser.add_argument("--devices", type=int, default=16, help="per server")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--step", choices=sorted([*STEPS, *YARDSTICKS]), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        run_step(options.step)
        return 0
    taken: dict[str, list[tuple[Taken, Taken]]] = {step: [] for step in STEPS}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        write_inputs(folder, options.servers, options.devices)
        for _ in range(options.rounds):
            for step, results in taken.items():
                results.append((measure(STEPS[step][1], folder), measure(step, folder)))
    return report(taken, options.servers * options.devices)


def report(taken: dict[str, list[tuple[Taken, Taken]]], devices: int) -> int:
    """Print the table; 1 when a step took more than it may."""
    python = sys.version.split()[0]
    print(f"{devices:,} devices, Python {python}: median CPU seconds and peak MB, as multiples in brackets")
    status = 0
    for step, (_, yardstick, limit) in STEPS.items():
        seconds = median([own.seconds for _, own in taken[step]])
        megabytes = median([own.megabytes for _, own in taken[step]])
        times = median([own.seconds / other.seconds for other, own in taken[step]])
        peak = median([own.megabytes / other.megabytes for other, own in taken[step]])
        good = times <= limit and peak <= LOAD_AND_DUMP
        status |= not good
        taken_text = f"{seconds:7.3f} s ({times:4.2f}) {megabytes:7.1f} MB ({peak:4.2f})"
        print(f"{step:26}{taken_text}  of {yardstick}, at most {limit}: {'ok' if good else 'TOO MUCH'}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
