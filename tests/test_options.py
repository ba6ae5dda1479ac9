"""The command line and its variables."""

from __future__ import annotations

import pytest

from davincirun import __version__
from davincirun.command_line import parse
from davincirun.errors import UsageError
from davincirun.options import Options, without_any


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        ("train", {}),
        ("--simulate 8 train", {"simulate": "8"}),
        ("--simulate=a3:16 train", {"simulate": "a3:16"}),
        ("--devices 0,2-3 train", {"devices": "0,2-3"}),
        ("--rank-table hccl.json train", {"rank_table": "hccl.json"}),
        ("--rank-table-timeout 1.5 train", {"rank_table_timeout_seconds": 1.5}),
        ("--require-healthy train", {"require_healthy": True}),
        ("--detect-timeout 3 train", {"detect_timeout_seconds": 3.0}),
        ("--log-dir logs train", {"log_dir": "logs"}),
        ("--job-id mine train", {"job_id": "mine"}),
        ("--workdir there train", {"workdir": "there"}),
        ("--grace 0 train", {"grace_seconds": 0.0}),
        ("--prefix train", {"prefix": True}),
        ("--no-prefix train", {"prefix": False}),
        ("--dry-run train", {"dry_run": True}),
        ("--dry-run --json train", {"dry_run": True, "json": True}),
        ("-q train", {"verbosity": -1}),
        ("--quiet train", {"verbosity": -1}),
        ("-v train", {"verbosity": 1}),
        ("--verbose train", {"verbosity": 1}),
    ],
)
def test_each_option_is_read(argv: str, options: dict) -> None:
    assert parse(argv.split(), {}) == Options(("train",), **options)


@pytest.mark.parametrize(
    ("variable", "value", "options"),
    [
        ("DAVINCIRUN_SIMULATE", "8", {"simulate": "8"}),
        ("DAVINCIRUN_DEVICES", "0-3", {"devices": "0-3"}),
        ("DAVINCIRUN_RANK_TABLE", "hccl.json", {"rank_table": "hccl.json"}),
        ("DAVINCIRUN_RANK_TABLE_TIMEOUT", "60", {"rank_table_timeout_seconds": 60.0}),
        ("DAVINCIRUN_REQUIRE_HEALTHY", "1", {"require_healthy": True}),
        ("DAVINCIRUN_DETECT_TIMEOUT", "3", {"detect_timeout_seconds": 3.0}),
        ("DAVINCIRUN_LOG_DIR", "logs", {"log_dir": "logs"}),
        ("DAVINCIRUN_JOB_ID", "mine", {"job_id": "mine"}),
        ("DAVINCIRUN_WORKDIR", "there", {"workdir": "there"}),
        ("DAVINCIRUN_GRACE", "2.5", {"grace_seconds": 2.5}),
        ("DAVINCIRUN_PREFIX", "1", {"prefix": True}),
        ("DAVINCIRUN_PREFIX", "no", {"prefix": False}),
        ("DAVINCIRUN_DRY_RUN", "true", {"dry_run": True}),
        ("DAVINCIRUN_JSON", "on", {"json": True}),
        ("DAVINCIRUN_QUIET", "1", {"verbosity": -1}),
        ("DAVINCIRUN_VERBOSE", "YES", {"verbosity": 1}),
        ("DAVINCIRUN_GRACE", "", {}),
        ("DAVINCIRUN_PREFIX", "", {}),
        ("DAVINCIRUN_RUN_ID", "of the launcher around us", {}),
    ],
)
def test_each_option_has_a_variable(variable: str, value: str, options: dict) -> None:
    assert parse(["train"], {variable: value}) == Options(("train",), **options)


def test_the_command_line_wins_over_the_variables() -> None:
    environ = {"DAVINCIRUN_GRACE": "1", "DAVINCIRUN_PREFIX": "1"}
    assert parse(["--grace", "2", "--no-prefix", "train"], environ) == Options(
        ("train",), grace_seconds=2.0, prefix=False
    )


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["train", "--simulate", "8", "-q"], ["train", "--simulate", "8", "-q"]),
        (["--", "train", "--", "x"], ["train", "--", "x"]),
        (["--", "-odd-name", "-q"], ["-odd-name", "-q"]),
        (["-q", "--", "train"], ["train"]),
        (["-q", "train", "--help", "--version"], ["train", "--help", "--version"]),
        (["train", "", "a b", "'", "*", "--=", "-"], ["train", "", "a b", "'", "*", "--=", "-"]),
        (["train", "--", "--"], ["train", "--", "--"]),
        (["--", "--", "x"], ["--", "x"]),
        (["-q", "train", "@file"], ["train", "@file"]),
        (["a=b"], ["a=b"]),
        ([], []),
    ],
)
def test_everything_from_the_command_on_is_untouched(argv: list, command: list) -> None:
    assert parse(argv, {}).command == tuple(command)


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("--simulte", "--simulate"),
        ("--ranktable", "--rank-table"),
        ("--dryrun", "--dry-run"),
        ("--work-dir", "--workdir"),
    ],
)
def test_an_unknown_option_is_told_with_the_nearest(option: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=rf"^unknown option {option}: did you mean {nearest}?"):
        parse([option, "train"], {})


def test_an_option_like_no_other_is_told_where_to_look() -> None:
    with pytest.raises(UsageError, match=r"unknown option --zzz: davincirun --help lists the options"):
        parse(["--zzz", "train"], {})


def test_options_cannot_be_abbreviated() -> None:
    """A new option would change what the short form means."""
    with pytest.raises(UsageError, match=r"did you mean --simulate?"):
        parse(["--simul", "8", "train"], {})


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan", "1s", " "])
def test_seconds_must_be_a_number(value: str) -> None:
    with pytest.raises(UsageError, match=r"^--grace: .* is not a number of seconds, as in 15 or 0.5"):
        parse([f"--grace={value}", "train"], {})
    with pytest.raises(UsageError, match=r"^DAVINCIRUN_GRACE: "):
        parse(["train"], {"DAVINCIRUN_GRACE": value})


def test_a_switch_must_be_yes_or_no() -> None:
    with pytest.raises(UsageError, match=r"^DAVINCIRUN_PREFIX: 'maybe' is neither 1 nor 0"):
        parse(["train"], {"DAVINCIRUN_PREFIX": "maybe"})


def test_a_missing_value_is_explained() -> None:
    with pytest.raises(UsageError, match=r"--grace.*expected one argument; davincirun --help explains the options"):
        parse(["--grace"], {})


@pytest.mark.parametrize(("argv", "word"), [(["--version"], __version__), (["--help"], "examples:")])
def test_help_and_version_are_printed_and_end_with_0(argv: list, word: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(argv, {})
    assert ended.value.code == 0
    assert word in capsys.readouterr().out


def test_help_groups_the_options_and_shows_three_examples(capsys) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})
    text = capsys.readouterr().out
    for group in ("cards and rank table:", "job:", "console:", "looking only:"):
        assert f"\n{group}\n" in text
    assert text.split("examples:")[1].count("\n  davincirun ") == 3


@pytest.mark.parametrize(
    ("argv", "environ"),
    [(["-q", "train"], {}), (["--", "train"], {}), ([], {}), (["train"], {"DAVINCIRUN_GRACE": "1"})],
)
def test_the_short_cut_is_only_for_launches_without_options(argv: list, environ: dict) -> None:
    assert without_any(argv, environ) is None


def test_the_short_cut_gives_what_reading_gives() -> None:
    argv = ["train", "--grace", "1", "--"]
    assert without_any(argv, {"PATH": "/bin"}) == parse(argv, {})
