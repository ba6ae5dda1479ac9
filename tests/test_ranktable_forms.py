"""Writing, converting, merging, comparing and showing rank tables."""

from __future__ import annotations

import json
from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranktable_documents import Document, cluster_v1, device, group, group_list, pod, server, v1, v2

from davincirun.cluster import Cluster, Device, Server, SuperPod
from davincirun.errors import RankTableError, UsageError
from davincirun.ranktable import RankTable, from_servers, parse, to_cluster
from davincirun.ranktable.convert import convert
from davincirun.ranktable.diff import diff
from davincirun.ranktable.inventory import id_list, of_hosts, read_inventory
from davincirun.ranktable.merge import Part, merge
from davincirun.ranktable.order import natural, ranges
from davincirun.ranktable.show import show
from davincirun.ranktable.writing import dumps

A_IP = "192.0.0.97"  # of device 0 of the server "a", when it is the first


def table_of(document: Document) -> RankTable:
    table = parse(json.dumps(document).encode(), "hccl.json")
    assert isinstance(table, RankTable)
    return table


def parts(*documents: Document) -> List[Part]:
    return [Part(f"{index}.json", table_of(document)) for index, document in enumerate(documents)]


def layout(document: Document) -> Any:
    """[(server id, [(rank, device id)…])…] of a document."""
    cluster = to_cluster(table_of(document), "hccl.json")
    return [(s.server_id, [(d.rank, d.device_id) for d in s.devices]) for s in cluster.servers]


def super_pod_document(*names: str, pod_id: str = "0") -> Document:
    servers = [Server(name, (Device(rank, 0, None, str(10 + rank)),)) for rank, name in enumerate(names)]
    document: Document = json.loads(from_servers(servers, "1.2", [SuperPod(pod_id, names)]))
    return document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=25,
)


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=5))
def test_writing_loses_nothing_and_keeps_the_order_of_keys(document: Document) -> None:
    again = json.loads(dumps(document))
    assert again == document
    assert list(again) == list(document)


def test_a_written_table_has_a_line_for_each_device() -> None:
    lines = dumps(cluster_v1("a", "b")).decode().splitlines()
    assert sum("rank_id" in line for line in lines) == 4
    assert all(len(line) <= 120 for line in lines)


def test_group_list_becomes_1_0_and_1_2() -> None:
    document = group_list(group(pod("x-1", "b", "4"), pod("x-0", "a", "0", "1")))
    for target in ("1.0", "1.2"):
        conversion = convert(table_of(document), "t", target)
        assert conversion.lost == []
        assert json.loads(conversion.text)["version"] == target
        assert layout(json.loads(conversion.text)) == [("a", [(0, 0), (1, 1)]), ("b", [(2, 4)])]


def test_1_0_becomes_group_list_and_comes_back() -> None:
    document = cluster_v1("a", "b", "c")
    conversion = convert(table_of(document), "t", "group_list")
    assert conversion.lost == []
    assert json.loads(convert(table_of(json.loads(conversion.text)), "t", "1.0").text) == {
        key: document[key] for key in ("status", "version", "server_count", "server_list")
    }


def test_1_0_becomes_1_2_with_every_other_key_kept() -> None:
    document = v1(server("a", device("0", "0", "10.0.0.1", dpu_ip="x"), host_ip="10.0.0.9"), cluster_list=[1])
    assert json.loads(convert(table_of(document), "t", "1.2").text) == {**document, "version": "1.2"}


def test_what_a_form_has_no_place_for_is_named() -> None:
    assert convert(table_of(super_pod_document("a", "b")), "t", "1.0").lost == [
        "super_pod_list",
        "super_device_id of the devices",
    ]
    document = v1(server("a", device("0", "0", "10.0.0.1", device_port="16667"), host_ip="10.0.0.9"), cluster_list=[])
    assert convert(table_of(document), "t", "group_list").lost == [
        "cluster_list",
        "host_ip of the servers",
        "device_port of the devices",
    ]


def test_a_table_in_the_wanted_form_stays_byte_for_byte() -> None:
    table = table_of(cluster_v1("a"))
    assert convert(table, "t", "1.0").text == table.text


@pytest.mark.parametrize(
    ("document", "target", "words"),
    [
        (cluster_v1("a"), "2.0", "network layers"),
        (v2((0, 0, 0)), "1.0", "names no servers"),
        (v1(server("a", device("0", "1"), device("1", "0"))), "group_list", "rank 1, where group_list would count 0"),
        (v1(server("a", device("0", "1"))), "1.2", "start at 1"),
    ],
)
def test_what_can_not_be_converted_is_explained(document: Document, target: str, words: str) -> None:
    with pytest.raises(RankTableError, match=words):
        convert(table_of(document), "t", target)


