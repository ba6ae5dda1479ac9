"""Options of mpirun in the spelling that Open MPI 4.1 and 5.0 both take."""

from __future__ import annotations

import pytest

from davincirun.errors import UsageError
from davincirun.mpi.arguments import parameters, rewritten, untouched, without_repeats


def words(text: str, **environ: str) -> list[str]:
    return [word for group in rewritten("OPENMPI_EXTRA_ARGS", text, environ).groups for word in group]


@pytest.mark.parametrize(
    "given, expected",
    [
        ("-bind-to none -map-by slot", "--bind-to none --map-by slot"),
        ("-mca pml ob1 -mca btl ^openib", "--mca pml ob1 --mca btl ^openib"),
        ("--map-by=slot --bind-to=core", "--map-by slot --bind-to core"),
        ("-np 4 -n 4 -c 4 -H a,b -N 2 -v -x HOME", "-np 4 -n 4 -c 4 -H a,b -N 2 -v -x HOME"),
        ("-hostfile F -machinefile F -rf R -wd D", "--hostfile F --machinefile F --rankfile R --wdir D"),
        ("-tag-output -report-bindings -oversubscribe", "--tag-output --report-bindings --oversubscribe"),
        ("-q -novm -display-map", "--display-map"),
        ("--mca btl_tcp_if_include eth0", "--mca btl_tcp_if_include eth0"),
        ("--unknown=1 word", "--unknown=1 word"),
        ("", ""),
    ],
)
def test_options_get_two_dashes_and_two_words(given: str, expected: str) -> None:
    assert words(given, HOME="/root") == expected.split()


def test_a_value_that_looks_like_an_option_is_a_value() -> None:
    assert words('-mca plm_rsh_args "-p 22 -q"') == ["--mca", "plm_rsh_args", "-p 22 -q"]


def test_a_value_given_to_x_travels_in_the_environment() -> None:
    part = rewritten("OPENMPI_X_ARGS", "-x NCCL_DEBUG=INFO -x 'NAME=a b=c'", {})
    assert part.groups == (("-x", "NCCL_DEBUG"), ("-x", "NAME"))
    assert part.variables == {"NCCL_DEBUG": "INFO", "NAME": "a b=c"}


@pytest.mark.parametrize("name", ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMPI_MCA_btl", "PMIX_MCA_x"])
def test_a_value_that_would_change_mpirun_itself_stays_on_the_line(name: str) -> None:
    part = rewritten("OPENMPI_X_ARGS", f"-x {name}=/other", {})
    assert (part.groups, part.variables) == ((("-x", f"{name}=/other"),), {})


def test_an_unset_name_is_left_out_and_said() -> None:
    part = rewritten("OPENMPI_X_ARGS", "-x MISSING -x HOME", {"HOME": "/root"})
    assert part.groups == (("-x", "HOME"),)
    assert "MISSING" in part.notes[0]


def test_each_change_is_said_with_its_reason() -> None:
    notes = rewritten("OPENMPI_BIND_ARGS", "-bind-to none --map-by slot -novm", {}).notes
    assert len(notes) == 2
    assert "-bind-to none became --bind-to none" in notes[0] and "-novm" in notes[1]


def test_an_open_quote_is_the_users_error() -> None:
    with pytest.raises(UsageError, match="OPENMPI_X_ARGS"):
        rewritten("OPENMPI_X_ARGS", "-x 'A", {})


def test_the_opt_out_changes_nothing() -> None:
    assert untouched("OPENMPI_EXTRA_ARGS", "-bind-to none -x A='b c'").groups == (
        ("-bind-to",),
        ("none",),
        ("-x",),
        ("A=b c",),
    )


def test_of_options_that_exclude_each_other_the_last_counts() -> None:
    groups = [
        ("--bind-to", "none"),
        ("-x", "A"),
        ("--mca", "btl", "tcp"),
        ("-n", "2"),
        ("-x", "A"),
        ("--bind-to", "core"),
    ]
    kept, notes = without_repeats([*groups, ("--mca", "btl", "self"), ("-np", "4")])
    assert kept == (("-x", "A"), ("--bind-to", "core"), ("--mca", "btl", "self"), ("-np", "4"))
    assert len(notes) == 3
    assert parameters(kept) == {"btl": "self"}
