"""saves_on_sigterm.py: says "ready RANK PID"; on TERM it says "saving RANK", then "saved RANK", and ends."""

import os
import signal

rank = os.environb[b"RANK_ID"]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
os.write(1, b"ready %s %d\n" % (rank, os.getpid()))
signal.sigwait([signal.SIGTERM])
os.write(1, b"saving %s\n" % rank)
os.write(1, b"saved %s\n" % rank)
