"""The launcher's command: options in, exit status out. The only place that prints a DavincirunError."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from typing import Callable, Mapping, NoReturn, Sequence

from davincirun.errors import DavincirunError
from davincirun.options import Options, without_any


def run() -> NoReturn:
    """What `davincirun` on the command line does."""
    gc.disable()  # start-up makes no cycles worth finding, and looking for them takes a tenth of it
    status = main(sys.argv[1:], os.environ)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # None when we were started with it closed
            with contextlib.suppress(OSError):  # nobody reads it any more
                stream.flush()
    os._exit(status)  # there is nothing to tear down, and Python takes 10 ms for that


def main(argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Launch the command in `argv`, or do what else its options ask; the exit status."""
    _open_standard_descriptors()
    try:
        options = without_any(argv, environ) or _read_options(argv, environ)
        if not options.command:
            from davincirun import command_line

            sys.stderr.write(f"davincirun: no command to start\n{command_line.usage()}try: davincirun --help\n")
            return 1
        from davincirun import launch

        if options.dry_run:
            return launch.show_plan(options, environ)
        from davincirun.guardian import guarded, say
        from davincirun.preparation import platform_services

        with platform_services(environ, say) as services:
            return guarded(lambda fd: _explained(lambda: launch.launch(options, environ, fd)), services)
    except DavincirunError as error:
        return _complain(error)
    except BrokenPipeError:  # davincirun --dry-run … | head
        return 0


def _read_options(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    from davincirun import command_line

    return command_line.parse(argv, environ)


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
