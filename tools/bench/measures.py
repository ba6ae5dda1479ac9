"""What is measured: each function takes the numbers of one run of one launcher, named with their units."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import time
from typing import Callable, Mapping, NamedTuple, Sequence

import launchers
from scene import Record, Scene, running, wait_gone

Values = Mapping[str, "float | int | None"]  # None: it never came


class Sizes(NamedTuple):
    """How much of everything."""

    megabytes: float  # that each worker prints
    idle_seconds: float
    patience_seconds: float  # a launcher that takes longer is said to hang


class Bench(NamedTuple):
    """What every measure needs."""

    worker: Sequence[str]
    sizes: Sizes

    def scene(self, launcher: launchers.Launcher, workers: int, *role: object, console: str = "none") -> Scene:
        return Scene(launcher, list(self.worker), workers, [str(word) for word in role], console)


def start(bench: Bench, launcher: launchers.Launcher, workers: int = 8) -> Values:
    """From the launcher's start to the last worker's first instruction, and to its own exit; the workers are `true`."""
    scene = bench.scene(launcher, workers, "true")
    ended = scene.wait_exit(bench.sizes.patience_seconds)
    records = scene.records()
    scene.close()
    all_ran = all(record.started for record in records)
    return {
        "last worker runs, ms": milliseconds(scene.started, max(r.started for r in records)) if all_ran else None,
        "round trip of true, ms": milliseconds(scene.started, scene.exited) if ended else None,
    }


def start_64(bench: Bench, launcher: launchers.Launcher) -> Values:
    return {f"{name} (64 workers)": value for name, value in start(bench, launcher, 64).items()}


def failure(bench: Bench, launcher: launchers.Launcher, manners: str = "polite") -> Values:
    """From a worker's exit 3 to the launcher's own exit. The delay is drawn, so that no poller's phase matters."""
    scene = bench.scene(launcher, 8, "fail", manners, 8, 1000 + random.randrange(1000))
    ended = scene.wait_started() and scene.wait_exit(bench.sizes.patience_seconds)
    failed = scene.records()[1].ended
    scene.close()
    return {
        f"failure to exit, {manners}, ms": milliseconds(failed, scene.exited) if ended else None,
        f"exit status (3), {manners}": scene.status,
    }


def failure_deaf(bench: Bench, launcher: launchers.Launcher) -> Values:
    """The same, the other workers being deaf to TERM. The grace is ours to choose only with some launchers."""
    return failure(bench, launcher, "deaf")


def terminated(bench: Bench, launcher: launchers.Launcher) -> Values:
    """From TERM to the launcher's exit, and who is left a second after; each worker has two children."""
    scene = bench.scene(launcher, 8, "family", "polite")
    scene.wait_started()
    time.sleep(0.5 + random.random())
    told = time.monotonic_ns()
    os.kill(scene.pid, signal.SIGTERM)
    ended = scene.wait_exit(bench.sizes.patience_seconds)
    wait_gone(family(scene.records()), 1.0)
    left = running(family(scene.records()))
    scene.close()
    return {
        "TERM to exit, ms": milliseconds(told, scene.exited) if ended else None,
        "exit status (143)": scene.status,
        "left after TERM (of 24)": left,
    }


def killed(bench: Bench, launcher: launchers.Launcher) -> Values:
    """Who is left after a SIGKILL of the launcher."""
    scene = bench.scene(launcher, 8, "family", "polite")
    scene.wait_started()
    time.sleep(0.5)
    told = time.monotonic_ns()
    os.kill(scene.pid, signal.SIGKILL)
    gone = wait_gone(family(scene.records()), 0.05)
    left = running(family(scene.records()))
    last_gone = gone or wait_gone(family(scene.records()), 5.0)
    left_later = running(family(scene.records()))
    scene.close()
    return {
        "left 50 ms after SIGKILL (of 24)": left,
        "left 5 s after SIGKILL": left_later,
        "SIGKILL to last one gone, ms": milliseconds(told, last_gone) if last_gone else None,
    }


