#!/usr/bin/env python3
"""Measure davincirun beside a bare-Python floor, davincirunsdk 0.1.5 and Open MPI: one interleaved run, one table.

Runs of the launchers take turns (A B C A B C ...), so that whatever else the machine does hits all alike; the table has
medians, and in brackets the smallest and the largest value. Needs Python 3.9 and Linux 5.3; gcc for a native worker.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile

import launchers
import measures

Results = "dict[str, dict[str, list[float | int | None]]]"  # value's name -> launcher's name -> one of each run


def main() -> int:
    options = parse_options()
    quick = options.quick
    sizes = measures.Sizes(
        megabytes=options.megabytes or (20 if quick else 200),
        idle_seconds=2 if quick else 10,
        patience_seconds=20,
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        found = [one for one in launchers.find_launchers(scratch, options.original) if wanted(one.name, options.only)]
        bench = measures.Bench(launchers.make_worker(scratch), sizes)
        for launcher in found:  # the first run compiles modules and fills caches
            measures.start(bench, launcher)
        results = measure(bench, found, options.measure, options.runs or (1 if quick else 5))
    print(describe_machine())
    print(table(results, [launcher.name for launcher in found]))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": describe_machine(), "runs": results}, file, indent=1)
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one run of everything, less output, a short idle")
    parser.add_argument("--runs", type=int, help="of each measure and launcher (5)")
    parser.add_argument("--measure", action="append", choices=[*measures.ALL], help="only this one; may be repeated")
    parser.add_argument("--only", action="append", metavar="NAME", help="only launchers whose name begins so")
    parser.add_argument("--megabytes", type=float, help="that each of the eight workers prints (200)")
    parser.add_argument("--original", metavar="VENV", help="davincirunsdk's virtual environment; made if not there")
    parser.add_argument("--json", metavar="FILE", help="write every single value there")
    return parser.parse_args()


def wanted(name: str, beginnings: list[str] | None) -> bool:
    return beginnings is None or name.startswith(tuple(beginnings))


def measure(bench: measures.Bench, found: list[launchers.Launcher], names: list[str] | None, runs: int) -> Results:
    results: dict[str, dict[str, list[float | int | None]]] = {}
    for name in names or measures.ALL:
        for run in range(runs):
            for launcher in found:
                print(f"{name} {run + 1}/{runs}: {launcher.name}", file=sys.stderr, flush=True)
                for value_name, value in measures.ALL[name](bench, launcher).items():
                    results.setdefault(value_name, {}).setdefault(launcher.name, []).append(value)
    return results


def table(results: Results, names: list[str]) -> str:
    rows = [["", *names]]
    for value_name, by_launcher in results.items():
        rows.append([value_name, *(cell(by_launcher.get(name, [])) for name in names)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def cell(values: list[float | int | None]) -> str:
    """The median, and the range of several; `never` where half of them or more never came."""
    there = sorted(value for value in values if value is not None)
    if not values:
        return "-"
    if len(there) * 2 <= len(values):
        return "never"
    text = short(statistics.median(there))
    if there[0] != there[-1]:
        text += f" ({short(there[0])}-{short(there[-1])})"
    return text + (f" {len(values) - len(there)} never" if len(there) < len(values) else "")


def short(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def describe_machine() -> str:
    load = os.getloadavg()[0]
    return f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, load {load:.1f}"


if __name__ == "__main__":
    sys.exit(main())
