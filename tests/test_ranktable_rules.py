"""What the validator says beyond the stored corpus: each row is one flaw in an otherwise good table."""

from __future__ import annotations

import json
from typing import Any, Callable, List, Tuple

import pytest
from ranktable_documents import Document, cluster_v1, device, group, group_list, pod, server, v1, v2

from davincirun.cluster import Device, Server, SuperPod
from davincirun.ranktable import from_servers
from davincirun.ranktable.rules.addresses import family
from davincirun.ranktable.validate import OF_A_KIND, examine


def told(document: Document, **asked: Any) -> List[Tuple[str, str, str]]:
    report = examine(json.dumps(document).encode(), "hccl.json", **asked)
    return [(finding.severity, finding.code, finding.where) for finding in report.findings]


def test_a_good_table_has_no_findings() -> None:
    for document in (cluster_v1("a", "b"), group_list(group(pod("x-0", "a", "0"))), v2((0, 0, 0), (1, 1, 1))):
        assert told(document) == []


FIRST = "server_list[0].device[0]"
SECOND = "server_list[1].device[0]"


@pytest.mark.parametrize(
    ("keys", "severity", "code", "where"),
    [
        ({"device_port": "0"}, "error", "port-range", f"{FIRST}.device_port"),
        ({"device_port": "65536"}, "error", "port-range", f"{FIRST}.device_port"),
        ({"device_port": 16666}, "error", "type", f"{FIRST}.device_port"),
        ({"device_port": "80"}, "warning", "port-reserved", f"{FIRST}.device_port"),
        ({"device_vnic_port": "x"}, "error", "not-a-number", f"{FIRST}.device_vnic_port"),
        ({"backup_device_port": "70000"}, "error", "port-range", f"{FIRST}.backup_device_port"),
        ({"backup_device_ip": "nowhere"}, "warning", "bad-device-ip", f"{FIRST}.backup_device_ip"),
        ({"backup_device_ip": "192.0.0.97"}, "warning", "backup-is-own", f"{FIRST}.backup_device_ip"),
        ({"device_id": "00"}, "warning", "lenient-number", f"{FIRST}.device_id"),
        ({"device_id": " 0"}, "warning", "lenient-number", f"{FIRST}.device_id"),
        ({"device_id": "0abc"}, "warning", "lenient-number", f"{FIRST}.device_id"),
        ({"device_id": "-1"}, "error", "not-a-number", f"{FIRST}.device_id"),
        ({"device_id": "64"}, "warning", "device-id-range", f"{FIRST}.device_id"),
        ({"rank_id": None}, "error", "type", f"{FIRST}.rank_id"),
        ({"device_ip": None}, "error", "type", f"{FIRST}.device_ip"),
        ({"device_ip": ""}, "error", "no-device-ip", FIRST),
        ({"device_ip": "192.0.0.1,192.0.0.2"}, "error", "device-ip-count", f"{SECOND}.device_ip"),
        ({"device_ip": "192.0.0.01"}, "error", "bad-device-ip", f"{FIRST}.device_ip"),
        ({"device_ip": "192.0.0.256"}, "error", "bad-device-ip", f"{FIRST}.device_ip"),
        ({"device_ip": "192.0.0.1\n"}, "error", "bad-device-ip", f"{FIRST}.device_ip"),
        ({"device_ip": "::g"}, "error", "bad-device-ip", f"{FIRST}.device_ip"),
    ],
)
def test_a_flaw_of_a_device_is_told_at_its_place(keys: Document, severity: str, code: str, where: str) -> None:
    document = cluster_v1("a", "b", per_server=1)
    document["server_list"][0]["device"][0].update(keys)
    assert (severity, code, where) in told(document)


