"""`davincictl VERB …`: looks and helps, starts nothing."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Mapping, NoReturn, Sequence

from davincirun import __version__, cli, devices_cli, ranktable_cli
from davincirun.errors import DavincirunError

_EXAMPLES = """\
examples:
  davincictl plan --simulate 8 python train.py           what davincirun would start, with which variables
  davincictl devices                                     this machine's cards, and how each was found
  davincictl ranktable validate /user/config/hccl.json   what HCCL would refuse, and what to do about it"""


def run() -> NoReturn:
    """What `davincictl` on the command line does."""
    sys.exit(main(sys.argv[1:], os.environ))


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what the verb in `argv` says; the exit status."""
    if argv[:1] == ["plan"]:  # everything after it is davincirun's own command line
        return cli.main(["--dry-run", *argv[1:]], environ)
    parser = _parser()
    options = parser.parse_args(argv)
    if options.verb is None:
        parser.print_help(sys.stderr)
        return 1
    try:
        status: int = options.handler(options)
        return status
    except DavincirunError as error:
        print(f"davincictl: {error}", file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:  # `davincictl … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="davincictl",
        description="Look at cards, rank tables and launch plans; nothing is started.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"davincictl {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    verbs.add_parser("plan", help="show what davincirun would start: davincirun --dry-run")
    devices_cli.add_parser(verbs)
    ranktable_cli.add_parser(verbs)
    return parser
