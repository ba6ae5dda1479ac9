"""What is decided when nodes meet, without any meeting: contributions, roll, agreement, messages, who has vanished."""

from __future__ import annotations

import json
from typing import Any, List, Optional, Tuple

import pytest

from davincirun.errors import UsageError
from davincirun.lifecycle import Exit, NodeFailed
from davincirun.platforms import Explicit, find_context
from davincirun.rendezvous import agreement as agreements
from davincirun.rendezvous import contribution as contributions
from davincirun.rendezvous.agreement import RendezvousError, combine, numeric_key
from davincirun.rendezvous.choice import choose
from davincirun.rendezvous.contribution import Card, Contribution
from davincirun.rendezvous.etcd import Etcd
from davincirun.rendezvous.members import Members
from davincirun.rendezvous.news import failure_from_json, failure_to_json
from davincirun.rendezvous.roll import Roll
from davincirun.rendezvous.wire import GREETING, Wire, WireError, hello, job_key


def node(rank: Optional[int], address: str = "", count: int = 3, **other: Any) -> Contribution:
    """A node with two cards."""
    index = rank if rank is not None else int(address.rpartition(".")[2])
    values = {
        "nonce": f"nonce-{rank}-{address}",
        "node_rank": rank,
        "node_count": count,
        "host": f"host{index}",
        "names": (address or f"10.0.0.{index + 1}", f"host{index}"),
        "cards": tuple(Card(card, f"10.9.{index}.{card}", None) for card in range(2)),
        "super_pod_id": None,
        "simulated": None,
        "version": "0.1.0",
        "command": "python train.py",
        "job_id": "job",
        "pid": 100 + index,
    }
    return Contribution(**{**values, **other})


def test_nodes_are_ordered_by_rank_whoever_comes_first() -> None:
    agreed = combine([node(2), node(0), node(1)])
    assert [one.host for one in agreed.nodes] == ["host0", "host1", "host2"]
    assert [one.first_rank for one in agreed.nodes] == [0, 2, 4]
    assert agreed.table == combine([node(1), node(2), node(0)]).table
    servers = json.loads(agreed.table.decode())["server_list"]
    assert [server["server_id"] for server in servers] == ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
    assert [device["rank_id"] for server in servers for device in server["device"]] == list("012345")


def test_without_ranks_nodes_are_ordered_by_server_id_as_numbers() -> None:
    agreed = combine([node(None, address) for address in ("10.0.0.10", "10.0.0.9", "10.0.0.100")])
    assert [one.server_id for one in agreed.nodes] == ["10.0.0.9", "10.0.0.10", "10.0.0.100"]


def test_names_sort_by_the_numbers_in_them() -> None:
    assert sorted(["node10", "node9", "a", "10.0.0.2"], key=numeric_key) == ["10.0.0.2", "a", "node9", "node10"]


def test_nodes_may_have_different_numbers_of_cards() -> None:
    small = node(1)
    agreed = combine([node(0), small._replace(cards=small.cards[:1]), node(2)])
    assert [(one.first_rank, one.card_count) for one in agreed.nodes] == [(0, 2), (2, 1), (3, 2)]


def test_an_address_that_several_machines_have_names_none_of_them() -> None:
    names = [("172.17.0.1", f"192.168.0.{rank + 1}") for rank in range(2)]
    agreed = combine([node(rank, names=names[rank], count=2) for rank in range(2)])
    assert [one.server_id for one in agreed.nodes] == ["192.168.0.1", "192.168.0.2"]


def test_simulated_nodes_may_share_a_machine() -> None:
    agreed = combine([node(rank, names=("10.0.0.1",), simulated="2", count=2) for rank in range(2)])
    assert [one.server_id for one in agreed.nodes] == ["10.0.0.1-node0", "10.0.0.1-node1"]
    devices = [device for server in json.loads(agreed.table.decode())["server_list"] for device in server["device"]]
    assert len({device["device_ip"] for device in devices}) == 4


