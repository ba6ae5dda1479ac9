"""Rank-table files as the command-line tools read and write them."""

from __future__ import annotations

import os
import sys
from typing import Optional, Tuple

from davincirun.errors import RankTableError
from davincirun.files import read, write_atomically
from davincirun.ranktable import NotYet, RankTable, parse
from davincirun.ranktable.merge import Part

TABLE_NAME = "jobstart_hccl.json"  # what ModelArts calls the file in the folder that RANK_TABLE_FILE names


class NotReadyError(RankTableError):
    """The file isn't usable yet."""

    exit_status = 2


def load(path: str) -> Tuple[RankTable, str]:
    """The table in a file, and what to call it; NotReadyError or RankTableError when it isn't usable."""
    data, name = read_input(path)
    table = parse(data, name)
    if isinstance(table, NotYet):
        raise NotReadyError(name, "", f"not ready: {table.reason}")
    return table, name


def load_part(path: str) -> Part:
    """A table to merge; NotReadyError or RankTableError when it isn't usable."""
    table, name = load(path)
    return Part(name, table)


def read_input(path: str) -> Tuple[bytes, str]:
    """The bytes of a file, of standard input for "-", of ModelArts' table for a folder; and what to call it."""
    if path == "-":
        return sys.stdin.buffer.read(), "<stdin>"
    if os.path.isdir(path):
        path = os.path.join(path, TABLE_NAME)
    try:
        return read(path), path
    except FileNotFoundError:
        raise NotReadyError(path, "", "there is no such file") from None
    except OSError as error:
        raise RankTableError(path, "", f"it can't be read: {error.strerror}") from None


def write_output(path: Optional[str], data: bytes) -> None:
    """Write to the file, complete or not at all, else to standard output."""
    if path is None or path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(data if data.endswith(b"\n") else data + b"\n")
        sys.stdout.buffer.flush()
        return
    try:
        write_atomically(path, data)
    except OSError as error:
        raise RankTableError(path, "", f"it can't be written: {error.strerror}") from None
