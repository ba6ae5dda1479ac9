"""The benchmark's worker where no C compiler is: the roles of worker.c, which says what they are."""

from __future__ import annotations

import json
import mmap
import os
import re
import signal
import struct
import sys
import time

STARTED, PID, CHILD, SESSION_CHILD, ENDED, CPU = range(0, 48, 8)
RECORD_BYTES = 64
BLOCK_BYTES = 8192


def main(arguments: list[str]) -> int:
    started = time.monotonic_ns()
    if arguments[0] == "drain":
        return drain(arguments[1])
    if arguments[0] == "check":
        return check(arguments[1])
    state_path, role, *details = arguments
    rank = int(os.environ.get("RANK_ID") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0)
    state = open_state(state_path)
    if details[:1] == ["deaf"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(state, rank, PID, os.getpid())
    if role == "family":
        have_a_family(state, rank)
    note(state, rank, STARTED, started)
    if role == "true":
        return 0
    if role == "fail" and rank == 1:
        fail_after_all_run(state, int(details[1]), int(details[2]) / 1000)
    if role == "print":
        print_lines(rank, int(details[0]))
        note(state, rank, CPU, int(time.process_time() * 1e9))
        note(state, rank, ENDED, time.monotonic_ns())
        if details[1] == "end":
            return 0
    sleep_until_killed()
    return 0


def open_state(path: str) -> mmap.mmap:
    with open(path, "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


def note(state: mmap.mmap, rank: int, field: int, value: int) -> None:
    struct.pack_into("<q", state, rank * RECORD_BYTES + field, value)


def sleep_until_killed() -> None:
    signal.alarm(900)  # should the benchmark itself be killed
    while True:
        signal.pause()


def have_a_family(state: mmap.mmap, rank: int) -> None:
    for field in (CHILD, SESSION_CHILD):
        child = os.fork()
        if not child:
            if field == SESSION_CHILD:
                os.setsid()
            sleep_until_killed()
        note(state, rank, field, child)


def fail_after_all_run(state: mmap.mmap, workers: int, delay_seconds: float) -> None:
    while not all(struct.unpack_from("<q", state, rank * RECORD_BYTES + STARTED)[0] for rank in range(workers)):
        time.sleep(0.002)
    time.sleep(delay_seconds)
    note(state, 1, ENDED, time.monotonic_ns())
    os._exit(3)


def line(rank: int, number: int) -> bytes:
    return b"rank %04d line %010d %s\n" % (rank, number, bytes([97 + (rank * 7 + number) % 26]) * 73)


def print_lines(rank: int, lines: int) -> None:
    with os.fdopen(1, "wb", BLOCK_BYTES, closefd=False) as output:
        for number in range(lines):
            output.write(line(rank, number))


def drain(path: str) -> int:
    with open(path, "wb") as file:
        while True:
            text = os.read(0, 1 << 17)
            if not text:
                return 0
            file.write(text)


def check(path: str) -> int:
    counts = {"whole": 0, "broken": 0, "disordered": 0}
    following: dict[int, int] = {}
    with open(path, "rb") as file:
        for text in file:
            numbers = re.match(rb"rank (\d{4}) line (\d{10}) ", text)
            rank, number = map(int, numbers.groups()) if numbers else (-1, -1)
            if numbers and text == line(rank, number):
                counts["whole"] += 1
                counts["disordered"] += number != following.get(rank, 0)
                following[rank] = number + 1
            else:
                counts["broken"] += bool(re.search(rb"([a-z])\1{29}", text))
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
