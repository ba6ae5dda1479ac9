"""Rank tables: read, checked, converted, written. `read` for the launch; `validate` and the rest for `davincictl`."""

from davincirun.ranktable.document import NotYet, RankTable, parse
from davincirun.ranktable.launch import read, to_cluster
from davincirun.ranktable.make import from_servers, version_for

__all__ = ["NotYet", "RankTable", "from_servers", "parse", "read", "to_cluster", "version_for"]
