"""has_a_child.py: says "ready" once it has a child in its group; on USR1, "got SIGUSR1" and whether the child lives."""

import os
import signal

signums = [signal.SIGUSR1, signal.SIGTERM]
child = os.fork()
if child == 0:
    while True:
        signal.pause()
signal.pthread_sigmask(signal.SIG_BLOCK, signums)
os.write(1, b"ready\n")
while signal.sigwait(signums) == signal.SIGUSR1:
    alive = os.waitpid(child, os.WNOHANG) == (0, 0)
    os.write(1, b"child is %s; got SIGUSR1\n" % (b"alive" if alive else b"dead"))
