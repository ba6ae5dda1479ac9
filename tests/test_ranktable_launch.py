"""Reading a rank table for the launch: what is awaited, what is refused and where, what comes out."""

from __future__ import annotations

import gc
import json
from typing import Any, Dict, List, Optional, Tuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranktable_documents import device, group, group_list, pod, server, v1, v2

from davincirun import ranktable
from davincirun.cluster import Cluster, Device, Server, SuperPod
from davincirun.errors import RankTableError
from davincirun.ranktable import NotYet, RankTable
from davincirun.ranktable.validate import examine

PATH = "/user/config/hccl.json"
IP = "10.0.0.1"
PODS = "group_list[0].instance_list"
DEVICES = "server_list[1].device[0]"


def table_of(document: Dict[str, Any]) -> RankTable:
    table = ranktable.parse(json.dumps(document).encode(), PATH)
    assert isinstance(table, RankTable)
    return table


def cluster_of(document: Dict[str, Any]) -> Cluster:
    return ranktable.to_cluster(table_of(document), PATH)


def refusal(document: Dict[str, Any]) -> RankTableError:
    with pytest.raises(RankTableError) as raised:
        cluster_of(document)
    return raised.value


GOOD = json.dumps(v1(server("a", device("0", "0"), device("1", "1")))).encode()


@pytest.mark.parametrize("length", range(len(GOOD)))
def test_a_table_cut_off_anywhere_is_not_there_yet(length: int) -> None:
    assert isinstance(ranktable.parse(GOOD[:length], PATH), NotYet)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \r\n\t",
        b"\0" * 64,
        b"\xef\xbb\xbf",
        b'{"status": "initializing"}',
        b'{"status": "Initializing", "version": "1.0"}',
        b'{"status": "initializing", "version": "2.0", "rank_list": []}',
        GOOD + b'"}]}]}',
        GOOD + b"\0\0\0",
        GOOD[:40] + b"\0\0\0",
        '{"status": "completed", "group_name": "é"}'.encode()[:39],
        b'{"a": "\\u12',
        b'{"a": tru',
        b'{"a": -',
        b'{"a": 1.5e',
    ],
)
def test_what_waiting_may_cure_is_not_there_yet(data: bytes) -> None:
    result = ranktable.parse(data, PATH)
    assert isinstance(result, NotYet)
    assert result.reason


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{'version': '1.0'}", "single quotes at line 1 column 2"),
        (b'{"a": 1, // why\n"b": 2}', "a comment at line 1 column 10"),
        (b'{"a": 1 "b": 2}', "delimiter at line 1 column 9"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (GOOD.decode().encode("utf-16"), "not UTF-8"),
        (b"[]", "the top level is a list"),
        (b'"completed"', "the top level is a string"),
        (b"{}", "status: there is none"),
        (b"[" * 100000 + b"]" * 100000, "nested too deeply"),
        (b'{"status": "completed"}', "neither a version nor a group_list"),
        (b'{"status": 1, "version": "1.0"}', 'status: 1 is neither "completed"'),
        (b'{"status": "Completed", "version": "1.0"}', 'did you mean "completed"?'),
        (b'{"status": "completed", "version": null}', "version: null is null"),
        (b'{"status": "completed", "version": "1.3"}', 'version: "1.3" is none of'),
        (b'{"status": "completed", "rank_list": []}', 'add "version": "2.0"'),
        (b'{"version": "1.0", "server_group_list": []}', "clusterd"),
    ],
)
def test_what_waiting_can_not_cure_is_refused_at_once(data: bytes, words: str) -> None:
    with pytest.raises(RankTableError) as raised:
        ranktable.parse(data, PATH)
    assert words in str(raised.value)
    assert str(raised.value).startswith(PATH)


def test_a_byte_order_mark_is_skipped_and_the_text_kept() -> None:
    table = ranktable.parse(b"\xef\xbb\xbf" + GOOD, PATH)
    assert isinstance(table, RankTable)
    assert table.form == "1.0"
    assert table.text == b"\xef\xbb\xbf" + GOOD


