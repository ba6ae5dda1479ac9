"""exits_with.py HOW [RANK]: ends with the code, or by the signal, HOW; given a RANK, the others wait to be stopped."""

import os
import resource
import signal
import sys

how = sys.argv[1]
if len(sys.argv) > 2 and os.environ["RANK_ID"] != sys.argv[2]:
    while True:
        signal.pause()
if how.startswith("SIG"):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), getattr(signal, how))
sys.exit(int(how))
