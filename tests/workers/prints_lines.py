"""prints_lines.py COUNT [NOTE]: prints lines "line N of RANK"; then writes "done RANK" to the file NOTE."""

import os
import sys

rank = os.environ["RANK_ID"]
for number in range(int(sys.argv[1])):
    os.write(1, ("line %d of %s\n" % (number, rank)).encode())
if len(sys.argv) > 2:
    note = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)
    os.write(note, b"done %s\n" % rank.encode())
