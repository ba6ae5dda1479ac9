"""Shows what has arrived: its arguments, and the variables whose names begin with MA_T_ or CRED, as hexadecimal."""

from __future__ import annotations

import os
import sys
import time

variables = sorted(item for item in os.environb.items() if item[0].startswith((b"MA_T_", b"CRED")))
arguments = [os.fsencode(argument) for argument in sys.argv[1:]]
shown = [b"=".join(item).hex() for item in variables] + [argument.hex() for argument in arguments]
sys.stdout.write(f"rank {os.environ['RANK']} in {os.getcwd()} has {' '.join(word or '-' for word in shown)}\n")
sys.stdout.flush()
time.sleep(0.5)  # Open MPI hangs now and then when ranks end at once
