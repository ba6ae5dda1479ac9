"""with_blocked_signals.py COMMAND...: becomes COMMAND with the signals blocked that launchers live by."""

import os
import signal
import sys

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
    os.execvp(sys.argv[1], sys.argv[1:])