@pytest.mark.parametrize(
    ("document", "severity", "code", "where"),
    [
        (v1(server("a", device("0", "0"), host_ip="")), "error", "bad-host-ip", "server_list[0].host_ip"),
        (v1(server("a", device("0", "0"), host_ip=3)), "error", "type", "server_list[0].host_ip"),
        (cluster_v1("127.0.0.1", "b"), "warning", "loopback-server", "server_list[0].server_id"),
        (
            v1(server("a", device("0", "0", None, host_port="60001"), device("1", "1", None, host_port="60001"))),
            "error",
            "port-duplicate",
            "server_list[0].device[1].host_port",
        ),
        (v1({"server_id": "a", "devices": []}), "error", "no-devices", "server_list[0].device"),
        (v1({"device": [device("0", "0")]}), "error", "missing-server-id", "server_list[0]"),
        (v1(server("a", device("0", "0")), server_count="x"), "error", "not-a-number", "server_count"),
        (v1(server("a", device("0", "0"), device("1", "7"))), "error", "rank-gap", "server_list[0].device[1].rank_id"),
        (group_list(group(device_count="0")), "error", "no-devices", "group_list"),
        (
            group_list(group(pod("ps-0", "z", "0"), device_count="0"), group(pod("w-0", "a", "0"))),
            "warning",
            "device-count",
            "group_list[0].device_count",
        ),
        (group_list(group(pod("solo", "a", "0"))), "warning", "pod-index", "group_list[0].instance_list[0].pod_name"),
        (group_list(group(pod(7, "a", "0"))), "error", "type", "group_list[0].instance_list[0].pod_name"),
        (group_list(group(pod("x-0", 7, "0"))), "warning", "type", "group_list[0].instance_list[0].server_id"),
        (
            group_list(group(pod("x-0", "a", "0"), instance_count="2")),
            "error",
            "instance-count",
            "group_list[0].instance_count",
        ),
        ({**v2((0, 0, 0)), "status": 1}, "warning", "bad-status", "status"),
        ({"status": "completed", "version": "2.0", "rank_count": 0}, "error", "missing-rank-list", ""),
        (v2((0, 64, 0)), "error", "missing-replaced-local-id", "rank_list[0]"),
        (v2((0, 65, 0)), "error", "range", "rank_list[0].local_id"),
        (v2((0, 0, 0), detour="maybe"), "error", "detour", "detour"),
        ({"version": "1.1", "node_list": []}, "error", "collective-id", "collective_id"),
        ({"version": "1.1", "collective_id": "x", "node_list": [], "mode": "ib"}, "error", "mode", "mode"),
        (
            {"version": "1.1", "collective_id": "x", "node_list": [{"node_addr": "h", "ranks": []}]},
            "error",
            "bad-host-ip",
            "node_list[0].node_addr",
        ),
    ],
)
def test_a_flaw_of_a_table_is_told_at_its_place(document: Document, severity: str, code: str, where: str) -> None:
    assert (severity, code, where) in told(document)


def test_addresses_of_a_2_0_layer_are_told_apart_by_their_ports() -> None:
    document = v2((0, 0, 0), (1, 1, 1))
    layers = [rank["level_list"][0] for rank in document["rank_list"]]
    for layer in layers:
        layer["rank_addr_list"].append({**layer["rank_addr_list"][0], "addr": "172.16.9.9"})
    assert told(document) == [
        ("error", "port-twice", f"rank_list[{rank}].level_list[0].rank_addr_list[1].ports") for rank in (0, 1)
    ]
    for layer in layers:
        layer["rank_addr_list"][1]["ports"] = ["d2h"]
    assert told(document) == []


def test_ranks_of_a_2_0_instance_have_equally_many_addresses() -> None:
    document = v2((0, 0, 0), (1, 1, 1), (2, 2, 2))
    layer = document["rank_list"][1]["level_list"][0]
    layer["rank_addr_list"].append({"addr_type": "IPV4", "addr": "172.16.9.9", "ports": ["0/2"]})
    assert told(document) == [("error", "addr-count", "rank_list[1].level_list[0].rank_addr_list")]
    layer["net_instance_id"] = "another"
    assert told(document) == []


def change_layer(**keys: object) -> Callable[[Document], None]:
    return lambda document: document["rank_list"][0]["level_list"][0].update(keys)


