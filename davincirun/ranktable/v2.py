"""Version 2.0 (Ascend 950): `rank_list[]` with numbers for ids. It names no servers."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

from davincirun.cluster import Cluster, Device, Server


def to_cluster(document: Dict[str, Any]) -> Cluster:
    """The cluster a 2.0 document describes; ValueError, KeyError, TypeError or AttributeError when it can't be.

    Nothing in the table says which machine a rank is on, so a server here is a run of consecutive ranks whose
    `local_id` rises; a `local_id` that isn't higher than the one before starts the next.
    """
    entries: List[Dict[str, Any]] = document["rank_list"]
    if "rank_count" in document and document["rank_count"] != len(entries):
        raise ValueError("rank_count")
    for key in ("rank_id", "local_id", "device_id"):
        if {type(entry[key]) for entry in entries} != {int}:
            raise TypeError(key)
    return Cluster.of(_servers(sorted(entries, key=lambda entry: entry["rank_id"])), names_servers=False)


def runs(entries: List[Dict[str, Any]]) -> Iterator[List[Dict[str, Any]]]:
    """`entries` in rank order, cut where `local_id` stops rising."""
    run: List[Dict[str, Any]] = []
    for entry in entries:
        if run and entry["local_id"] <= run[-1]["local_id"]:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _servers(entries: List[Dict[str, Any]]) -> Iterator[Server]:
    for index, run in enumerate(runs(entries)):
        yield Server(f"node-{index}", tuple([Device(entry["rank_id"], entry["device_id"]) for entry in run]))
