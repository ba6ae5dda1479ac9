"""Ends as it is told: ends.py RANK HOW [mpi]; ranks live half a second, since Open MPI hangs over shorter ones.

HOW is `fails` (status 3), `is_killed` (by SIGKILL), `leaves` (a process in a session of its own that holds stdout),
`waits` for ever, or `is_deaf` (to TERM, and waits). With `mpi`, all ranks meet in a barrier first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time


def say(text: str) -> None:
    os.write(1, f"rank {os.environ['RANK']} {text}\n".encode())


def on_term(signum: int, frame: object) -> None:
    say("was told to end")
    os._exit(0)


rank, how = sys.argv[1:3]
signal.signal(signal.SIGTERM, signal.SIG_IGN if how == "is_deaf" else on_term)
if "mpi" in sys.argv:
    from mpi4py import MPI

    MPI.COMM_WORLD.barrier()
say("is up")
time.sleep(0.5)
is_chosen = os.environ["RANK"] == rank
if how == "fails" and is_chosen:
    os._exit(3)
if how == "is_killed" and is_chosen:
    os.kill(os.getpid(), signal.SIGKILL)
if how == "leaves":
    if is_chosen:
        subprocess.Popen(["sleep", "1000"], start_new_session=True)
    os._exit(0)
signal.sigtimedwait([signal.SIGUSR1], 300)
