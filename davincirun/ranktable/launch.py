"""A completed rank table → what the launch needs of it.

The way through is kept lean: it checks whole columns and, only when something is wrong, asks the validator, which
knows every rule, what to say.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Union

from davincirun.cluster import Cluster
from davincirun.errors import RankTableError
from davincirun.ranktable import group_list, heterog, v1, v2
from davincirun.ranktable.document import BIG_BYTES, GROUP_LIST, NotYet, RankTable, collector_paused, inspect, parse
from davincirun.ranktable.finding import as_error

_READERS: Dict[str, Callable[[Dict[str, Any]], Cluster]] = {
    GROUP_LIST: group_list.to_cluster,
    "1.0": v1.to_cluster,
    "1.1": heterog.to_cluster,
    "1.2": v1.to_cluster,
    "2.0": v2.to_cluster,
}


def read(data: bytes, path: str) -> Union[RankTable, NotYet]:
    """As `parse`; in the document of a big table, columns that only we can read may stand for its lists of devices."""
    return (_read_big(data) if len(data) > BIG_BYTES else None) or parse(data, path)


def _read_big(data: bytes) -> Optional[RankTable]:
    from davincirun.ranktable import alike  # costs most launches nothing

    return alike.read(data)


def to_cluster(table: RankTable, path: str) -> Cluster:
    """The cluster `table` describes; RankTableError, naming the JSON path, for what can't be launched or would hang.

    What HCCL and ModelArts' launcher accept is accepted: unknown keys, sparse or high device ids, lenient numbers.
    """
    try:
        with collector_paused(len(table.text)):
            return _READERS[table.form](table.document)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as problem:
        raise _explain(table, path, problem) from None


def _explain(table: RankTable, path: str, problem: Exception) -> RankTableError:
    from davincirun.ranktable.validate import first_error

    whole = inspect(table.text)  # as it may have been read into columns
    finding = first_error(whole) if isinstance(whole, RankTable) else None
    return (
        as_error(path, finding) if finding else RankTableError(path, "", f"it can't be read as {table.form}: {problem}")
    )
