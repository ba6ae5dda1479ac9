"""Big tables, read by the spelling of one list: what comes out is what JSON says, or JSON is asked."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranktable_documents import cluster_v1, device, group, group_list, pod, server, v1

from davincirun import ranktable
from davincirun.cluster import Device, DeviceColumns, Server, SuperPod
from davincirun.errors import RankTableError
from davincirun.ranktable import RankTable, alike
from davincirun.ranktable.columns import decimals

PATH = "hccl.json"
PODS = group_list(group(*[pod(f"x-{index}", f"10.0.0.{index}", "0", "1") for index in range(5)]))
SERVERS = cluster_v1("a", "b", "c", "d", "e")


def super_pods() -> Dict[str, Any]:
    servers = [
        Server(name, tuple(Device(2 * index + i, i, f"10.{index}.0.{i}", str(2 * index + i)) for i in (0, 1)))
        for index, name in enumerate("abcde")
    ]
    document: Dict[str, Any] = json.loads(ranktable.from_servers(servers, "1.2", [SuperPod("0", tuple("abcde"))]))
    return document


def servers_in(table: Optional[RankTable]) -> List[Any]:
    assert isinstance(table, RankTable)
    return [
        (server.server_id, tuple(server.devices), server.addresses)
        for server in ranktable.to_cluster(table, PATH).servers
    ]


def by_json(data: bytes) -> List[Any]:
    table = ranktable.parse(data, PATH)
    assert isinstance(table, RankTable)
    return servers_in(table)


@pytest.mark.parametrize("document", [PODS, SERVERS, super_pods()], ids=["group_list", "1.0", "1.2"])
@pytest.mark.parametrize("layout", [{}, {"indent": 4}, {"separators": (",", ":")}], ids=str)
def test_every_form_is_read_however_it_is_laid_out(document: Dict[str, Any], layout: Dict[str, Any]) -> None:
    data = json.dumps(document, **layout).encode()
    table = alike.read(data)
    assert servers_in(table) == by_json(data)
    assert table is not None and table.text == data


def test_lists_that_are_not_like_the_others_are_read_beside_them() -> None:
    odd = [
        server("f", device("3", "10", "10.9.0.1"), device("7", "11")),
        server("g", device(" 4", "12", "10.9.0.2", port="1")),
    ]
    data = json.dumps(v1(*SERVERS["server_list"], *odd)).encode()
    assert servers_in(alike.read(data)) == by_json(data)


def test_keys_that_nobody_knows_and_letters_of_all_languages_are_no_hindrance() -> None:
    servers = [
        {"server_id": f"节点-{index}", "device": [{"名": "é", **device("0", str(index), f"10.0.0.{index}")}]}
        for index in range(3)
    ]
    data = b"\xef\xbb\xbf" + json.dumps(v1(*servers), ensure_ascii=False).encode()
    assert servers_in(alike.read(data)) == by_json(data)


def test_groups_without_devices_and_numbers_in_the_file_s_own_order_stay_as_they_are() -> None:
    idle = group({"pod_name": "ps-0", "server_id": "10.0.0.9", "devices": []})
    pods = [pod(f"x-{index}", f"10.0.0.{index}", "0", "1") for index in (2, 0, 10, 1)]
    data = json.dumps(group_list(idle, group(*pods))).encode()
    assert servers_in(alike.read(data)) == by_json(data)


def test_devices_need_no_address() -> None:
    servers = [server(f"s{index}", device("0", str(index))) for index in range(3)]
    pods = [{"pod_name": f"x-{index}", "server_id": f"s{index}", "devices": [{"device_id": "0"}]} for index in range(3)]
    for document in (v1(*servers), group_list(group(*pods))):
        data = json.dumps(document).encode()
        assert servers_in(alike.read(data)) == by_json(data)


@pytest.mark.parametrize("first", [{}, {"device_ip": ""}, {"device_ip": "10.0.0.9"}])
def test_in_a_big_table_a_list_that_was_copied_is_found(first: Dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("davincirun.ranktable.columns._EACH_ADDRESS_UP_TO", 0)
    servers = [
        server(name, {**device("0", str(2 * index)), **first}, device("1", str(2 * index + 1), "10.0.0.1"))
        for index, name in enumerate("ab")
    ]
    data = json.dumps(v1(*servers)).encode()
    with pytest.raises(RankTableError, match="device_ip"):
        by_json(data)


DAMAGES = [
    ('"192.0.2.', '"192.0\x01.2.'),  # no string may hold that
    ('"192.0.2.', '"192.0\n.2.'),
    ('"192.0.2.', '"192.0\\u002e2.'),
    ('"192.0.2.', '"192.0.2[]'),
    ('"device_id": "0"', '"device_id": 0'),
    ('[{"device_id"', '[1{"device_id"'),
    ('[{"device_id"', '[-{"device_id"'),
    ('[{"device_id"', '["1" {"device_id"'),
    ('[{"device_id"', '[{"device_id": "9"} {"device_id"'),
    ('"}]', '"},]'),
    ('"}]', '"}}]'),
    ('"device": [{', '"device": ["0"], "device": [{'),
    ('"device": [{', '"device": ["\x7f1"], "other": [{'),
    ('"device": [{', '"devices": [{'),
    ('"device": [{', '"other": ["abc{", {'),
    ('"server_id": "c"', '"server_id": "c[{"'),
    ('"completed"', '"completed'),
    ("}", ""),
]


@pytest.mark.parametrize(("place", "damage"), DAMAGES)
def test_what_is_wrong_or_unusual_comes_out_as_the_decoder_has_it(place: str, damage: str) -> None:
    text = json.dumps(SERVERS)
    middle = text.index(place, text.find(place) + 1 if text.count(place) > 1 else 0)
    assert_as_by_json((text[:middle] + damage + text[middle + len(place) :]).encode())


@settings(max_examples=300)
@given(st.data())
def test_no_damage_to_the_text_is_read_as_something_else(data: Any) -> None:
    text = json.dumps(data.draw(st.sampled_from([PODS, SERVERS, super_pods()])))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text) - 1))
        end = min(len(text), start + data.draw(st.integers(0, 3)))
        copied = data.draw(st.integers(0, len(text) - 1))
        new = data.draw(st.text('"{}[],:\\ \n\x01-1', max_size=3) | st.just(text[copied : copied + 40]))
        text = text[:start] + new + text[end:]
    assert_as_by_json(text.encode())


def assert_as_by_json(data: bytes) -> None:
    assert outcome(alike.read(data), data) == outcome(None, data)


def outcome(table: Optional[RankTable], data: bytes) -> object:
    try:
        found = table or ranktable.parse(data, PATH)
        return servers_in(found) if isinstance(found, RankTable) else found
    except RankTableError as error:
        return str(error)


@given(st.integers(0, 10_000), st.integers(0, 100))
def test_decimals_are_the_texts_of_numbers(start: int, count: int) -> None:
    ranks = range(start, start + count)
    assert list(decimals(ranks)) == list(decimals(list(ranks))) == list(map(str, ranks))


ADDRESSES = st.none() | st.text(max_size=3) | st.sampled_from(["10.0.0.1", '"', "\\", "\x7f"])


@given(st.lists(ADDRESSES, min_size=1, max_size=4))
def test_columns_are_written_as_devices_are(addresses: List[Optional[str]]) -> None:
    columns = DeviceColumns(range(990, 990 + len(addresses)), list(range(len(addresses))), addresses)
    in_columns, in_devices = Server("a", columns), Server("a", tuple(columns))
    written = ranktable.from_servers([in_columns, in_columns])
    assert written == ranktable.from_servers([in_devices, in_devices])
    assert [entry.get("device_ip") for entry in json.loads(written)["server_list"][1]["device"]] == addresses
