"""floods_output_and_waits.py BYTES NOTE: as floods_output.py, and then waits for the signal that ends it."""

import os
import signal
import sys

left = int(sys.argv[1])
while left:
    left -= os.write(1, b"x" * min(left, 65536))
note = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
os.write(note, b"done %s\n" % os.environb[b"RANK_ID"])
while True:
    signal.pause()
