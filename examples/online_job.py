"""A model that is trained online: every 15 minutes data arrive that it trains on for 2. A job of online_training.py.

An ordinary numba-cuda program with two lines for gpud. It says `ready`, is told on standard input when the first data
arrive (CLOCK_MONOTONIC seconds), and writes a line of JSON for each batch. With `--mib` it holds so much memory on the
device as well. All that it computes and holds is compared with NumPy.
"""

import argparse
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from numba import cuda

import gpud

SIZE = 4096
warnings.simplefilter("ignore")  # the grids are small on purpose


@cuda.jit
def train_step(state: Any) -> None:
    i = cuda.grid(1)
    if i < state.size:
        state[i] = (state[i] * 5 + 1) % 65521


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Trains whenever its data arrive.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--every", type=float, default=15 * 60.0, help="seconds between arrivals (default %(default)s)")
    parser.add_argument("--steps", type=int, default=30_000, help="of a batch (default %(default)s)")
    parser.add_argument("--mib", type=int, default=0, help="device memory that it holds beside its state")
    options = parser.parse_args()
    expected = np.full(SIZE, options.seed, np.int64)
    weights = np.random.default_rng(options.seed).integers(0, 1 << 62, options.mib << 17, dtype=np.int64)
    with gpud.acquire():
        state, held = cuda.to_device(expected), cuda.to_device(weights)
        train_step[SIZE // 128, 128](cuda.to_device(expected))  # compiled before the data are there
        cuda.synchronize()
    say(ready=True)
    begin = float(sys.stdin.readline())
    for batch in range(options.batches):
        arrives = begin + batch * options.every
        time.sleep(max(arrives - time.monotonic(), 0))
        with gpud.acquire():
            started = time.monotonic()
            for _ in range(options.steps):
                train_step[SIZE // 128, 128](state)
            found = state.copy_to_host()
        done = time.monotonic()
        for _ in range(options.steps):
            expected = (expected * 5 + 1) % 65521
        say(arrives=arrives, started=started, done=done, right=bool((found == expected).all()))
    with gpud.acquire():
        right = bool((held.copy_to_host() == weights).all())
    say(weights_right=right)
    return 0


if __name__ == "__main__":
    sys.exit(main())