def test_super_pods_make_a_table_of_version_1_2() -> None:
    def pod_node(rank: int, pod: str) -> Contribution:
        cards = tuple(Card(card, None, str(rank << 22 | card)) for card in range(2))
        return node(rank, cards=cards, super_pod_id=pod, count=2)

    table = json.loads(combine([pod_node(0, "7"), pod_node(1, "7")]).table.decode())
    assert table["version"] == "1.2"
    pods = [(pod["super_pod_id"], len(pod["server_list"])) for pod in table["super_pod_list"]]
    assert pods == [("7", 2)]
    with pytest.raises(RendezvousError, match="no network address"):
        combine([pod_node(0, "7"), pod_node(1, "8")])


def test_ascend_950_nodes_make_a_table_of_version_2_0() -> None:
    def node_950(rank: int) -> Contribution:
        cards = tuple(Card(card, f"::{rank}:{card}", None, f"{rank:016x}{card:016x}", "0/4,0/5") for card in range(2))
        return node(rank, cards=cards, count=2)

    agreed = combine([node_950(0), node_950(1)])
    table = json.loads(agreed.table.decode())
    assert (table["version"], table["rank_count"]) == ("2.0", 4)
    assert [rank["device_id"] for rank in table["rank_list"]] == [0, 1, 0, 1]
    [layer] = table["rank_list"][3]["level_list"]
    assert layer["net_instance_id"] == agreed.nodes[1].server_id
    assert layer["rank_addr_list"][0]["ports"] == ["0/4", "0/5"]


@pytest.mark.parametrize(
    ("contributions_", "shown"),
    [
        ([node(0), node(1, version="0.2.0")], ("node 0 (host0)", "0.1.0", "node 1 (host1)", "0.2.0")),
        ([node(0), node(1, simulated="2")], ("--simulate",)),
        ([node(0), node(None, "10.0.0.2")], ("host0", "host2", "--node-rank")),
        ([node(0), node(1, names=("10.0.0.1",))], ("one machine",)),
        ([node(0), node(1, cards=(Card(4, None, None),))], ("card 4", "hccn_tool -i 4")),
        ([node(0), node(1, cards=node(0).cards)], ("10.9.0.0", "host0", "host1")),
    ],
)
def test_nodes_that_do_not_go_together_are_named(contributions_: List[Contribution], shown: Tuple[str, ...]) -> None:
    if "one machine" in shown:
        contributions_ = [one._replace(names=("10.0.0.1",)) for one in contributions_]
    with pytest.raises(RendezvousError) as error:
        combine(contributions_)
    assert all(text in str(error.value) for text in shown), str(error.value)


def test_different_commands_are_noticed() -> None:
    (note,) = combine([node(0), node(1, command="python other.py"), node(2)]).notes
    assert "python train.py" in note and "node 1 (host1) python other.py" in note


def test_an_agreement_survives_the_way() -> None:
    agreed = combine([node(0), node(1), node(2)])
    assert agreements.loads(agreements.dumps(agreed)) == agreed
    assert agreed.rank_of(node(1).nonce) == 1
    assert agreed.rank_of("somebody") is None


def test_a_contribution_survives_the_way() -> None:
    assert contributions.loads(contributions.dumps(node(1))) == node(1)


@pytest.mark.parametrize(
    "change",
    [
        {"nonce": 7},
        {"node_count": -1},
        {"node_rank": True},
        {"host": "h" * 300},
        {"names": []},
        {"cards": []},
        {"cards": [[0, 1, 2]]},
        {"cards": [[0, None, None]] * 2000},
        {"more": 1},
    ],
)
def test_what_is_no_contribution_is_refused(change: Any) -> None:
    with pytest.raises(ValueError):
        contributions.from_json({**contributions.to_json(node(1)), **change})


