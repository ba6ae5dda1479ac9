"""The command line of mpirun: every variable honoured, the same on all versions."""

from __future__ import annotations

import os
import shlex

import pytest

from davincirun.errors import PlatformError
from davincirun.mpi.command import Command, Request, as_shell, mpirun_command, read_version

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "mpi")
ENVIRON = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "MA_JOB_DIR": "/home/ma-user/user-job-dir",
    "AWS_SECRET_ACCESS_KEY": "a secret; with 'quotes'\nand lines",
    "S3_ENDPOINT": "obs.example.com",
    "VC_WORKER_HOSTS": "node0,node1,node2",
    "SCC_EMPTY": "",
    "HOME": "/root",
}


def command(environ: "dict[str, str] | None" = None, **changes: object) -> Command:
    request = Request(
        mpirun="mpirun",
        version=read_version("mpirun (Open MPI) 5.0.8"),
        ranks=24,
        hosts=("node0", "node1", "node2"),
        host_file_path="/tmp/log/job/mpi/hostfile",
        port=2222,
        tune_path=None,
        shim=("python", "SHIM", "ORDERS"),
        shim_variables=("DAVINCIRUN_HUB", "DAVINCIRUN_HUB_KEY"),
        visible_devices=None,
        is_root=True,
    )
    return mpirun_command(request._replace(**changes), ENVIRON if environ is None else environ)


def line(**environ: str) -> str:
    return " ".join(map(shlex.quote, command({**ENVIRON, **environ}).argv))


@pytest.mark.parametrize("version", ["4.1.4", "4.1.8", "5.0.8", "5.0.11"])
def test_the_defaults_are_the_platforms_in_the_canonical_form(version: str) -> None:
    with open(os.path.join(DATA, f"mpirun_{version}.txt"), encoding="utf-8") as file:
        version_text, expected = file.read().split("\n---\n")
    made = command(version=read_version(version_text))
    assert [*(f"{name}={value}" for name, value in sorted(made.changes.items())), *made.argv] == expected.splitlines()


def test_no_value_of_a_broadcast_variable_is_on_the_line() -> None:
    made = command()
    assert "secret" not in " ".join((*made.argv, *made.changes.values()))
    assert "-x AWS_SECRET_ACCESS_KEY" in " ".join(made.argv)
    assert "SCC_EMPTY" not in made.argv and "HOME" not in made.argv


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("OPENMPI_BIND_ARGS", "-bind-to socket -map-by numa", "--bind-to socket --map-by numa"),
        ("OPENMPI_X_ARGS", "-x HOME", "-x HOME --mca pml"),
        ("OPENMPI_MCA_ARGS", "-mca pml ucx", "--map-by slot -x HOROVOD_MPI_THREADS_DISABLE -x NCCL_DEBUG"),
        ("OPENMPI_MCA_ARGS", "-mca pml ucx", "-x NCCL_IB_DISABLE --mca pml ucx --mca oob_tcp_keepalive_time"),
        ("OPENMPI_EXTRA_ARGS", "-tag-output", "plm_rsh_no_tree_spawn true --tag-output"),
        ("OPENMPI_X_ARGS", "", "--map-by slot --mca pml ob1"),
        ("OPENMPI_EXTRA_ARGS", "--bind-to core", "--map-by slot -x"),
    ],
)
def test_each_variable_takes_the_place_of_its_default(name: str, value: str, expected: str) -> None:
    assert expected in line(**{name: value})


def test_an_option_in_the_extra_arguments_replaces_the_default_one() -> None:
    made = line(OPENMPI_EXTRA_ARGS="--bind-to core")
    assert made.count("--bind-to") == 1 and "--bind-to core" in made


def test_keep_alives_are_the_users_where_he_sets_them() -> None:
    made = line(
        OPENMPI_EXTRA_ARGS="--mca oob_tcp_keepalive_time 60 --mca plm_rsh_args '-o ServerAliveInterval=60 -p 99'",
        OMPI_MCA_oob_tcp_keepalive_intvl="9",
    )
    assert made.count("oob_tcp_keepalive_time") == 1 and "oob_tcp_keepalive_time 60" in made
    assert "oob_tcp_keepalive_intvl" not in made
    assert "'-o ServerAliveCountMax=3 -o ServerAliveInterval=60 -p 99'" in made


def test_ssh_gets_no_equals_sign_where_nodes_start_nodes() -> None:
    """Open MPI 5 cuts the value at the first one when it hands it on."""
    assert "plm_rsh_args '-p 2222' " in line(OPENMPI_MCA_ARGS="-mca pml ob1")


def test_raw_passes_the_variables_on_as_they_are() -> None:
    made = line(OPENMPI_RAW="1", OPENMPI_BIND_ARGS="-bind-to none", OPENMPI_EXTRA_ARGS="-x A=b -novm")
    assert " -bind-to none " in made and " -x A=b -novm " in made
    assert "keepalive" not in made


def test_only_root_is_allowed_to_be_root() -> None:
    assert command().changes["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert not [name for name in command(is_root=False).changes if "ROOT" in name]


def test_names_with_dots_are_kept_whole() -> None:
    assert "OMPI_MCA_orte_keep_fqdn_hostnames" in command(hosts=("job-worker-0.job", "job-worker-1.job")).changes
    assert "OMPI_MCA_orte_keep_fqdn_hostnames" not in command(hosts=("10.0.0.1", "fd00::1.2.3.4")).changes


def test_ipv6_hosts_take_an_extra_on_open_mpi_4_alone() -> None:
    hosts = ("fd00::1", "fd00::2")
    old, new = (read_version(f"mpirun (Open MPI) {text}") for text in ("4.1.8", "5.0.8"))
    assert "regx" in command(hosts=hosts, version=old).argv
    assert "regx" not in command(hosts=hosts, version=new).argv and "regx" not in command(version=old).argv


def test_chosen_gpus_are_visible_to_all_ranks() -> None:
    made = command(visible_devices="0,3")
    assert made.changes["CUDA_VISIBLE_DEVICES"] == "0,3" and "CUDA_VISIBLE_DEVICES" in made.argv


def test_a_users_own_tune_file_is_passed() -> None:
    assert "--tune" in command(tune_path="/tmp/mine").argv and "--tune" not in command().argv


def test_the_line_for_a_shell_hides_secrets() -> None:
    text = as_shell(Command(("mpirun", "a b"), {"TOKEN": "xyz", "B": "1 2"}, ()), ["TOKEN"])
    assert text == "env 'B=1 2' 'TOKEN=(secret)' mpirun 'a b'"


@pytest.mark.parametrize(
    "text, numbers",
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/", (4, 1, 4)),
        ("mpirun (Open MPI) 4.1.7a1\n", (4, 1, 7)),
        ("mpirun.real (OpenRTE) 4.1.2\n", (4, 1, 2)),
        ("mpirun (Open MPI) 5.0.11\n", (5, 0, 11)),
    ],
)
def test_the_version_is_read(text: str, numbers: "tuple[int, ...]") -> None:
    assert read_version(text).numbers == numbers


@pytest.mark.parametrize(
    "text",
    ["HYDRA build details:\n    Version: 4.2", "Intel(R) MPI Library for Linux* OS", "", "mpirun (Open MPI) 3.1.6"],
)
def test_another_or_too_old_an_mpi_is_refused(text: str) -> None:
    with pytest.raises(PlatformError, match="Open MPI"):
        read_version(text)
