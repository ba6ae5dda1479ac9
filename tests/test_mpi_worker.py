"""The shim's orders, who a rank is, and the variables of its worker."""

from __future__ import annotations

import string

import pytest

from davincirun.errors import PlatformError
from davincirun.mpi.payload import Orders, decode, encode
from davincirun.mpi.worker import Rank, environment, node_index, rank_of, worker_changes

ORDERS = Orders(
    argv=("python", "train.py"),
    cwd="/work",
    log_dir="/tmp/log",
    job_id="job-1",
    run_id="cookie",
    grace_seconds=15.0,
    hosts=("node0", "node1"),
    master_addr="node0",
    master_port=29500,
    has_own_gpu=False,
    prefix=False,
    colour=False,
    terminal=False,
)
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
RANK = Rank(3, 4, 1, 2)


def worker(base: "dict[str, str]", orders: Orders = ORDERS) -> "dict[str, str]":
    return environment(worker_changes(RANK, 1, orders, "node1", 8, base), base)


@pytest.mark.parametrize(
    "argv",
    [
        (":", "--", "--map-by", "x", "--bind-to", "y", ""),
        ("\udcff\udc80", "\n", "'\"$(x)`", "日本"),
        tuple(f"--argument-{number}" for number in range(5000)),
        ("x" * 120000, "y" * 120000),
    ],
    ids=["mpirun's own", "odd bytes", "many", "long"],
)
def test_orders_arrive_as_they_were_whatever_the_arguments(argv: "tuple[str, ...]") -> None:
    words = encode(ORDERS._replace(argv=argv))
    assert decode(words).argv == argv
    assert set("".join(words)) <= set(string.ascii_letters + string.digits + "+/=")
    assert max(map(len, words)) < 128 * 1024


@pytest.mark.parametrize("words", [[], ["x"], ["eJw="], ["eJw:"]])
def test_other_words_are_no_orders(words: "list[str]") -> None:
    with pytest.raises(ValueError):
        decode(words)


def test_open_mpi_says_who_a_rank_is() -> None:
    assert rank_of(OPEN_MPI) == RANK
    with pytest.raises(PlatformError, match="OMPI_COMM_WORLD_SIZE"):
        rank_of({"OMPI_COMM_WORLD_RANK": "0"})


@pytest.mark.parametrize(
    "names, expected", [(("node1",), 1), (("x", "10.0.0.2"), 1), (("elsewhere",), 1)], ids=["name", "address", "slots"]
)
def test_the_node_is_told_by_its_names_else_by_the_slots(names: "tuple[str, ...]", expected: int) -> None:
    hosts = ("node0", "10.0.0.2") if "10.0.0.2" in names else ("node0", "node1.lab")
    assert node_index(hosts, names, RANK) == expected


def test_a_worker_has_the_variables_of_every_framework() -> None:
    found = worker(OPEN_MPI)
    expected = {
        "RANK_ID": "3",
        "RANK_SIZE": "4",
        "DEVICE_ID": "1",
        "RANK": "3",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "MASTER_ADDR": "node0",
        "MASTER_PORT": "29500",
        "JOB_ID": "job-1",
        "MS_WORKER_NUM": "4",
        "OMP_NUM_THREADS": "4",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert OPEN_MPI.items() <= found.items()


def test_a_worker_has_nothing_of_ascends_and_not_the_key() -> None:
    base = {
        **OPEN_MPI,
        "DAVINCIRUN_HUB": "1 a",
        "DAVINCIRUN_HUB_KEY": "k",
        "RANK_TABLE_FILE": "/t",
        "MS_ROLE": "MS_WORKER",
    }
    found = worker(base)
    assert not [
        name for name in found if name.startswith(("ASCEND", "HCCL", "DAVINCIRUN_HUB", "RANK_TABLE", "MS_ROLE"))
    ]


def test_the_users_address_stands() -> None:
    assert worker({**OPEN_MPI, "MASTER_ADDR": "mine", "MASTER_PORT": "1"})["MASTER_ADDR"] == "mine"


@pytest.mark.parametrize("visible, expected", [("", "1"), ("4,7", "7"), ("MIG-a,MIG-b", "MIG-b")])
def test_each_rank_sees_its_own_gpu_only_when_that_is_asked_for(visible: str, expected: str) -> None:
    base = {**OPEN_MPI, **({"CUDA_VISIBLE_DEVICES": visible} if visible else {})}
    assert worker(base).get("CUDA_VISIBLE_DEVICES", "") == visible
    assert worker(base, ORDERS._replace(has_own_gpu=True))["CUDA_VISIBLE_DEVICES"] == expected