def test_the_roll_knows_who_is_missing() -> None:
    roll = Roll(4, ("a", "b", "c", "d"))
    assert roll.add(node(0, count=4)) is None
    assert roll.add(node(2, count=4)) is None
    assert roll.missing() == "node 1 (b), node 3 (d)"
    assert not roll.is_complete


def test_without_ranks_the_roll_names_missing_hosts_or_counts_them() -> None:
    roll = Roll(3, ("host9.domain", "host10", "host11"))
    roll.add(node(None, "10.0.0.9"))
    assert roll.missing() == "host10, host11"
    roll = Roll(3, ())
    roll.add(node(None, "10.0.0.9"))
    assert roll.missing() == "2 of 3 nodes (there are: host9)"


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (node(1, nonce="another"), "node 1 (host1) has come already (pid 101 on host1)"),
        (node(2, count=4), "told of 4 nodes, this job has 2"),
        (node(5, count=2), "can't be in a job of 2 nodes"),
        (node(None, "10.0.0.7", count=2), "the job has its 2 nodes already"),
    ],
)
def test_the_roll_refuses_with_a_reason(one: Contribution, reason: str) -> None:
    roll = Roll(2, ())
    roll.add(node(0, count=2))
    roll.add(node(1, count=2))
    assert reason in str(roll.add(one if one.nonce != "another" else one._replace(node_count=2)))
    assert roll.is_complete


def test_a_node_that_has_left_may_be_replaced() -> None:
    roll = Roll(2, ())
    roll.add(node(1, count=2))
    roll.remove(node(1, count=2).nonce)
    assert roll.add(node(1, count=2, nonce="restarted")) is None


def pair(their_key: bytes = job_key("job")) -> Tuple[Wire, Wire]:
    ours, theirs = hello(), hello()
    return Wire(job_key("job"), ours, theirs, is_meeting=False), Wire(their_key, ours, theirs, is_meeting=True)


def test_messages_arrive_whole_however_they_are_cut() -> None:
    sender, receiver = pair()
    data = sender.pack({"join": "é" * 100}) + sender.pack({"done": True})
    got = [value for index in range(len(data)) for value in receiver.feed(data[index : index + 1])]
    assert got == [{"join": "é" * 100}, {"done": True}]


def test_a_message_without_the_key_is_foreign() -> None:
    sender, receiver = pair(job_key("another job"))
    with pytest.raises(WireError) as error:
        list(receiver.feed(sender.pack({"join": 1})))
    assert error.value.is_foreign


@pytest.mark.parametrize("what", ["changed", "repeated", "swapped", "returned"])
def test_a_tampered_stream_is_refused(what: str) -> None:
    sender, receiver = pair()
    first, second = sender.pack({"a": 1}), sender.pack({"b": 2})
    data = {
        "changed": first[:-2] + b"9}",
        "repeated": first + first,
        "swapped": second + first,
        "returned": receiver.pack({"c": 3}),
    }[what]
    with pytest.raises(WireError):
        list(receiver.feed(data))


def test_no_more_is_buffered_than_a_node_may_say() -> None:
    _, receiver = pair()
    with pytest.raises(WireError, match="bytes"):
        list(receiver.feed(b"\xff\xff\xff\xff" + bytes(32)))


def test_somebody_else_s_greeting_is_foreign() -> None:
    with pytest.raises(WireError):
        Wire(job_key("job"), hello(), b"SSH-2.0-OpenSSH_9.2\r\n...", is_meeting=False)
    assert len(hello()) == len(GREETING) + 16


def test_a_failure_survives_the_way() -> None:
    for failure in (
        NodeFailed(3, "atlas", 139, 17, Exit(None, 11, True), 7440.0),
        NodeFailed(1, "atlas", 143, problem="stopped by SIGTERM"),
    ):
        assert failure_from_json(json.loads(json.dumps(failure_to_json(failure)))) == failure
    with pytest.raises(ValueError):
        failure_from_json({"node_rank": 1})


