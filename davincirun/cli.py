"""The launcher's command: options in, exit status out. The only place that prints a DavincirunError."""

from __future__ import annotations

import os
import sys
from typing import Callable, Mapping, NoReturn, Sequence

from davincirun.errors import DavincirunError


def run() -> NoReturn:
    """What `davincirun` on the command line does."""
    sys.exit(main(sys.argv[1:], os.environ))


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Launch the command in `argv`, or do what else its options ask; the exit status."""
    _open_standard_descriptors()
    try:
        from davincirun import options as command_line

        options = command_line.parse(argv, environ)
        if not options.command:
            sys.stderr.write(f"davincirun: no command to start\n{command_line.usage()}try: davincirun --help\n")
            return 1
        from davincirun import launch

        if options.dry_run:
            return launch.show_plan(options, environ)
        from davincirun.guardian import guarded

        return guarded(lambda lifeline_fd: _explained(lambda: launch.launch(options, environ, lifeline_fd)))
    except DavincirunError as error:
        return _complain(error)


def _explained(launch: Callable[[], int]) -> int:
    try:
        return launch()
    except DavincirunError as error:
        return _complain(error)


def _complain(error: DavincirunError) -> int:
    os.write(2, f"davincirun: {error}\n".encode("utf-8", "surrogateescape"))
    return error.exit_status


def _open_standard_descriptors() -> None:
    """Started with stdin, stdout or stderr closed, their numbers would go to the next files that are opened."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
