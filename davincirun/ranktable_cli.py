"""`davincictl ranktable`: make, join, convert, check, look at and compare rank tables."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any, Dict, List, Optional, Sequence

from davincirun.errors import RankTableError
from davincirun.ranktable import to_cluster
from davincirun.ranktable.convert import TARGETS, convert
from davincirun.ranktable.diff import diff
from davincirun.ranktable.finding import NOT_READY, Finding
from davincirun.ranktable.merge import ORDERS, merge
from davincirun.ranktable.show import show
from davincirun.ranktable.validate import Report, examine
from davincirun.ranktable.writing import dumps
from davincirun.ranktable_files import NotReadyError, load, load_part, read_input, write_output

DIFFERENCES_SHOWN = 100

_STATUSES = {"ok": 0, "warning": 0, "error": 1, "foreign": 1, "not-ready": 2}
_WORST_FIRST = (1, 2, 0)  # an error is final, a file that isn't ready may become good


def add_parser(subparsers: Any) -> None:
    """Registers the verb; `subparsers` is what `ArgumentParser.add_subparsers` returned."""
    parser: argparse.ArgumentParser = subparsers.add_parser("ranktable", help="make, check and convert rank tables")
    verbs = parser.add_subparsers(dest="ranktable_verb", metavar="VERB", required=True)
    _add_generate(verbs)
    _add_merge(verbs)
    _add_convert(verbs)
    _add_validate(verbs)
    shown = _verb(verbs, "show", "draw which ranks are where", show_table)
    shown.add_argument("file", metavar="FILE", help="a rank table, - for standard input")
    compared = _verb(verbs, "diff", "say what differs between two tables; status 1 if anything does", diff_tables)
    compared.add_argument("before", metavar="BEFORE")
    compared.add_argument("after", metavar="AFTER")
    compared.add_argument("--all", action="store_true", help=f"print more than {DIFFERENCES_SHOWN} differences")


def _verb(verbs: Any, name: str, description: str, handler: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name, help=description, description=f"{description[0].upper()}{description[1:]}."
    )
    parser.set_defaults(handler=handler)
    return parser


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write there, complete or not at all; else to standard output"
    )


def _add_generate(verbs: Any) -> None:
    from davincirun.ranktable_generate import generate_table

    parser = _verb(verbs, "generate", "make the table of this server, or of servers described by hand", generate_table)
    parser.add_argument("--hosts", metavar="A,B", help="the servers' ids, in rank order; without it: this server")
    parser.add_argument("--device-ips", metavar="IP,IP", default="", help="the devices' addresses, host by host")
    parser.add_argument("--devices", metavar="0-7", help="the physical device ids to list (with --hosts: 0-7)")
    parser.add_argument("--inventory", metavar="FILE", help="lines of: SERVER DEVICE[=IP][@SDID]... [pod=ID]")
    parser.add_argument("--server-id", "--server-ip", dest="server_id", help="this server's id, else its address")
    parser.add_argument("--simulate", metavar="SPEC", help="simulated cards instead of this server's: 8, 910b:8, a3:16")
    parser.add_argument("--super-pod", metavar="ID", help="put all servers into this super pod (version 1.2)")
    parser.add_argument(
        "--format", choices=TARGETS, help="else what the chip reads: 1.0, 1.2 in a super pod, 2.0 on Ascend 950"
    )
    _add_output(parser)


def _add_merge(verbs: Any) -> None:
    parser = _verb(verbs, "merge", "join tables into one, numbering ranks anew", merge_tables)
    parser.add_argument("files", metavar="FILE", nargs="+")
    parser.add_argument("--order", choices=ORDERS, default="given", help="what ranks follow: the order of the files "
                        "(default), server ids read as numbers, or the number that ends pod names")  # fmt: skip
    _add_output(parser)


def _add_convert(verbs: Any) -> None:
    parser = _verb(verbs, "convert", "write a table in another form", convert_table)
    parser.add_argument("file", metavar="FILE", help="a rank table, - for standard input")
    parser.add_argument("--to", choices=TARGETS, required=True)
    parser.add_argument("--lossy", action="store_true", help="even if values must be left out")
    _add_output(parser)


def _add_validate(verbs: Any) -> None:
    parser = _verb(
        verbs, "validate", "say what is wrong with tables; status 1 unusable, 2 not ready yet", validate_tables
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="rank tables, - for standard input")
    parser.add_argument("--json", action="store_true", help="print a JSON list, one object per file")
    parser.add_argument("--strict", action="store_true", help="count warnings as errors")
    parser.add_argument("--chip", metavar="NAME", help="the chip it is for: 910, A2, A3, A5; else the one found here")
    parser.add_argument("--pod", metavar="NAME", help="the pod that must be listed (MA_CURRENT_INSTANCE_NAME)")


def validate_tables(options: argparse.Namespace) -> int:
    """Prints every finding; the worst of the files' statuses: 0 usable, 1 not usable or foreign, 2 not ready."""
    from davincirun.devices.detect import generation_here

    chip = options.chip or generation_here(os.environ)
    reports = [_report(path, chip, options.pod) for path in options.files]
    if options.json:
        print(json.dumps([_as_json(report) for report in reports], indent=2))
    else:
        for report in reports:
            print("\n".join(_lines(report)))
    failing = ("warning",) if options.strict else ()
    statuses = {1 if report.verdict in failing else _STATUSES[report.verdict] for report in reports}
    return next(status for status in _WORST_FIRST if status in statuses)