@pytest.mark.parametrize(
    ("document", "where"),
    [
        (v1(), "server_list"),
        (v1(server("a", device("0", "0")), server_count="2"), "server_count"),
        (v1(server("a", device("0", "0")), server_count=1), "server_count"),
        ({"status": "completed", "version": "1.0"}, ""),
        (v1(server("a")), "server_list[0].device"),
        ({**v1(), "server_list": [{"server_id": "a", "device": None}]}, "server_list[0].device"),
        ({**v1(), "server_list": [{"server_id": "a"}]}, "server_list[0].device"),
        ({**v1(), "server_list": [7]}, "server_list[0]"),
        ({**v1(), "server_list": {}}, "server_list"),
        (v1(server(5, device("0", "0"))), "server_list[0].server_id"),
        (v1(server("", device("0", "0"))), "server_list[0].server_id"),
        (v1(server("x" * 65, device("0", "0"))), "server_list[0].server_id"),
        (v1(server("a", device("0", "0"), device("1", "0"))), "server_list[0].device[1].rank_id"),
        (v1(server("a", device("0", "0"), device("1", "2"))), "server_list[0].device[1].rank_id"),
        (v1(server("a", device("0", "1"), device("1", "2"))), "server_list[0].device[0].rank_id"),
        (v1(server("a", device("0", 0))), "server_list[0].device[0].rank_id"),
        (v1(server("a", device(0, "0"))), "server_list[0].device[0].device_id"),
        (v1(server("a", device("", "0"))), "server_list[0].device[0].device_id"),
        (v1(server("a", device("0", "-1"))), "server_list[0].device[0].rank_id"),
        (v1(server("a", device("0", "a"))), "server_list[0].device[0].rank_id"),
        (v1(server("a", {"device_id": "0"})), "server_list[0].device[0]"),
        (v1(server("a", device("0", "0"), device("0", "1"))), "server_list[0].device[1].device_id"),
        (v1(server("a", device("0", "0")), server("a", device("1", "1"))), "server_list[1].server_id"),
        (v1(server("a", device("0", "0", IP), device("1", "1", IP))), "server_list[0].device[1].device_ip"),
        (v1(server("a", device("0", "0", " 10.0.0.1"))), "server_list[0].device[0].device_ip"),
        (v1(server("a", device("0", "0", 7))), "server_list[0].device[0].device_ip"),
        (group_list(), "group_list"),
        (group_list(group(pod("x-0", "a", "0"), instance_count="2")), "group_list[0].instance_count"),
        (group_list(group(pod("x-0", "a", "0"), device_count="2")), "group_list[0].device_count"),
        (group_list(group(pod("x-0", "a", "0")), group_count="2"), "group_count"),
        (group_list(group(pod("x-0", "a", "0", "0"))), f"{PODS}[0].devices[1].device_id"),
        (group_list(group(pod("x-0", "a", "0"), pod("x-0", "b", "0"))), f"{PODS}[1].pod_name"),
        (group_list(group(pod("x-0", "a", "0"), pod("x-1", "a", "0"))), f"{PODS}[1].devices[0].device_id"),
        (group_list(group(pod("x-0", "a", "0"), pod("y", "b", "0"))), f"{PODS}[1].pod_name"),
        (group_list(group(pod("x-0", "a", "0"), pod("x-1", "b", devices=None))), f"{PODS}[1].devices"),
        (group_list(group(pod("x-0", "a", "0"), pod("x-1", "b"))), f"{PODS}[1].devices"),
        (group_list(group(pod("x-0", "a", "x"))), f"{PODS}[0].devices[0].device_id"),
        (group_list(group(device_count="0")), "group_list"),
        (v2(("0", 0, 0)), "rank_list[0].rank_id"),
        (v2((0, 0, "0")), "rank_list[0].device_id"),
        (v2((0, 0, True)), "rank_list[0].device_id"),
        (v2((0, 0, 0), (0, 1, 1)), "rank_list[1].rank_id"),
        (v2((0, 0, 0), rank_count=2), "rank_count"),
    ],
)
def test_a_table_that_can_not_work_is_refused_at_its_place(document: Dict[str, Any], where: str) -> None:
    refused = refusal(document)
    assert refused.where == where
    assert refused.problem


@pytest.mark.parametrize(
    "document",
    [
        v1(server("a", device("01", " 0"), device("31", "+1"), device("2", "2x"))),
        v1(server("127.0.1.1", device("0", "0")), server("b", device("0", "1"))),
        v1(server("a", device("0", "0", ""), device("1", "1", ""))),
        v1(server("a", device("0", "0", "fe80::1%eth-0")), server("b", device("0", "1", "fe80::2%eth-0"))),
        v1(server("a", device("100", "0")), unheard_of={"key": 1}),
        group_list(group(pod("master", "a", "0"))),
        group_list(group(pod("x-0", "a", 0), device_count=1, instance_count=1), group_count=1),
        group_list(group(pod("x-0", "a", "0")), group(pod("chief", "b", "0"), pod("x", "c", "0"))),
        {**v2((0, 0, 0)), "status": "Completed"},
    ],
)
def test_what_hccl_and_the_platforms_launcher_accept_is_accepted(document: Dict[str, Any]) -> None:
    assert cluster_of(document).world_size > 0


def test_ranks_may_stand_in_any_order() -> None:
    cluster = cluster_of(
        v1(server("b", device("7", "3"), device("6", "2")), server("a", device("1", "0"), device("0", "1")))
    )
    assert [[(d.rank, d.device_id) for d in s.devices] for s in cluster.servers] == [[(3, 7), (2, 6)], [(0, 1), (1, 0)]]


