"""Which nodes a job has, how a host file names them, and which of them this machine is."""

from __future__ import annotations

import pytest

from davincirun.errors import IdentityError, PlatformError, UsageError
from davincirun.identity import Host
from davincirun.mpi.hosts import Node, Nodes, find_nodes, host_file_text, place, read_host_file, renamed

HERE = Host(("10.0.0.2", "fd00::2"), ("node1",))


def nodes(*hosts: str) -> Nodes:
    return Nodes(tuple(map(Node, hosts)), 22, "--hosts")


@pytest.mark.parametrize(
    "text, hosts, port",
    [
        ("node0,node1", ("node0", "node1"), 22),
        ("node0:2222,node1:2222", ("node0", "node1"), 2222),
        ("node0:2222,node1", ("node0", "node1"), 2222),
        ("10.0.0.1 10.0.0.2", ("10.0.0.1", "10.0.0.2"), 22),
        ("[fd00::1]:2222,[fd00::2]:2222", ("fd00::1", "fd00::2"), 2222),
        ("fd00::1,fd00::2", ("fd00::1", "fd00::2"), 22),
        ("job-worker-0.job,job-worker-1.job", ("job-worker-0.job", "job-worker-1.job"), 22),
    ],
)
def test_a_list_names_hosts_and_one_port(text: str, hosts: "tuple[str, ...]", port: int) -> None:
    found = find_nodes(text, {}, None)
    assert (found.hosts, found.port) == (hosts, port)


@pytest.mark.parametrize("text", [" , ", "a:1,b:2", "a,a", "a:b:c:zz", "a:0", "a:70000"])
def test_a_list_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--hosts"):
        find_nodes(text, {}, None)


def test_the_platforms_variables_name_the_nodes() -> None:
    environ = {"VC_WORKER_HOSTS": "a,b", "MA_NUM_HOSTS": "2", "SSHD_PORT": "2222"}
    assert find_nodes(None, environ, None) == Nodes((Node("a"), Node("b")), 2222, "VC_WORKER_HOSTS")


def test_pods_are_named_as_the_platform_does_where_only_their_number_is_known() -> None:
    environ = {"MA_NUM_HOSTS": "2", "MA_VJ_NAME": "ma-job-7"}
    assert find_nodes(None, environ, None).hosts == ("ma-job-7-worker-0.ma-job-7", "ma-job-7-worker-1.ma-job-7")


@pytest.mark.parametrize(
    "environ", [{"VC_WORKER_HOSTS": "a,b", "MA_NUM_HOSTS": "3"}, {"MA_NUM_HOSTS": "2"}], ids=["disagree", "no names"]
)
def test_what_the_platform_leaves_unclear_is_an_error(environ: "dict[str, str]") -> None:
    with pytest.raises(PlatformError, match="MA_NUM_HOSTS"):
        find_nodes(None, environ, None)


def test_without_any_name_it_is_this_machine_alone() -> None:
    assert find_nodes(None, {"MA_NUM_HOSTS": "1"}, None).hosts == ("localhost",)


def test_a_host_file_is_read_as_open_mpi_reads_it() -> None:
    text = (
        "# nodes\nnode0 slots=4 max_slots=8\nme@node1 slots = 2 # two\nnode2\nnode3:3\nfd00::5 slots=1\nnode1 slots=1\n"
    )
    assert read_host_file(text) == (
        Node("node0", 4),
        Node("node1", 3),
        Node("node2", None),
        Node("node3", 3),
        Node("fd00::5", 1),
    )


def test_one_node_of_a_host_file_can_go_by_another_name() -> None:
    text = "# a.lab first\na.lab slots=2 # mine\n me@a.lab:2\na.lab.b slots=2\nb.a.lab\na.lab\n"
    assert renamed(text, "a.lab", "a") == "# a.lab first\na slots=2 # mine\n me@a:2\na.lab.b slots=2\nb.a.lab\na\n"


def test_a_host_file_gives_each_node_its_cards() -> None:
    assert (
        host_file_text([Node("node0"), Node("fd00::2"), Node("c", 2)], 8)
        == "node0 slots=8\nfd00::2 slots=8\nc slots=2\n"
    )


@pytest.mark.parametrize("variable", ["MA_TASK_INDEX", "VC_TASK_INDEX", "VK_TASK_INDEX"])
def test_the_platform_says_which_node_we_are(variable: str) -> None:
    found = place(nodes("a", "b", "c"), {variable: "2"}, lambda: HERE)
    assert (found.node_rank, found.is_told) == (2, True)


def test_the_option_comes_before_the_platform() -> None:
    found = place(nodes("a", "b", "c"), {"VC_TASK_INDEX": "2"}, lambda: HERE, 1)
    assert (found.node_rank, found.reason) == (1, "--node-rank is 1")


@pytest.mark.parametrize("name", ["node1", "node1.example.com", "10.0.0.2", "fd00::2"])
def test_else_our_own_names_and_addresses_say_it(name: str) -> None:
    found = place(nodes("node0", name), {}, lambda: HERE)
    assert (found.node_rank, found.is_told) == (1, False)


@pytest.mark.parametrize("hosts", [("a", "b"), ("node1", "10.0.0.2")], ids=["none", "two"])
def test_not_exactly_one_of_the_nodes_being_us_is_an_error_that_lists_them(hosts: "tuple[str, ...]") -> None:
    with pytest.raises(IdentityError, match=", ".join(hosts)):
        place(nodes(*hosts), {}, lambda: HERE)


def test_an_index_beyond_the_nodes_is_an_error() -> None:
    with pytest.raises(IdentityError, match="VC_TASK_INDEX is 2"):
        place(nodes("a", "b"), {"VC_TASK_INDEX": "2"}, lambda: HERE)


def test_a_single_node_is_node_0_whatever_its_index() -> None:
    assert place(nodes("localhost"), {"VC_TASK_INDEX": "3"}, lambda: HERE).node_rank == 0