def output(bench: Bench, launcher: launchers.Launcher) -> Values:
    """Eight workers print into files and console: how fast, at what price, and is every line whole?"""
    lines = int(bench.sizes.megabytes * 1e6 / 100)
    scene = bench.scene(launcher, 8, "print", lines, "end", console="read")
    ended = scene.wait_exit(600)
    if ended:
        scene.wait_read()
    read = time.monotonic_ns()
    records = scene.records()
    launchers_cpu = scene.cpu_seconds() - sum(record.cpu for record in records) / 1e9
    files = [lost_lines(bench, launcher.rank_file(scene.folder, rank), lines) for rank in range(8)] if ended else []
    lost = lost_lines(bench, scene.console_path, lines * 8) if ended else None
    scene.close()
    if not ended or not all(record.ended for record in records):
        return {"output, MB/s": None}
    first = min(record.started for record in records)
    gigabytes = lines * 8 * 100 / 1e9
    return {
        "output, MB/s": gigabytes * 1e12 / (read - first),
        "workers released after, s": (max(record.ended for record in records) - first) / 1e9,
        "launcher's CPU, s per GB": launchers_cpu / gigabytes,
        "console lines broken or lost": lost,
        "file lines broken or lost": sum(files),
    }


def stuck(bench: Bench, launcher: launchers.Launcher) -> Values:
    """Nobody reads the console: do the workers get on, and is TERM still obeyed?"""
    lines = int(min(bench.sizes.megabytes, 20) * 1e6 / 100)
    scene = bench.scene(launcher, 8, "print", lines, "stay", console="stuck")
    scene.wait_ended(5.0)
    time.sleep(2.0)
    finished = sum(record.ended != 0 for record in scene.records())
    told = time.monotonic_ns()
    os.kill(scene.pid, signal.SIGTERM)
    ended = scene.wait_exit(bench.sizes.patience_seconds)
    scene.close()
    return {
        "stuck console: workers that print on (of 8)": finished,
        "stuck console: TERM to exit, ms": milliseconds(told, scene.exited) if ended else None,
    }


def idle(bench: Bench, launcher: launchers.Launcher) -> Values:
    """What the launcher itself uses while its workers sleep."""
    scene = bench.scene(launcher, 8, "sleep", console="read")
    scene.wait_started()
    time.sleep(2)
    own = scene.own_processes()
    pss = sum(proportional_set(pid) for pid in own)
    before = [cpu_and_switches(pid) for pid in own]
    time.sleep(bench.sizes.idle_seconds)
    after = [cpu_and_switches(pid) for pid in own]
    scene.close()
    return {
        f"idle {bench.sizes.idle_seconds:g} s: CPU, ms": sum(b[0] - a[0] for a, b in zip(before, after)) / 1e6,
        f"idle {bench.sizes.idle_seconds:g} s: wake-ups": sum(b[1] - a[1] for a, b in zip(before, after)),
        "memory (PSS), MB": pss / 1e6,
        "processes": len(own),
    }


ALL: dict[str, Callable[[Bench, launchers.Launcher], Values]] = {
    "start": start,
    "start-64": start_64,
    "failure": failure,
    "failure-deaf": failure_deaf,
    "term": terminated,
    "kill": killed,
    "output": output,
    "stuck": stuck,
    "idle": idle,
}


def milliseconds(since: int, until: int) -> float:
    return (until - since) / 1e6


def family(records: Sequence[Record]) -> list[int]:
    return [pid for record in records for pid in (record.pid, record.child, record.session_child) if pid]


def lost_lines(bench: Bench, path: str, lines: int) -> int:
    """How many of the lines are not there as a whole and in their rank's order, or how many are broken: the larger."""
    if not os.path.exists(path):
        return lines
    counts = json.loads(subprocess.check_output([*bench.worker, "check", path]))
    return max(lines - counts["whole"], counts["broken"]) + counts["disordered"]


def proportional_set(pid: int) -> int:
    """The process's share of memory, in bytes (proc(5), smaps_rollup)."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii", errors="replace") as rollup:
        return int(re.findall(r"^Pss:\s+(\d+)", rollup.read(), re.MULTILINE)[0]) * 1024


def cpu_and_switches(pid: int) -> tuple[int, int]:
    """Nanoseconds of CPU time and context switches of all threads (proc(5), schedstat and status)."""
    cpu = switches = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as schedstat:
            cpu += int(schedstat.read().split()[0])
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii", errors="replace") as status:
            switches += sum(map(int, re.findall(r"ctxt_switches:\s+(\d+)", status.read())))
    return cpu, switches