def test_a_server_is_known_by_all_its_addresses() -> None:
    entry = server("uid-1", device("0", "0"), host_ip="10.0.0.5", container_ip="172.20.0.6", host_nic_ip="reserve")
    assert sorted(cluster_of(v1(entry)).servers[0].addresses) == ["10.0.0.5", "172.20.0.6"]


def test_pods_are_ordered_by_number_and_merged_by_server() -> None:
    cluster = cluster_of(group_list(group(pod("j-10", "a", "4"), pod("j-2", "b", "0", "1"), pod("j-1", "a", "0"))))
    assert [(p.pod_name, [d.rank for d in p.devices]) for p in cluster.pods] == [
        ("j-1", [0]),
        ("j-2", [1, 2]),
        ("j-10", [3]),
    ]
    assert [(s.server_id, [d.rank for d in s.devices]) for s in cluster.servers] == [("a", [0, 3]), ("b", [1, 2])]


def test_groups_without_devices_are_skipped_and_later_groups_are_sorted_too() -> None:
    roles = group(pod("ps", "z"), device_count="0")
    cluster = cluster_of(group_list(roles, group(pod("w-1", "b", "0"), pod("w-0", "a", "0"))))
    assert [p.pod_name for p in cluster.pods] == ["w-0", "w-1"]


def test_the_lab_form_goes_by_its_own_ranks() -> None:
    instances = [
        {"rank_id": str(rank), "server_id": "a", "devices": [{"device_id": str(rank), "device_ip": f"10.0.0.{rank}"}]}
        for rank in (1, 0)
    ]
    lab = {"device_num": "2", "server_num": "1", "group_name": "", "instance_count": "2", "instance_list": instances}
    document = group_list(lab, deploy_mode="lab", para_plane_nic_location="device")
    cluster = cluster_of(document)
    assert [(d.rank, d.device_id) for d in cluster.servers[0].devices] == [(0, 0), (1, 1)]
    assert cluster.pods == ()


def test_the_converted_text_holds_strings_only_and_is_the_same_every_time() -> None:
    table = table_of(group_list(group(pod("x-0", 'a"\u2028', 3, device_ip=None), device_count=1)))
    text = ranktable.from_servers(ranktable.to_cluster(table, PATH).servers)
    assert text == ranktable.from_servers(ranktable.to_cluster(table, PATH).servers)
    assert text.startswith(
        b'{"status":"completed","version":"1.0","server_count":"1","server_list":[{"server_id":"a\\"\\u2028"'
    )
    assert json.loads(text)["server_list"][0]["device"][0]["device_id"] == "3"


def test_version_2_0_is_cut_into_servers_where_local_ids_start_again() -> None:
    cluster = cluster_of(v2((2, 0, 4), (0, 0, 0), (1, 3, 1), (3, 1, 5)))
    assert [(s.server_id, [d.rank for d in s.devices]) for s in cluster.servers] == [
        ("node-0", [0, 1]),
        ("node-1", [2, 3]),
    ]
    assert not cluster.names_servers


def test_version_1_1_keeps_its_host_ranks() -> None:
    node = {
        "node_addr": "10.0.0.1",
        "ranks": [
            {"rank_id": "0", "device_id": "-1", "port": "60001"},
            {"rank_id": "1", "device_id": "0", "rank_ip": "10.1.0.1"},
        ],
    }
    cluster = cluster_of({"version": "1.1", "status": "completed", "collective_id": "x", "node_list": [node]})
    assert [(d.rank, d.device_id, d.device_ip) for d in cluster.servers[0].devices] == [
        (0, -1, None),
        (1, 0, "10.1.0.1"),
    ]


def super_pod_servers() -> List[Server]:
    return [Server(name, (Device(rank, 0, None, str(rank)),)) for rank, name in enumerate(("a", "b"))]


def test_super_pods_come_out_as_they_went_in() -> None:
    text = ranktable.from_servers(super_pod_servers(), "1.2", [SuperPod("0", ("a", "b"))])
    cluster = cluster_of(json.loads(text))
    assert cluster.super_pods == (SuperPod("0", ("a", "b")),)
    assert list(cluster.servers) == super_pod_servers()
    assert "device_ip" not in text.decode()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda d: d["super_pod_list"][0]["server_list"].pop(), "server_list[1].server_id"),
        (lambda d: d["super_pod_list"].append(d["super_pod_list"][0]), "super_pod_list[1].super_pod_id"),
        (lambda d: d["server_list"][1]["device"][0].update(super_device_id=""), f"{DEVICES}.super_device_id"),
        (lambda d: d["server_list"][1]["device"][0].update(super_device_id="0"), f"{DEVICES}.super_device_id"),
        (lambda d: d["server_list"][1]["device"][0].pop("super_device_id"), f"{DEVICES}.super_device_id"),
        (
            lambda d: d["super_pod_list"][0]["server_list"][0].update(server_id="c"),
            "super_pod_list[0].server_list[0].server_id",
        ),
    ],
)
def test_super_pods_that_do_not_fit_are_refused(change: Any, where: str) -> None:
    document = json.loads(ranktable.from_servers(super_pod_servers(), "1.2", [SuperPod("0", ("a", "b"))]))
    change(document)
    assert refusal(document).where == where


