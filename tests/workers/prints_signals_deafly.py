"""prints_signals_deafly.py: says "ready RANK PID", then "got NAME RANK" for each TERM and INT, and goes on."""

import os
import signal

rank = os.environ["RANK_ID"]
signums = [signal.SIGTERM, signal.SIGINT]
signal.pthread_sigmask(signal.SIG_BLOCK, signums)
os.write(1, ("ready %s %d\n" % (rank, os.getpid())).encode())
while True:
    name = signal.Signals(signal.sigwait(signums)).name
    os.write(1, ("got %s %s\n" % (name, rank)).encode())
