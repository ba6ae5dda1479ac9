"""The launcher's own lines on stderr: one fact each, never waiting for whoever reads them."""

from __future__ import annotations

import time

from davincirun.sink import Sink

QUIET, NORMAL, VERBOSE = range(-1, 2)


class Messages:
    """Writes lines to a sink as `<label>2026-01-31 12:00:00 [INFO] text`."""

    def __init__(self, sink: Sink, label: str, verbosity: int = NORMAL) -> None:
        self.sink = sink
        self._label = label
        self._verbosity = verbosity

    @property
    def is_talkative(self) -> bool:
        """Good news is wanted too."""
        return self._verbosity >= NORMAL

    def detail(self, text: str) -> None:
        """For those who ask with -v."""
        if self._verbosity >= VERBOSE:
            self._line("DEBUG", text)

    def info(self, text: str) -> None:
        if self._verbosity >= NORMAL:
            self._line("INFO", text)

    def warning(self, text: str) -> None:
        self._line("WARNING", text)

    def error(self, text: str) -> None:
        self._line("ERROR", text)

    def block(self, text: str) -> None:
        """Several lines as they are."""
        self._write(text)

    def _line(self, level: str, text: str) -> None:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        self._write(f"{self._label}{now} [{level}] {text}\n")

    def _write(self, text: str) -> None:
        start = b"" if self.sink.at_line_start else b"\n"
        self.sink.write(start + text.encode("utf-8", "surrogateescape"))
