"""From servers to one table, to the platform's form, and back: nothing is lost on the way."""

from __future__ import annotations

import json
from typing import List

from davincirun.cluster import Cluster, Device, Server
from davincirun.ranktable import RankTable, from_servers, parse, to_cluster
from davincirun.ranktable.convert import convert
from davincirun.ranktable.merge import Part, merge
from davincirun.ranktable.validate import examine
from davincirun.ranktable.writing import dumps

SERVERS, CARDS = 1000, 8


def table(data: bytes) -> RankTable:
    read = parse(data, "hccl.json")
    assert isinstance(read, RankTable)
    assert examine(data, "hccl.json").findings == []
    return read


def of_server(number: int) -> Part:
    devices = [Device(card, card, f"192.168.{number % 250}.{number // 250 * CARDS + card}") for card in range(CARDS)]
    server = Server(f"10.0.{number // 250}.{number % 250}", tuple(devices))
    return Part(f"{number}.json", table(from_servers([server])))


def identities(cluster: Cluster) -> List[object]:
    return [(server.server_id, *tuple(server.devices)) for server in cluster.servers]


def test_a_thousand_servers_merge_and_go_to_group_list_and_back() -> None:
    merged = table(dumps(merge([of_server(number) for number in range(SERVERS)])))
    whole = to_cluster(merged, "merged")
    assert whole.world_size == SERVERS * CARDS
    assert [device.rank for server in whole.servers for device in server.devices] == list(range(SERVERS * CARDS))

    as_group_list = convert(merged, "merged", "group_list")
    assert as_group_list.lost == []
    back = convert(table(as_group_list.text), "group_list", "1.0")
    assert identities(to_cluster(table(back.text), "back")) == identities(whole)


def test_the_order_of_the_files_or_of_the_servers_gives_the_ranks() -> None:
    parts = [of_server(number) for number in (10, 9, 2)]
    given, by_server = merge(parts), merge(parts, "server")
    assert [server["server_id"] for server in given["server_list"]] == ["10.0.0.10", "10.0.0.9", "10.0.0.2"]
    assert [server["server_id"] for server in by_server["server_list"]] == ["10.0.0.2", "10.0.0.9", "10.0.0.10"]
    for document in (given, by_server):
        ranks = [int(device["rank_id"]) for server in document["server_list"] for device in server["device"]]
        assert ranks == list(range(3 * CARDS))
        table(json.dumps(document).encode())
