r"""prints.py TEXT...: prints each TEXT, which may hold \n, \r, \x00 and the like, by one write, on stdout and stderr in turn."""

import os
import sys

for index, text in enumerate(sys.argv[1:]):
    os.write(1 + index % 2, text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
