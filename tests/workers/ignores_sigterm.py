"""ignores_sigterm.py: deaf to TERM and INT; says "ready RANK PID"."""

import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.write(1, b"ready %s %d\n" % (os.environb[b"RANK_ID"], os.getpid()))
while True:
    signal.pause()
