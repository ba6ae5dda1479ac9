"""The command line and the DAVINCIRUN_ variables read into `Options`.

`davincirun [OPTIONS] [--] COMMAND [ARG...]`: our options stand before the command, and from its first word on
nothing is looked at. Each option has a variable for platforms whose command line can't be changed; the command
line wins.
"""

from __future__ import annotations

import argparse
import math
import os
from typing import Any, List, Mapping, NoReturn, Optional, Sequence, Tuple

from davincirun import __version__
from davincirun.errors import UsageError
from davincirun.options import ENGINES, Options

_YES, _NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """The options and the command in `argv`; UsageError where they make no sense. `--help` leaves by SystemExit."""
    parsed, unknown = _parser().parse_known_args(argv)
    if unknown:
        raise UsageError(_unknown_option(unknown[0]))
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    given = _Given(parsed, environ)
    return Options(
        command=tuple(command),
        simulate=given.text("simulate"),
        devices=given.text("devices"),
        require_healthy=bool(given.switch("require_healthy")),
        detect_timeout_seconds=given.seconds("detect_timeout", 10.0),
        rank_table=given.text("rank_table"),
        rank_table_timeout_seconds=given.seconds("rank_table_timeout", 1800.0),
        nodes=given.number("nodes"),
        node_rank=given.number("node_rank"),
        rendezvous=given.text("rendezvous"),
        rendezvous_timeout_seconds=given.seconds("rendezvous_timeout", 1800.0),
        node_timeout_seconds=given.seconds("node_timeout", 15.0),
        log_dir=given.text("log_dir"),
        job_id=given.text("job_id"),
        workdir=given.text("workdir"),
        grace_seconds=given.seconds("grace", 15.0),
        prefix=given.switch("prefix"),
        dry_run=bool(given.switch("dry_run")),
        json=bool(given.switch("json")),
        verbosity=bool(given.switch("verbose")) - bool(given.switch("quiet")),
        engine=given.choice("engine", ENGINES),
        hosts=given.text("hosts"),
        hosts_timeout_seconds=given.seconds("hosts_timeout", 600.0),
    )


def usage() -> str:
    return _parser().format_usage()


class _Parser(argparse.ArgumentParser):
    """Complains as the rest of davincirun does, with its exit status."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; davincirun --help explains the options")


class _Given:
    """Where a value comes from: the command line, else the option's variable; an empty variable counts as unset."""

    def __init__(self, parsed: argparse.Namespace, environ: Mapping[str, str]) -> None:
        self._parsed = parsed
        self._environ = environ

    def text(self, name: str) -> Optional[str]:
        return self._value(name)[0]

    def choice(self, name: str, choices: Sequence[str]) -> str:
        text, source = self._value(name)
        if text is not None and text not in choices:
            raise UsageError(f"{source}: {text!r} is none of {', '.join(choices)}")
        return text or choices[0]

    def seconds(self, name: str, default: float) -> float:
        text, source = self._value(name)
        if text is None:
            return default
        try:
            seconds = float(text)
        except ValueError:
            seconds = math.nan
        if not 0 <= seconds < math.inf:
            raise UsageError(f"{source}: {text!r} is not a number of seconds, as in 15 or 0.5")
        return seconds

    def number(self, name: str) -> Optional[int]:
        text, source = self._value(name)
        if text is None:
            return None
        if not (text.isdigit() and text.isascii()):
            raise UsageError(f"{source}: {text!r} is not a number, as in 2")
        return int(text)

    def switch(self, name: str) -> Optional[bool]:
        value: Optional[bool] = getattr(self._parsed, name)
        if value is not None:
            return value
        text, source = self._value(name)
        if text is None:
            return None
        if text.lower() not in (*_YES, *_NO):
            raise UsageError(f"{source}: {text!r} is neither 1 nor 0")
        return text.lower() in _YES

    def _value(self, name: str) -> Tuple[Optional[str], str]:
        value: Any = getattr(self._parsed, name)
        if value is not None:
            return value, f"--{name.replace('_', '-')}"
        variable = f"DAVINCIRUN_{name.upper()}"
        return self._environ.get(variable) or None, variable


