"""counts_sigints.py: says "ready"; after the first INT it counts those that come until TERM, or within 0.3 s."""

import os
import signal

signums = [signal.SIGTERM, signal.SIGINT]
signal.pthread_sigmask(signal.SIG_BLOCK, signums)
os.write(1, b"ready\n")
count = int(signal.sigwait(signums) == signal.SIGINT)
while True:
    more = signal.sigtimedwait(signums, 0.3)
    if more is None or more.si_signo == signal.SIGTERM:
        break
    count += 1
os.write(1, b"SIGINTs: %d\n" % count)
