"""A job that needs most of the GPU's memory, and uses all of it in each round. It knows nothing of gpud.

    gpud run python large.py --percent 80 &
    gpud run python large.py --percent 80       # a second one: both end, and both are right

An ordinary numba-cuda program: it fills its share of the device's memory with numbers, adds to every one of them by a
kernel in each round, and at the end compares all with NumPy. Between two rounds it does something else for a moment, as
programs do. Says `round N`, and `right` at the end; exit code 1 when something was wrong.
"""

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np
from numba import cuda

PIECE = 16 << 20
"""Bytes of an array."""
COUNT = PIECE // 8
warnings.simplefilter("ignore")  # numba finds the grids small


@cuda.jit
def fill(numbers: Any, first: int) -> None:
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        numbers[i] = first + i * 7


@cuda.jit
def add(numbers: Any, amount: int) -> None:
    for i in range(cuda.grid(1), numbers.size, cuda.gridsize(1)):
        numbers[i] += amount


def main() -> int:
    parser = argparse.ArgumentParser(description="Uses most of the device's memory, again and again.")
    parser.add_argument("--percent", type=int, default=80, help="of the device's memory (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="how often all of it is used (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between rounds (default %(default)s)")
    parser.add_argument("--late", action="store_true", help="load the kernels when the memory is taken already")
    options = parser.parse_args()
    if not options.late:
        tiny = cuda.device_array(1, np.int64)
        fill[1, 32](tiny, 0)
        add[1, 32](tiny, 0)
    total = cuda.current_context().get_memory_info().total
    pieces = [cuda.device_array(COUNT, np.int64) for _ in range(total * options.percent // 100 // PIECE)]
    print(f"{len(pieces) * PIECE >> 20} of {total >> 20} MiB", flush=True)
    for number, piece in enumerate(pieces):
        fill[32, 128](piece, options.seed * 1_000_003 + number)
    for amount in range(1, options.rounds + 1):
        for piece in pieces:
            add[32, 128](piece, amount)
        cuda.synchronize()
        print(f"round {amount}", flush=True)
        time.sleep(options.pause)
    plain = np.arange(COUNT, dtype=np.int64) * 7 + options.rounds * (options.rounds + 1) // 2
    wrong = 0
    for number, piece in enumerate(pieces):
        wrong += not np.array_equal(piece.copy_to_host(), plain + options.seed * 1_000_003 + number)
    print("right" if not wrong else f"WRONG in {wrong} of {len(pieces)} pieces", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
