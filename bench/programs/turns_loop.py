"""turns_loop.py COUNT: COUNT times acquire and release in Python, nobody else there. Says `ready PID`, then the
nanoseconds of each pair."""

import ctypes
import os
import sys
import time

import gpud


def main() -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    if driver.cuInit(0) or driver.cuCtxCreate_v2(ctypes.byref(context), 0, 0):
        sys.exit("turns_loop: the driver does not start")
    print("ready", os.getpid(), flush=True)
    took = []
    for _ in range(int(sys.argv[1])):
        begin = time.monotonic_ns()
        with gpud.acquire(0) as turn:
            pass
        took.append(time.monotonic_ns() - begin)
        if not turn.locked:
            sys.exit("turns_loop: nobody takes turns here")
    print("\n".join(map(str, took)))


if __name__ == "__main__":
    main()