@pytest.mark.parametrize("own_ids", [("3", "3"), ("3", "03"), ("03", "3"), ("3", "x"), ("3", ""), ("", "3")])
def test_ids_in_the_super_pod_are_numbers_and_each_is_one_device_s(own_ids: Tuple[str, str]) -> None:
    server = Server("a", tuple(Device(rank, rank, None, own_id) for rank, own_id in enumerate(own_ids)))
    document = json.loads(ranktable.from_servers([server], "1.2", [SuperPod("0", ("a",))]))
    assert "super_device_id" in refusal(document).where


def test_the_collector_is_as_it_was_after_reading() -> None:
    assert gc.isenabled()
    cluster_of(json.loads(GOOD))
    assert gc.isenabled()
    gc.disable()
    try:
        cluster_of(json.loads(GOOD))
        assert not gc.isenabled()
    finally:
        gc.enable()


KEYS = st.sampled_from(
    [
        "status",
        "version",
        "server_count",
        "server_list",
        "server_id",
        "device",
        "device_id",
        "rank_id",
        "device_ip",
        "super_device_id",
        "super_pod_list",
        "super_pod_id",
        "group_count",
        "group_list",
        "device_count",
        "instance_count",
        "instance_list",
        "pod_name",
        "devices",
        "deploy_mode",
        "rank_count",
        "rank_list",
        "local_id",
        "level_list",
        "net_layer",
        "net_type",
        "rank_addr_list",
        "addr_type",
        "addr",
        "ports",
        "node_list",
        "ranks",
        "node_addr",
        "host_ip",
        "device_port",
        "host_port",
        "server_group_list",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(
        ["completed", "1.0", "1.1", "1.2", "2.0", "0", "1", "127.0.0.1", "a-0", "fe80::1", "IPV4", ",", "-1"]
    )
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=6), max_leaves=30)


def survives(data: bytes) -> None:
    report = examine(data, PATH, chip="A2", pod_name="x-0")
    assert report.verdict in ("ok", "warning", "error", "not-ready", "foreign")
    assert launched(data, read_in_columns=False) == launched(data, read_in_columns=True)


def launched(data: bytes, read_in_columns: bool) -> object:
    """What a launch reads, or the error; all tables in columns, or none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("davincirun.ranktable.launch.BIG_BYTES", -1 if read_in_columns else 1 << 20)
        try:
            table = ranktable.read(data, PATH)
            if isinstance(table, RankTable):
                servers = ranktable.to_cluster(table, PATH).servers
                return [(server.server_id, tuple(server.devices)) for server in servers]
            return table
        except RankTableError as error:
            return str(error)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_rank_table_error(data: bytes) -> None:
    survives(data)


@settings(max_examples=150)
@given(st.dictionaries(KEYS, VALUES, max_size=8), st.sampled_from(["1.0", "1.1", "1.2", "2.0", None]))
def test_no_document_raises_anything_but_a_rank_table_error(document: Dict[str, Any], version: Optional[str]) -> None:
    form = {} if version is None else {"version": version}
    survives(json.dumps({**document, "status": "completed", **form}).encode())


@settings(max_examples=120)
@given(st.data())
def test_no_damage_to_a_good_table_raises_anything_but_a_rank_table_error(data: Any) -> None:
    good = data.draw(
        st.sampled_from(
            [
                v1(
                    server("a", device("0", "0", "10.0.0.1"), host_ip="10.0.0.9"),
                    server("b", device("0", "1", "10.0.0.2")),
                ),
                group_list(group(pod("x-0", "a", "0"), pod("x-1", "b", "0"))),
                json.loads(ranktable.from_servers(super_pod_servers(), "1.2", [SuperPod("0", ("a", "b"))])),
                v2((0, 0, 0), (1, 1, 1)),
            ]
        )
    )
    copy = json.loads(json.dumps(good))
    holder = copy
    while True:
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
        if isinstance(holder[key], (dict, list)) and holder[key] and data.draw(st.booleans()):
            holder = holder[key]
            continue
        holder[key] = data.draw(VALUES)
        break
    survives(json.dumps(copy).encode())
