"""floods_output.py BYTES [NOTE]: prints so many "x" and no line end; then writes "done RANK" to the file NOTE."""

import os
import sys

left = int(sys.argv[1])
while left:
    left -= os.write(1, b"x" * min(left, 65536))
if len(sys.argv) > 2:
    note = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
    os.write(note, b"done %s\n" % os.environb[b"RANK_ID"])
