"""exits_on_usr1.py: says "ready RANK PID"; exits with 40 + RANK on SIGUSR1, with 99 on SIGTERM."""

import os
import signal

signums = [signal.SIGUSR1, signal.SIGTERM]
signal.pthread_sigmask(signal.SIG_BLOCK, signums)
os.write(1, b"ready %s %d\n" % (os.environb[b"RANK_ID"], os.getpid()))
os._exit(99 if signal.sigwait(signums) == signal.SIGTERM else 40 + int(os.environ["RANK_ID"]))
