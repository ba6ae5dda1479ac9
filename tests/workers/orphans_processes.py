"""orphans_processes.py COUNT: leaves COUNT processes to others, waits for their end and then for their reaping.

Says "orphans: COUNT, zombies: N", N being those that nobody has reaped within ten seconds.
"""

import os
import select
import sys
import time

is_alive, tell = os.pipe()
names, name = os.pipe()
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(name, b"%d\n" % os.getpid())
            os.close(tell)
        os._exit(0)
    os.wait()
os.close(tell)
os.read(is_alive, 1)  # the end of file: no orphan has it open any more
pids = os.read(names, 65536).split()
deadline = time.monotonic() + 10
left = pids
while left and time.monotonic() < deadline:
    select.select([], [], [], 0.005)
    left = [pid for pid in left if os.path.exists(b"/proc/" + pid)]
os.write(1, b"orphans: %d, zombies: %d\n" % (len(pids), len(left)))