def convert_table(options: argparse.Namespace) -> int:
    """Writes the table in the form `--to` names; a RankTableError says why that can't be, or what would be lost."""
    table, name = load(options.file)
    conversion = convert(table, name, options.to)
    if conversion.lost and not options.lossy:
        lost = ", ".join(conversion.lost)
        raise RankTableError(name, "", f"{options.to} has no place for {lost}: add --lossy to leave that out")
    write_output(options.output, conversion.text)
    return 0


def merge_tables(options: argparse.Namespace) -> int:
    """Writes the one table of all files."""
    parts = [load_part(path) for path in options.files]
    write_output(options.output, dumps(merge(parts, options.order)))
    return 0


def show_table(options: argparse.Namespace) -> int:
    """Prints which ranks are where."""
    table, name = load(options.file)
    print("\n".join(show(to_cluster(table, name), table.form, name)))
    return 0


def diff_tables(options: argparse.Namespace) -> int:
    """Prints what differs; 0 when nothing does but the form, 1 otherwise."""
    before, before_name = load(options.before)
    after, after_name = load(options.after)
    difference = diff(before, before_name, after, after_name)
    if difference.cluster:
        _print_some(difference.cluster, options.all)
        return 1
    if not difference.text:
        return 0
    if before.form != after.form:
        print(f"the same servers, ranks and devices, as {before.form} and as {after.form}")
        return 0
    print("the same servers, ranks and devices; other values differ, which HCCL's checksum over the table notices:")
    _print_some(difference.text, options.all)
    return 1


def _report(path: str, chip: Optional[str], pod_name: Optional[str]) -> Report:
    try:
        data, name = read_input(path)
    except NotReadyError as missing:
        return Report(missing.path, "", NOT_READY, [Finding(NOT_READY, NOT_READY, "", missing.problem, "keep waiting")])
    return examine(data, name, chip, pod_name)


def _lines(report: Report) -> List[str]:
    form = f" ({report.form if report.form == 'group_list' else 'version ' + report.form})" if report.form else ""
    lines = [f"{report.path}: {report.verdict}{form}"]
    for finding in report.findings:
        where = f"{finding.where}: " if finding.where else ""
        lines.append(f"  {finding.severity} {finding.code}: {where}{finding.text}")
    return lines


def _as_json(report: Report) -> Dict[str, Any]:
    findings = [
        {
            "severity": finding.severity,
            "code": finding.code,
            "path": finding.where,
            "message": finding.message,
            "remedy": finding.remedy,
            "hccl": finding.hccl,
        }
        for finding in report.findings
    ]
    return {"file": report.path, "form": report.form, "verdict": report.verdict, "findings": findings}


def _print_some(lines: Sequence[str], everything: bool) -> None:
    shown = lines if everything else lines[:DIFFERENCES_SHOWN]
    print("\n".join(shown))
    if len(shown) < len(lines):
        print(f"… and {len(lines) - len(shown):,} more differences (--all prints them)")
