"""Which entry of the rank table this launcher is."""

from __future__ import annotations

from typing import Dict, Sequence

import pytest

from davincirun.cluster import Cluster, Device, Pod, Server
from davincirun.errors import IdentityError
from davincirun.identity import Host, find_me

NOWHERE = Host((), ("somewhere-else",))


def cluster(*server_ids: str, addresses: Sequence[str] = (), cards: int = 2, names_servers: bool = True) -> Cluster:
    """A server of two cards for each id; `addresses`, one per server, is what else it is called."""
    servers = []
    for index, server_id in enumerate(server_ids):
        devices = tuple(Device(index * cards + card, card) for card in range(cards))
        servers.append(Server(server_id, devices, tuple(addresses[index : index + 1])))
    return Cluster.of(servers, names_servers=names_servers)


def never_asked() -> Host:
    raise AssertionError("this machine's addresses don't matter here")


def test_a_single_server_is_this_one_whatever_it_is_called() -> None:
    me = find_me(cluster("10.9.9.9"), {}, never_asked)
    assert (me.server_id, me.node_rank, me.node_count) == ("10.9.9.9", 0, 1)
    assert [device.rank for device in me.devices] == [0, 1]


def test_the_platform_names_the_server() -> None:
    me = find_me(cluster("10.0.0.1", "10.0.0.2"), {"MA_CURRENT_HOST_IP": "10.0.0.2"}, never_asked)
    assert (me.server_id, me.node_rank, me.node_count) == ("10.0.0.2", 1, 2)
    assert [device.rank for device in me.devices] == [2, 3]


@pytest.mark.parametrize(
    ("servers", "host"),
    [
        (cluster("10.0.0.1", "10.0.0.2"), Host(("10.0.0.2",), ("a",))),
        (cluster("10.0.0.1", "10.0.0.2"), Host(("192.168.0.1", "10.0.0.2"), ("a",))),
        (cluster("node-1", "node-2"), Host((), ("node-2",))),
        (cluster("node-1", "node-2"), Host((), ("node-2.cluster.local",))),
        (cluster("node-1.cluster.local", "node-2.cluster.local"), Host((), ("node-2",))),
        (cluster("uid-1", "uid-2", addresses=("10.0.0.1", "10.0.0.2")), Host(("10.0.0.2",), ("a",))),
        (cluster("fd00::1", "fd00::2"), Host(("fd00::2",), ("a",))),
    ],
    ids=["address", "one of several", "name", "name with domain", "table with domain", "second address", "IPv6"],
)
def test_the_machines_own_addresses_and_names_tell(servers: Cluster, host: Host) -> None:
    me = find_me(servers, {}, lambda: host)
    assert me.node_rank == 1


def test_the_machines_addresses_are_asked_when_the_platforms_word_is_not_in_the_table() -> None:
    me = find_me(cluster("10.0.0.1", "10.0.0.2"), {"MA_CURRENT_HOST_IP": "10.7.7.7"}, lambda: Host(("10.0.0.1",), ()))
    assert me.server_id == "10.0.0.1"


def test_nobody_is_never_the_first() -> None:
    with pytest.raises(
        IdentityError, match=r"no server of the rank table is this machine: 10.0.0.1, 10.0.0.2"
    ) as error:
        find_me(cluster("10.0.0.1", "10.0.0.2"), {}, lambda: NOWHERE)
    assert "set MA_CURRENT_HOST_IP" in str(error.value) and "somewhere-else" in str(error.value)


def test_several_candidates_are_listed() -> None:
    both = Host(("10.0.0.1", "10.0.0.2"), ())
    with pytest.raises(IdentityError, match=r"several servers of the rank table are this machine: 10.0.0.1, 10.0.0.2;"):
        find_me(cluster("10.0.0.1", "10.0.0.2", "10.0.0.3"), {}, lambda: both)


def test_a_long_list_is_cut() -> None:
    with pytest.raises(IdentityError, match=r"10.0.0.7 and 92 more"):
        find_me(cluster(*(f"10.0.0.{number}" for number in range(100))), {}, lambda: NOWHERE)


def test_nodes_are_ordered_by_their_lowest_rank() -> None:
    servers = [Server("b", (Device(2, 0), Device(3, 1))), Server("a", (Device(0, 0), Device(1, 1)))]
    me = find_me(Cluster.of(servers), {"MA_CURRENT_HOST_IP": "b"}, never_asked)
    assert me.node_rank == 1


# The group_list form: pods.


def pods(*names: str) -> Cluster:
    """Pods of one card each, all on one server."""
    devices = tuple(Device(rank, rank) for rank in range(len(names)))
    listed = [Pod(name, "10.0.0.1", (device,)) for name, device in zip(names, devices)]
    return Cluster.of([Server("10.0.0.1", devices)], listed)


@pytest.mark.parametrize("variable", ["BATCH_TASK_CURRENT_INSTANCE", "MA_CURRENT_INSTANCE_NAME"])
def test_a_pod_starts_its_own_cards_alone(variable: str) -> None:
    me = find_me(pods("job-0", "job-1"), {variable: "job-1"}, never_asked)
    assert [device.rank for device in me.devices] == [1]
    assert (me.node_rank, me.node_count) == (1, 2)


def test_the_first_generations_name_comes_before_the_seconds() -> None:
    environ = {"BATCH_TASK_CURRENT_INSTANCE": "job-0", "MA_CURRENT_INSTANCE_NAME": "job-1"}
    assert find_me(pods("job-0", "job-1"), environ, never_asked).node_rank == 0


def test_an_unknown_pod_is_an_error_that_lists_them() -> None:
    with pytest.raises(IdentityError, match=r"MA_CURRENT_INSTANCE_NAME is job-9, but .* no such pod: job-0, job-1"):
        find_me(pods("job-0", "job-1"), {"MA_CURRENT_INSTANCE_NAME": "job-9"}, never_asked)


@pytest.mark.parametrize("environ", [{}, {"MA_CURRENT_INSTANCE_NAME": ""}])
def test_without_a_name_the_platforms_rule_is_the_first_pod(environ: Dict[str, str]) -> None:
    assert find_me(pods("job-0", "job-1"), environ, never_asked).node_rank == 0


# Version 2.0, which names no servers.


@pytest.mark.parametrize("variable", ["VC_TASK_INDEX", "VK_TASK_INDEX"])
def test_the_scheduler_says_which_node_of_a_nameless_table(variable: str) -> None:
    nameless = cluster("0", "1", names_servers=False)
    assert find_me(nameless, {variable: "1"}, never_asked).node_rank == 1


@pytest.mark.parametrize("index", [None, "", "2", "-1", "x"])
def test_a_nameless_table_without_a_good_index_is_an_error(index: str) -> None:
    environ = {} if index is None else {"VC_TASK_INDEX": index}
    with pytest.raises(IdentityError, match=r"set VC_TASK_INDEX to this node's index, 0 to 1"):
        find_me(cluster("0", "1", names_servers=False), environ, never_asked)
