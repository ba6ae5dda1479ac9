"""prints_signals.py: says "ready RANK PID", then "got NAME RANK" for each signal; TERM and INT end it with status 0."""

import os
import signal

SHOWN = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
rank = os.environ["RANK_ID"]
signums = [getattr(signal, name) for name in SHOWN]
signal.pthread_sigmask(signal.SIG_BLOCK, signums)
os.write(1, ("ready %s %d\n" % (rank, os.getpid())).encode())
name = ""
while name not in ("SIGTERM", "SIGINT"):
    name = signal.Signals(signal.sigwait(signums)).name
    os.write(1, ("got %s %s\n" % (name, rank)).encode())
