"""leaves_grandchild.py WHERE THEN [deaf]: leaves a process behind that holds its output open, and then

THEN = waits, or a status to exit with. WHERE = group: a child in the worker's process group; session: an orphan in a
session of its own, as a double fork makes it. A deaf one ignores TERM. Says "ready RANK PID" when it is there.
"""

import os
import signal
import sys

where, then = sys.argv[1:3]
is_there, tell = os.pipe()


def stay():
    if "deaf" in sys.argv[3:]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(tell, b"x")
    while True:
        signal.pause()


if os.fork() == 0:
    if where == "group":
        stay()
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
os.read(is_there, 1)
if where == "session":
    os.wait()
os.write(1, b"ready %s %d\n" % (os.environb[b"RANK_ID"], os.getpid()))
while then == "waits":
    signal.pause()
os._exit(int(then))
