"""Everything there is to say about a rank table, and one word that sums it up."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

from davincirun.ranktable import group_list
from davincirun.ranktable.document import BOM, GROUP_LIST, NotYet, RankTable, collector_paused, inspect
from davincirun.ranktable.finding import ERROR, NOT_READY, WARNING, Finding, error, warning
from davincirun.ranktable.rules import group_list as group_list_rules
from davincirun.ranktable.rules import heterog, v1, v2

OF_A_KIND = 20  # findings with one code that are told one by one

_RULES: Dict[str, Callable[[Dict[str, Any]], Iterator[Finding]]] = {
    GROUP_LIST: group_list_rules.check,
    "1.0": v1.check,
    "1.1": heterog.check,
    "1.2": v1.check,
    "2.0": v2.check,
}


class Report(NamedTuple):
    """What `examine` found out about one file."""

    path: str
    form: str  # a RankTable's form, or "" when it could not be told
    verdict: str  # "ok", "warning", "error", "not-ready" or "foreign"
    findings: List[Finding]


def examine(data: bytes, path: str, chip: Optional[str] = None, pod_name: Optional[str] = None) -> Report:
    """All findings about the table in `data`, those beyond 20 of one code as a count; raises nothing for any bytes.

    `chip` ("910", "A2", "A3", "A5" …) adds whether that chip reads this version, `pod_name` whether this pod is listed.
    """
    with collector_paused(len(data)):
        table = inspect(data)
        if isinstance(table, NotYet):
            return Report(path, "", NOT_READY, [Finding(NOT_READY, "not-ready", "", table.reason, "keep waiting")])
        if isinstance(table, Finding):
            return Report(path, "", "foreign" if table.code == "not-an-hccl-table" else ERROR, [table])
        found = _folded(_all(table, chip, pod_name))
    return Report(path, table.form, _verdict(found), found)


def findings(data: bytes, path: str, chip: Optional[str] = None, pod_name: Optional[str] = None) -> List[Finding]:
    """As `examine`, without the verdict."""
    return examine(data, path, chip, pod_name).findings


def first_error(table: RankTable) -> Optional[Finding]:
    """The first thing that makes `table` unusable."""
    return next((finding for finding in _RULES[table.form](table.document) if finding.severity == ERROR), None)


def _all(table: RankTable, chip: Optional[str], pod_name: Optional[str]) -> Iterator[Finding]:
    if table.text.startswith(BOM):
        message = "the file starts with a UTF-8 byte order mark: HCCL skips it, Python's json.load doesn't"
        yield warning("bom", "", message, "save it without one")
    yield from _RULES[table.form](table.document)
    if chip:
        yield from version_for_chip(chip, table.form, "super_pod_list" in table.document)
    if pod_name:
        yield from _listed(table, pod_name)


def version_for_chip(chip: str, form: str, has_super_pods: bool = False) -> Iterator[Finding]:
    """Ascend 950 (A5) reads 2.0 alone, all others everything else; only A3 has super pods."""
    name = chip.upper().replace(" ", "")
    if name == "UNKNOWN":
        return
    is_a5 = name in ("A5", "950", "ASCEND950")
    if has_super_pods and form == "1.2" and not (is_a5 or name in ("A3", "910_93", "910C")):
        message = f"version 1.2 with super pods is for Atlas A3; {chip} wants 1.0"
        yield warning("version-vs-chip", "version", message, "generate the table for this chip", "EI0014")
    if is_a5 and form != "2.0":
        message = f"version {form} is for 910, A2 and A3; Ascend 950 (A5) wants 2.0"
        yield warning("version-vs-chip", "version", message, "generate the table for this chip", "EI0014")
    elif not is_a5 and form == "2.0":
        message = f"version 2.0 is for Ascend 950 (A5); {chip} wants 1.0, or 1.2 for super pods"
        yield warning("version-vs-chip", "version", message, "generate the table for this chip", "EI0014")


def _listed(table: RankTable, pod_name: str) -> Iterator[Finding]:
    if table.form != GROUP_LIST or group_list.is_lab(table.document):
        return
    names = [
        str(instance.get("pod_name"))
        for group in _dicts(table.document.get("group_list"))
        for instance in _dicts(group.get("instance_list"))
    ]
    if pod_name not in names:
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        yield error(
            "not-in-table", "group_list", f"pod {pod_name} is none of those listed: {listed}", "is it this job's table?"
        )


def _dicts(values: Any) -> List[Dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _folded(found: Iterator[Finding]) -> List[Finding]:
    told: List[Finding] = []
    counts: Dict[str, int] = {}
    last: Dict[str, Finding] = {}
    for finding in found:
        counts[finding.code] = counts.get(finding.code, 0) + 1
        if counts[finding.code] <= OF_A_KIND:
            told.append(finding)
        else:
            last[finding.code] = finding
    for code, finding in last.items():
        message = f"and {counts[code] - OF_A_KIND} more of the kind {code}, the last of them here: {finding.message}"
        told.append(finding._replace(message=message))
    return told


def _verdict(found: List[Finding]) -> str:
    severities = {finding.severity for finding in found}
    return ERROR if ERROR in severities else WARNING if WARNING in severities else "ok"
