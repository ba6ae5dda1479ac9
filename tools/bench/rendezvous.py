#!/usr/bin/env python3
"""How long N launchers take to agree, simulated as N forked processes on this machine.

usage: python tools/bench/rendezvous.py [--ways floor,tcp,directory,etcd] [--counts 16,64,256] [--cards 8] [--runs 3]
                                        [--threads 1] [--node-timeout 15]

All start at one moment; the time is that until the last one holds the agreed table. N machines would have a processor
for each launcher: here as many work at a time as there are cores, and the others wait for their turn. `cpu ms each` is
the processor time of all processes together per launcher, `leader cpu` what the gathering one does alone. Both hold the
whole table, so that they grow with N by nature; with the square of N, they must not. `private MiB` is the memory of one
launcher that it shares with nobody, at the end. etcd has to be installed for its way; it is started and stopped here.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import mmap
import os
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from davincirun.platforms import Explicit, find_context
from davincirun.rendezvous.contribution import Card, Contribution
from davincirun.rendezvous.liaison import Meeting, Orders
from davincirun.rendezvous.server import Server
from davincirun.rendezvous.store import StoreError
from davincirun.rendezvous.store_meeting import StoreMeeting
from davincirun.rendezvous.terms import Terms
from davincirun.rendezvous.ways import meeting
from davincirun.rendezvous.wire import job_key

TIMEOUT_SECONDS = 600.0
FLOOR = "floor"  # the way of processes that only wake up and end: what forking and the machine cost
WAITING_FOR_ETCD = 8  # times as many launchers have a turn: most of them wait for an answer
RECORD = struct.Struct("ddd")  # when agreed, processor seconds, private MiB


class Turns(Orders):
    """Orders of a launcher that has a core only in turn with others; what it waits in, lets another one have it."""

    def __init__(self, tokens: Optional[Tuple[int, int]]) -> None:
        """`tokens`: a pipe with one byte in it for each core; None: there is nothing to take turns at."""
        super().__init__()
        self._tokens = tokens

    def begin(self) -> None:
        if self._tokens is not None:
            os.read(self._tokens[0], 1)

    def end(self) -> None:
        if self._tokens is not None:
            os.write(self._tokens[1], b".")

    def wait(self, fds: Sequence[int], seconds: float) -> List[int]:
        self.end()
        try:
            return super().wait(fds, seconds)
        finally:
            self.begin()


class Result(NamedTuple):
    """One run."""

    seconds: float
    cpu_seconds: float  # of all
    leader_cpu_seconds: float
    private_mib: float


def main(argv: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--ways", default="floor,tcp,directory,etcd")
    parser.add_argument("--counts", default="16,64,256,1024,4096")
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="launchers to a process, where memory is short")
    parser.add_argument("--node-timeout", type=float, default=15.0, help="as the launcher's: how often each shows life")
    options = parser.parse_args(argv)
    for module in ("client", "directory", "etcd"):
        importlib.import_module(f"davincirun.rendezvous.{module}")  # once, not in each of N forked launchers
    if "etcd" in options.ways:
        importlib.import_module("etcd3gw")
    gc.freeze()  # so that no collection in a launcher copies what all share
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(
        f"{'way':<10} {'N':>5} {'seconds':>8} {'ms each':>8} {'cpu ms each':>12} {'leader cpu':>11} {'private MiB':>12}"
    )
    for way in options.ways.split(","):
        for count in map(int, options.counts.split(",")):
            with place(way) as where:
                results = [one_run(where, f"run{run}", count, options) for run in range(options.runs)]
            show(way, count, results)
    return 0


def show(way: str, count: int, results: List[Result]) -> None:
    seconds = statistics.median(one.seconds for one in results)
    cpu = statistics.median(one.cpu_seconds for one in results)
    leader = statistics.median(one.leader_cpu_seconds for one in results)
    private = statistics.median(one.private_mib for one in results)
    line = f"{way:<10} {count:>5} {seconds:>8.2f} {seconds / count * 1000:>8.2f}"
    print(f"{line} {cpu / count * 1000:>12.2f} {leader:>9.2f} s {private:>12.2f}", flush=True)


@contextlib.contextmanager
def place(way: str) -> Iterator[str]:
    """Where to meet, as --rendezvous takes it."""
    if way == FLOOR:
        yield way
        return
    if way == "tcp":
        yield f"tcp://127.0.0.1:{free_port()}"
        return
    folder = tempfile.mkdtemp(prefix="rendezvous.")
    try:
        if way == "directory":
            yield folder
        else:
            with etcd(folder) as where:
                yield where
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def etcd(folder: str) -> Iterator[str]:
    client, peer = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    argv = ["etcd", "--data-dir", folder, "--listen-client-urls", client, "--advertise-client-urls", client]
    argv += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{client}/health", timeout=1).close()
                break
            time.sleep(0.05)
        yield client.replace("http", "etcd")
    finally:
        process.kill()
        process.wait()


def one_run(where: str, run: str, count: int, options: argparse.Namespace) -> Result:
    """Fork all launchers, some as threads of one process, let them go at one moment, wait for the last."""
    at_once = options.threads
    records = mmap.mmap(-1, RECORD.size * count)
    gate, open_gate = os.pipe()
    ready, say_ready = os.pipe()
    tokens = os.pipe()
    at_a_time = len(os.sched_getaffinity(0)) * (WAITING_FOR_ETCD if where.startswith("etcd") else 1)
    os.write(tokens[1], b"." * at_a_time)
    pids = []
    for first in range(0, count, at_once):
        pid = os.fork()
        if pid == 0:
            os.close(open_gate)
            signal.alarm(int(TIMEOUT_SECONDS) + 60)
            together = range(first, min(first + at_once, count))

            def one(rank: int, share: int = len(together)) -> int:
                return launcher(where, run, rank, count, options, (gate, say_ready), tokens, records, share)

            with ThreadPoolExecutor(at_once) as pool:
                os._exit(max(pool.map(one, together)))
        pids.append(pid)
    os.close(gate)
    os.close(say_ready)
    for _ in range(count):
        os.read(ready, 1)
    began = time.monotonic()
    os.close(open_gate)
    statuses = [os.waitpid(pid, 0)[1] for pid in pids]
    for fd in (ready, *tokens):
        os.close(fd)
    if any(statuses):
        raise SystemExit(f"{where}: {sum(map(bool, statuses))} of {count} launchers failed")
    rows = [RECORD.unpack_from(records, RECORD.size * rank) for rank in range(count)]
    return Result(
        max(row[0] for row in rows) - began,
        sum(row[1] for row in rows),
        rows[0][1],
        statistics.median(row[2] for row in rows),
    )


def launcher(
    where: str,
    run: str,
    rank: int,
    count: int,
    options: argparse.Namespace,
    fds: Tuple[int, int],
    tokens: Tuple[int, int],
    records: mmap.mmap,
    share: int,
) -> int:
    """The whole meeting of one launcher, `share` of which are in this process; its exit status."""
    gate, say_ready = fds
    devices = tuple(Card(card, f"10.{rank >> 8}.{rank & 255}.{card}", None) for card in range(options.cards))
    names = (f"10.{100 + (rank >> 8)}.{rank & 255}.1",)
    mine = Contribution(
        os.urandom(16).hex(), rank, count, f"host{rank}", names, devices, None, None, "1", "true", run, os.getpid()
    )
    terms = Terms(job_key(run), count, (), TIMEOUT_SECONDS, options.node_timeout)
    orders = Turns(tokens if where.startswith(("/", "etcd")) else None)  # a meeting point's nodes wait for each other
    os.write(say_ready, b".")
    os.read(gate, 1)
    orders.begin()
    cpu = time.thread_time()
    if where == FLOOR:
        RECORD.pack_into(records, RECORD.size * rank, time.monotonic(), time.thread_time() - cpu, private_mib() / share)
        return 0
    held = meeting(where, run, mine, terms, find_context({}, Explicit(count, rank)))
    try:
        held.put(orders)
        agreement = held.wait_for_all(orders, lambda news: None)
        agreed = time.monotonic()
        if agreement is None or agreement.rank_of(mine.nonce) != rank:
            return 1
        record = (agreed, time.thread_time() - cpu, private_mib() / share)
        RECORD.pack_into(records, RECORD.size * rank, *record)
        orders.end()
        if rank == 0:
            stay(held, orders, records, count)
        return 0
    finally:
        held.close()


def stay(held: Meeting, orders: Orders, records: mmap.mmap, count: int) -> None:
    """The gathering launcher serves until all have read what it said."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while any(RECORD.unpack_from(records, RECORD.size * rank)[0] == 0.0 for rank in range(count)):
        if time.monotonic() > deadline:
            return
        if isinstance(held, StoreMeeting):
            with contextlib.suppress(StoreError):  # it is too busy to answer in time
                held._store.stay()
            time.sleep(0.1)
        elif isinstance(held, Server):
            held._turn(0.01, lambda news: None)


def private_mib() -> float:
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private")) / 1024


def free_port() -> int:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
