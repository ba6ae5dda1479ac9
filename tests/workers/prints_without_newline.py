"""prints_without_newline.py: leaves its last line, which names the rank, unfinished."""

import os

os.write(1, b"a line\nthe last of %s" % os.environb[b"RANK_ID"])