def change_address(**keys: object) -> Callable[[Document], None]:
    return lambda document: document["rank_list"][0]["level_list"][0]["rank_addr_list"][0].update(keys)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (change_layer(net_layer="0"), "type"),
        (change_layer(net_layer=8), "net-layer"),
        (change_layer(net_type="MESH"), "net-type"),
        (change_layer(net_type="CLOS"), "net-type"),
        (change_layer(net_instance_id=""), "empty"),
        (change_layer(rank_addr_list=[{}] * 25), "addr-count"),
        (change_address(addr_type="eid"), "addr-type"),
        (change_address(addr_type="EID"), "bad-addr"),
        (change_address(addr="172.16.0"), "bad-addr"),
        (change_address(ports=[]), "addr-ports"),
        (change_address(ports="0/1"), "addr-ports"),
        (change_address(plane_id=0), "type"),
        (lambda document: document["rank_list"][0].update(device_port=0), "port-range"),
        (lambda document: document["rank_list"][0].pop("level_list"), "missing-level-list"),
    ],
)
def test_a_flaw_of_a_2_0_layer_is_told(change: Callable[[Document], Any], code: str) -> None:
    document = v2((0, 0, 0))
    change(document)
    assert code in [found[1] for found in told(document)]


def test_an_eid_is_32_hex_digits() -> None:
    document = v2((0, 0, 0))
    change_address(addr_type="EID", addr="000000000000002000100000dfdf1234")(document)
    assert told(document) == []


def test_devices_need_no_address_inside_one_super_pod_but_between_two() -> None:
    servers = [Server(name, (Device(rank, 0, None, str(rank)),)) for rank, name in enumerate("ab")]
    one = json.loads(from_servers(servers, "1.2", [SuperPod("0", ("a", "b"))]))
    two = json.loads(from_servers(servers, "1.2", [SuperPod("0", ("a",)), SuperPod("1", ("b",))]))
    assert told(one) == []
    assert [found[1] for found in told(two)] == ["no-device-ip", "no-device-ip"]


@pytest.mark.parametrize(
    ("chip", "document", "codes"),
    [
        ("A5", cluster_v1("a"), ["version-vs-chip"]),
        ("Ascend 950", cluster_v1("a"), ["version-vs-chip"]),
        ("910", cluster_v1("a"), []),
        ("A2", v2((0, 0, 0)), ["version-vs-chip"]),
        ("950", v2((0, 0, 0)), []),
    ],
)
def test_the_version_must_fit_the_chip(chip: str, document: Document, codes: List[str]) -> None:
    assert [found[1] for found in told(document, chip=chip)] == codes


def test_a_pod_that_is_asked_for_must_be_listed() -> None:
    document = group_list(group(pod("x-0", "a", "0"), pod("x-1", "b", "0")))
    assert told(document, pod_name="x-1") == []
    assert told(document, pod_name="x-7") == [("error", "not-in-table", "group_list")]


def test_a_thousand_flaws_of_one_kind_are_told_as_a_few_and_a_number() -> None:
    document = cluster_v1(*map(str, range(20)), per_server=50)
    for entry in document["server_list"]:
        for fields in entry["device"]:
            fields["device_ip"] = "-.-.-.-"
    report = examine(json.dumps(document).encode(), "hccl.json")
    assert len(report.findings) == OF_A_KIND + 1
    assert "980 more" in report.findings[-1].message


def test_the_byte_order_mark_is_told_beside_the_rest() -> None:
    report = examine(b"\xef\xbb\xbf" + json.dumps(cluster_v1("a")).encode(), "hccl.json")
    assert (report.verdict, [finding.code for finding in report.findings]) == ("warning", ["bom"])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("10.0.0.1", 4),
        ("255.255.255.255", 4),
        ("1.2.3", None),
        ("1.2.3.4.5", None),
        ("1.2.3.4 ", None),
        ("01.2.3.4", None),
        ("", None),
        ("-1", None),
        ("::1", 6),
        ("fe80::1%eth0", 6),
        ("fd00::1::2", None),
        ("10.0.0.١", None),
    ],
)
def test_addresses_are_told_from_other_text(address: str, expected: object) -> None:
    assert family(address) == expected
