"""fails_when_told.py RANK HOW: says "ready RANK PID" and waits; on USR1 rank RANK exits with HOW, or dies of it."""

import os
import signal
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b"ready %s %d\n" % (os.environb[b"RANK_ID"], os.getpid()))
signal.sigwait([signal.SIGUSR1])
if os.environ["RANK_ID"] == sys.argv[1]:
    if sys.argv[2].startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    os._exit(int(sys.argv[2]))
while True:
    signal.pause()