class Clock:
    """Time that passes when told to."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("is_strict", "is_silent", "seconds", "given_up", "is_failure"),
    [
        (True, False, 2.0, False, False),  # a closed connection may be made anew
        (True, False, 4.0, True, True),
        (True, True, 0.0, True, True),  # the kernel has waited already
        (False, False, 4.0, False, False),
        (False, False, 16.0, True, True),
        (False, True, 0.0, True, False),  # only said
    ],
)
def test_a_node_is_given_up_when_its_time_is_over(
    is_strict: bool, is_silent: bool, seconds: float, given_up: bool, is_failure: bool
) -> None:
    clock = Clock()
    members = Members(15.0, is_strict, clock)
    member = members.join(node(2), None)
    assert members.pause_seconds() is None
    members.lost(member, is_silent)
    clock.seconds += seconds
    gone = members.given_up()
    assert bool(gone) == given_up
    assert [one.is_failure for one in gone] == [is_failure] * given_up
    assert members.given_up() == []
    if gone:
        assert "host2" in gone[0].failure().host and "vanished" in gone[0].failure().problem


def test_a_node_that_is_done_may_go() -> None:
    members = Members(15.0, True, Clock())
    member = members.join(node(2), None)
    members.done(member)
    members.lost(member, False)
    assert members.expected() == [] and members.pause_seconds() is None


def test_the_node_that_went_first_without_a_word_is_known() -> None:
    clock = Clock()
    members = Members(15.0, True, clock)
    assert members.first_lost() is None
    for rank in (2, 1):
        clock.seconds += 1
        members.lost(members.join(node(rank), None), False)
    lost = members.first_lost()
    assert lost is not None and lost.node_rank == 2 and lost.is_failure


SOMEWHERE = find_context({}, Explicit(2, 0))
WITH_HOSTS = find_context({}, Explicit(None, 0, ("alpha", "beta")))


@pytest.mark.parametrize(
    ("option", "kind", "hosts", "ports"),
    [
        ("/shared/jobs", "directory", (), ()),
        ("file:///shared/jobs", "directory", (), ()),
        ("tcp://alpha:1234", "tcp", ("alpha",), (1234,)),
        ("tcp://[fd00::2]:1234", "tcp", ("fd00::2",), (1234,)),
        ("etcd://a,b:1", "etcd", ("a", "b"), (2379, 1)),
        ("etcds://a", "etcd", ("a",), (2379,)),
        ("mpi", "mpi", (), ()),
    ],
)
def test_the_option_says_where_nodes_meet(
    option: str, kind: str, hosts: Tuple[str, ...], ports: Tuple[int, ...]
) -> None:
    chosen = choose(option, SOMEWHERE, "run")
    assert (chosen.kind, chosen.hosts, chosen.ports) == (kind, hosts, ports)


def test_without_the_option_nodes_meet_at_node_0_at_a_port_of_the_run() -> None:
    chosen = choose(None, WITH_HOSTS, "run")
    assert (chosen.kind, chosen.hosts) == ("tcp", ("alpha",))
    assert chosen.ports == choose(None, WITH_HOSTS, "run").ports != choose(None, WITH_HOSTS, "other").ports
    assert all(17000 <= port < 20000 for port in chosen.ports)


def test_without_its_client_there_is_no_meeting_at_etcd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("davincirun.rendezvous.etcd.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install etcd3gw"):
        Etcd([("a", 2379)], "run", is_tls=False, silence_seconds=15)


@pytest.mark.parametrize("option", [None, "shared", "tcp://", "tcp://a:b", "etcd://a/b", "zk://a", "tcp://u:p@a:1"])
def test_what_says_nowhere_is_refused(option: Optional[str]) -> None:
    with pytest.raises(UsageError, match="--rendezvous"):
        choose(option, SOMEWHERE, "run")