def test_merged_ranks_follow_the_order_of_the_files_and_keys_are_kept() -> None:
    first = v1(server("10.0.0.10", device("1", "1", "1.1.1.1"), device("0", "0", "1.1.1.2"), host_nic_ip="reserve"))
    merged = merge(parts(first, cluster_v1("10.0.0.9")))
    assert layout(merged) == [("10.0.0.10", [(1, 1), (0, 0)]), ("10.0.0.9", [(2, 0), (3, 1)])]
    assert merged["server_count"] == "2"
    assert merged["server_list"][0]["host_nic_ip"] == "reserve"


def test_merging_by_server_reads_addresses_as_numbers() -> None:
    merged = merge(parts(cluster_v1("10.0.0.100", per_server=1), cluster_v1("10.0.0.9", per_server=1)), "server")
    assert layout(merged) == [("10.0.0.9", [(0, 0)]), ("10.0.0.100", [(1, 0)])]


def test_merging_by_pod_reads_the_number_at_the_end() -> None:
    tables = parts(group_list(group(pod("x-10", "a", "0"))), group_list(group(pod("x-9", "b", "0"))))
    merged = merge(tables, "pod")
    assert [i["pod_name"] for i in merged["group_list"][0]["instance_list"]] == ["x-9", "x-10"]
    assert (merged["group_count"], merged["group_list"][0]["device_count"]) == ("1", "2")
    assert merge(tables)["group_list"][0]["instance_list"][0]["pod_name"] == "x-10"


def test_super_pods_of_the_parts_are_joined_by_id() -> None:
    second = super_pod_document("c")
    second["server_list"][0]["device"][0]["super_device_id"] = "99"
    merged = merge(parts(super_pod_document("a", "b"), second, super_pod_document("d", pod_id="1")))
    assert [(p["super_pod_id"], len(p["server_list"])) for p in merged["super_pod_list"]] == [("0", 3), ("1", 1)]


def test_2_0_tables_are_merged_in_the_order_given() -> None:
    second = v2((0, 0, 0))
    second["rank_list"][0]["level_list"][0]["rank_addr_list"][0]["addr"] = "172.16.9.9"
    merged = merge(parts(v2((0, 0, 0), (1, 1, 1)), second))
    assert merged["rank_count"] == 3
    assert [rank["rank_id"] for rank in merged["rank_list"]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("documents", "order", "words"),
    [
        ((cluster_v1("a"), cluster_v1("a")), "given", "server_id: a is in 0.json too"),
        ((cluster_v1("127.0.1.1"), cluster_v1("127.0.1.1")), "given", "--server_ip"),
        (
            (cluster_v1("a"), v1(server("b", device("0", "0", A_IP)))),
            "given",
            f"device_ip: {A_IP} is in 0.json",
        ),
        ((group_list(group(pod("x-0", "a", "0"))), group_list(group(pod("x-0", "b", "0")))), "given", "pod_name: x-0"),
        ((cluster_v1("a"), group_list(group(pod("x-0", "b", "0")))), "given", "one form"),
        ((cluster_v1("a"), cluster_v1("b")), "pod", "-<number>"),
        ((v2((0, 0, 0)), v2((0, 0, 0))), "given", "addr: layer 0: 172.16.0.0"),
        ((v2((0, 0, 0)),), "server", "names no servers"),
        ((v1(server("a", device("0", "1"))), cluster_v1("b")), "given", "start at 1"),
        (({**cluster_v1("a"), "x": 1}, {**cluster_v1("b"), "x": 2}), "given", "1.json: x: it differs from 0.json"),
    ],
)
def test_what_can_not_be_merged_is_refused(documents: Any, order: str, words: str) -> None:
    with pytest.raises(RankTableError, match=words):
        merge(parts(*documents), order)


def test_a_merged_table_of_parts_is_the_table_they_were_cut_from() -> None:
    whole = cluster_v1("a", "b", "c")
    entries = json.loads(json.dumps(whole))["server_list"]
    cut = [{**whole, "server_count": "1", "server_list": [entry]} for entry in entries]
    for table in cut:
        for rank, fields in enumerate(table["server_list"][0]["device"]):
            fields["rank_id"] = str(rank)
    assert merge(parts(*cut)) == whole


def test_tables_that_differ_in_layout_only_are_the_same() -> None:
    document = cluster_v1("a", "b")
    turned = dict(reversed(list(document.items())))
    assert diff(table_of(document), "a", table_of(turned), "b") == ([], [])


def test_forms_of_the_same_cluster_differ_in_form_only() -> None:
    document = group_list(group(pod("x-0", "a", "0")))
    converted = json.loads(convert(table_of(document), "t", "1.0").text)
    assert diff(table_of(document), "a", table_of(converted), "b") == ([], ["form: group_list -> 1.0"])


