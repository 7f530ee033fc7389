"""`python -m gpud.cli.demo.leash COMMAND…`: becomes COMMAND, which gets SIGTERM when the demo above it is killed.

A process of its own sets this, since code between fork and exec in a program with threads can hang.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it was killed before
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