_USUAL_COLUMNS = 80  # where there is no terminal
_EXAMPLES = """\
examples:
  davincirun --simulate 8 python train.py --epochs 2     eight workers on a machine without any card
  davincirun python train.py                             one worker per card: the platform's table, or our own
  davincirun --dry-run --devices 0-3 python train.py     what would be started, on the first four cards

Each option can also be given as a variable: --grace 30 as DAVINCIRUN_GRACE=30, --prefix as DAVINCIRUN_PREFIX=1.
The exit status is that of the worker that failed first (128 + n when signal n ended it), else 0."""


def _help_formatter(prog: str) -> argparse.HelpFormatter:
    """As wide as the terminal, which argparse would learn, for each option, from a module that takes 3 ms to load."""
    try:
        columns = os.get_terminal_size().columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        columns = _USUAL_COLUMNS
    return argparse.RawDescriptionHelpFormatter(prog, width=columns - 2)


def _parser() -> _Parser:
    parser = _Parser(
        prog="davincirun",
        usage="davincirun [OPTIONS] [--] COMMAND [ARG...]",
        description="Start COMMAND once per Ascend card, with rank table and variables; keep the logs; stop together.",
        epilog=_EXAMPLES,
        formatter_class=_help_formatter,
        allow_abbrev=False,
    )
    cards = parser.add_argument_group("cards and rank table")
    cards.add_argument("--simulate", metavar="SPEC", help="a node without cards: 8, 910b:8, a3:16, gpu:8")
    cards.add_argument("--engine", metavar="NAME", help="ascend, or mpi: GPUs through mpirun; auto: as the machine is")
    cards.add_argument("--devices", metavar="IDS", help="use these cards alone, by logical id: 0,2-3")
    cards.add_argument("--require-healthy", action="store_true", default=None, help="refuse cards that are ill")
    cards.add_argument("--detect-timeout", metavar="SECONDS", help="how long npu-smi and hccn_tool may take (10)")
    cards.add_argument("--rank-table", metavar="PATH", help="a rank table, or the folder of jobstart_hccl.json")
    cards.add_argument("--rank-table-timeout", metavar="SECONDS", help="how long to wait for its completion (1800)")
    job = parser.add_argument_group("job")
    job.add_argument("--job-id", metavar="ID", help="the job's name in JOB_ID and in file names")
    job.add_argument("--workdir", metavar="DIR", help="start all workers in DIR")
    job.add_argument("--log-dir", metavar="DIR", help="where the log files go")
    job.add_argument("--grace", metavar="SECONDS", help="how long workers have from SIGTERM to SIGKILL (15)")
    nodes = parser.add_argument_group("several nodes (most platforms tell)")
    nodes.add_argument("--hosts", metavar="LIST", help="the nodes, node 0 first: a,b or a:2222,b:2222")
    nodes.add_argument("--nodes", metavar="N", help="how many nodes the job has")
    nodes.add_argument("--node-rank", metavar="R", help="which of them this is, from 0")
    nodes.add_argument("--rendezvous", metavar="WHERE", help="where they meet: DIR, tcp://HOST:PORT, etcd://..., mpi")
    nodes.add_argument("--rendezvous-timeout", metavar="SECONDS", help="how long to wait for all nodes (1800)")
    nodes.add_argument("--hosts-timeout", metavar="SECONDS", help="mpi: how long nodes wait for each other (600)")
    nodes.add_argument("--node-timeout", metavar="SECONDS", help="silence after which a node has vanished (15)")
    console = parser.add_argument_group("console")
    console.add_argument("--prefix", action="store_true", default=None, help="'[rank 3] ' before each line")
    console.add_argument("--no-prefix", action="store_false", dest="prefix", help="the workers' lines as they are")
    console.add_argument("-q", "--quiet", action="store_true", default=None, help="only warnings and failures")
    console.add_argument("-v", "--verbose", action="store_true", default=None, help="say more")
    look = parser.add_argument_group("looking only")
    look.add_argument("--dry-run", action="store_true", default=None, help="print the plan, start nothing")
    look.add_argument("--json", action="store_true", default=None, help="with --dry-run: as one JSON object")
    look.add_argument("--version", action="version", version=f"davincirun {__version__}")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _unknown_option(option: str) -> str:
    import difflib

    known: List[str] = [name for action in _parser()._actions for name in action.option_strings]
    near = difflib.get_close_matches(option.split("=", 1)[0], known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else "davincirun --help lists the options"
    return f"unknown option {option}: {hint} (options of the workers' own command stand after it)"
