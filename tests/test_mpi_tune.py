"""TUNE_ENV_FILE: what is broadcast, what is written, and whose file it is."""

from __future__ import annotations

import pytest

from davincirun.mpi.tune import broadcast_names, doubts, is_users, tune_text

ENVIRON = {"MA_A": "1", "AWS_B": "2 3", "S3_C": "4", "PATH": "/bin", "VC_WORKER_HOSTS": "a", "SCC": "s", "CREDS": "c"}


def test_variables_are_chosen_by_how_their_names_begin() -> None:
    others = {"HOME": "/", "XMA_A": "1", "MA_EMPTY": "", "LD_LIBRARY_PATH": "/lib", "VC_TASK_INDEX": "0"}
    assert broadcast_names({**ENVIRON, **others}) == sorted(ENVIRON)


def test_the_file_is_as_the_platforms_own_scripts_make_it() -> None:
    assert tune_text({"PATH": "/bin", "MA_A": "1 2"}) == "MA_A=1 2\nPATH=/bin\n"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("MA_A=1\nPATH=/bin\n", False),
        ("MA_A=1\nsecond line of a value\n", False),
        ("", False),
        ("-x MA_A=1\n", True),
        ("--mca btl tcp\n", True),
        ("-mca btl tcp\nMA_A=1\n", True),
        ("btl = tcp\n", True),
        ("# mine\nbtl=tcp\n", True),
    ],
)
def test_a_file_with_lines_that_no_platform_writes_is_the_users(text: str, expected: bool) -> None:
    assert is_users(text) is expected


@pytest.mark.parametrize(
    "text, problem",
    [
        ("-x A=b c\n", "blank"),
        ("-x A=b;c\n", "semicolon"),
        ("-x A=\n", "empty"),
        ("-x A=" + "b" * 3000 + "\n", "longer"),
        ("-x A=b", "newline"),
    ],
)
def test_what_open_mpi_would_spoil_is_said_with_its_line(text: str, problem: str) -> None:
    assert [problem in said and "/f: line 1" in said for said in doubts(text, "/f")] == [True]


def test_a_sound_file_raises_no_doubt() -> None:
    assert doubts('-x A=b=c"{}\n# x\n\n-mca btl tcp\n', "/f") == []