def test_differences_are_told_in_ranks_and_servers() -> None:
    before = cluster_v1("a", "b")
    after = json.loads(json.dumps(before))
    after["server_list"][0]["device"][0].update(device_id="7")
    after["server_list"][0]["device"][1].update(device_ip="10.9.9.9")
    after["server_list"][1].update(server_id="c", host_ip="10.0.0.3")
    assert diff(table_of(before), "a", table_of(after), "b").cluster == [
        "- server b: ranks 2-3",
        "+ server c: ranks 2-3",
        "  rank 0: a device 0 -> a device 7",
        "  rank 1: device_ip 192.1.0.97 -> 10.9.9.9",
        "  rank 2: b device 0 -> c device 0",
        "  rank 3: b device 1 -> c device 1",
    ]


def test_values_that_only_the_checksum_sees_are_told_by_path() -> None:
    before, after = cluster_v1("a"), cluster_v1("a")
    after["server_list"][0]["device"][0]["numa_id"] = "1"
    assert diff(table_of(before), "a", table_of(after), "b") == ([], ['+ server_list[0].device[0].numa_id: "1"'])


def test_a_small_table_is_shown_device_by_device() -> None:
    document = group_list(group(pod("x-0", "a", "4", "5"), pod("x-1", "b", "0")))
    table = table_of(document)
    assert show(to_cluster(table, "t"), table.form, "t.json") == [
        "t.json: group_list, 3 devices on 2 servers",
        "a: ranks 0-1 on devices 4-5",
        "  pod x-0",
        "  rank 0    local 0   device 4    192.168.97.4",
        "  rank 1    local 1   device 5    192.168.97.5",
        "b: ranks 2 on devices 0",
        "  pod x-1",
        "  rank 2    local 0   device 0    192.168.98.0",
    ]


def test_a_big_table_folds() -> None:
    servers = [Server(f"s-{i}", tuple([Device(i * 16 + d, d) for d in range(16)])) for i in range(1000)]
    lines = show(Cluster.of(servers), "1.0", "t.json")
    assert len(lines) == 18
    assert lines[0] == "t.json: version 1.0, 16,000 devices on 1,000 servers"
    assert lines[1] == "s-0: ranks 0-15 on devices 0-15"
    assert lines[9] == "… 984 more servers, 16 devices each …"


def test_natural_order_puts_9_before_10() -> None:
    names = ["10.0.0.10", "10.0.0.9", "worker-10", "worker-2", "worker-2-b", ""]
    assert sorted(names, key=natural) == ["", "10.0.0.9", "10.0.0.10", "worker-2", "worker-2-b", "worker-10"]


@pytest.mark.parametrize(("numbers", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 7, 9, 8], "0-2,7,9,8")])
def test_runs_of_numbers_fold(numbers: List[int], text: str) -> None:
    assert ranges(numbers) == text


def test_an_inventory_gives_servers_addresses_and_super_pods() -> None:
    text = "# two halves\n10.0.0.1 0=192.98.1.11@5 1=192.99.1.11@6 pod=0\n\n10.0.0.2 4-5 pod=0  # no addresses\n"
    cluster = read_inventory(text, "inventory")
    assert cluster.servers[0].devices == (Device(0, 0, "192.98.1.11", "5"), Device(1, 1, "192.99.1.11", "6"))
    assert cluster.servers[1].devices == (Device(2, 4), Device(3, 5))
    assert cluster.super_pods == (SuperPod("0", ("10.0.0.1", "10.0.0.2")),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "lists no server"),
        ("a\n", "inventory:1: server a has no devices"),
        ("\na 0=1.1.1.1 x", "inventory:2: 'x' is no device"),
        ("a 0-3=1.1.1.1", "several devices one address"),
        ("a 3-0", "inventory:1: '3-0' is no list of device ids"),
        ("a 0-99999", "inventory:1: '0-99999' is no device"),
        ("a " + "1" * 5000, "is no device"),
    ],
)
def test_a_wrong_inventory_is_refused_at_its_line(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_inventory(text, "inventory")


@given(st.text(st.sampled_from("0123456789 -=@#.:,apod\n²"), max_size=60))
def test_no_inventory_raises_anything_but_a_usage_error(text: str) -> None:
    try:
        assert read_inventory(text, "servers.txt").servers
    except UsageError as error:
        assert str(error).startswith("servers.txt")


def test_hosts_share_out_the_addresses_in_order() -> None:
    cluster = of_hosts(["a", "b"], [0, 1], ["1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4"])
    assert [d.device_ip for d in cluster.servers[1].devices] == ["1.1.1.3", "1.1.1.4"]
    with pytest.raises(UsageError, match="give 4, host by host"):
        of_hosts(["a", "b"], [0, 1], ["1.1.1.1"])


@pytest.mark.parametrize(("text", "ids"), [("0-3,6", [0, 1, 2, 3, 6]), ("7", [7]), ("0, 2", [0, 2])])
def test_device_lists_are_read(text: str, ids: List[int]) -> None:
    assert id_list(text) == ids


@pytest.mark.parametrize("text", ["", "a", "0-", "3-1", "0,0", "-1", "1-2-3", "0-10000000000", "1" * 5000])
def test_wrong_device_lists_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        id_list(text)
