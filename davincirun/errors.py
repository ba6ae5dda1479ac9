"""The errors we can explain: each says where, what is wrong and what to do, without a traceback.

The class says whose fault it is. `cli.main` is the only place that prints them, as `davincirun: <text>`.
What a worker does wrong is never an exception: it is an `Exit` value (see `lifecycle`).
"""

from __future__ import annotations


class DavincirunError(Exception):
    """Something we can explain without a traceback; `exit_status` is the launcher's."""

    exit_status = 1


class UsageError(DavincirunError):
    """The command line, or a DAVINCIRUN_ variable, asks for something that can't be."""


class RankTableError(DavincirunError):
    """The rank table can't be used; its author must mend it.

    `path` names the file ("<stdin>" and the like are fine), `where` the place in it as a JSON path
    (`server_list[1].device[0].rank_id`; empty when the whole file is meant), `problem` the value found,
    the value wanted and the remedy.
    """

    def __init__(self, path: str, where: str, problem: str) -> None:
        super().__init__(": ".join(part for part in (path, where, problem) if part))
        self.path = path
        self.where = where
        self.problem = problem


class IdentityError(DavincirunError):
    """The table is fine, but which of its servers this machine is can't be told."""


class DeviceError(DavincirunError):
    """The local cards can't be found, or the choice of cards makes no sense."""


class PlatformError(DavincirunError):
    """The platform around us (its tools, its files, its variables) failed us."""
