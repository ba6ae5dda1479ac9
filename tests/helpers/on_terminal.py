"""on_terminal.py COMMAND...: makes the terminal on stdin its session's own, as a login does, and becomes COMMAND."""

import fcntl
import os
import sys
import termios

if __name__ == "__main__":
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
