"""A job that takes the GPU for a batch and gives it back, in the three forms that gpud has for it.

    gpud run python turns.py [--form with|decorator|aio] [--batches N]

Each batch adds 1 to every element of a state on the device, a few times, and compares it with NumPy. Between two
batches the program does what needs no GPU, and another job has it. Without `gpud run` it takes turns all the same, with
a warning; without a daemon it says what to do (`GPUD_OPTIONAL=1` lets it run as if it were alone). Exit code 1:
something was computed wrong, or no turn could be had.
"""

import argparse
import asyncio
import sys
import time
import warnings
from typing import Any

import numpy as np
from numba import cuda

import gpud

SIZE, STEPS = 4096, 5
warnings.filterwarnings("ignore", message="Grid size .* low occupancy")  # small on purpose


@cuda.jit
def add_one(state: Any) -> None:
    i = cuda.grid(1)
    if i < state.size:
        state[i] += 1


class Training:
    """A state on the device, and what it must be."""

    def __init__(self) -> None:
        self._state = cuda.to_device(np.zeros(SIZE, np.int32))
        self._steps = 0

    def batch(self) -> bool:
        """A few steps; whether the state is right afterwards."""
        for _ in range(STEPS):
            add_one[SIZE // 128, 128](self._state)
        self._steps += STEPS
        return bool((self._state.copy_to_host() == self._steps).all())


def by_block(training: Training, batches: int) -> bool:
    right = True
    for _ in range(batches):
        with gpud.acquire(timeout=60) as turn:  # released at the end of the block, whatever ends it
            right &= training.batch()
            print("batch done,", "alone on the device" if turn.locked else "no turns here", flush=True)
        time.sleep(0.01)  # data for the next one
    return right


def by_decorator(training: Training, batches: int) -> bool:
    @gpud.on_gpu(timeout=60)
    def one_batch() -> bool:
        return training.batch()

    right = True
    for _ in range(batches):
        right &= one_batch()
    return right


async def by_loop(training: Training, batches: int) -> bool:
    """The loop goes on while the turn is waited for: the same under asyncio and trio."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    right = True
    for _ in range(batches):
        async with gpud.aio.acquire(timeout=60):
            right &= await asyncio.to_thread(training.batch)
        await asyncio.sleep(0.01)
    ticking.cancel()
    print(f"the loop went round {ticks} times meanwhile")
    return right and ticks > 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Takes the GPU batch by batch, with gpud.acquire.")
    parser.add_argument("--form", choices=("with", "decorator", "aio"), default="with")
    parser.add_argument("--batches", type=int, default=5)
    options = parser.parse_args()
    training = Training()
    try:
        if options.form == "aio":
            right = asyncio.run(by_loop(training, options.batches))
        else:
            right = {"with": by_block, "decorator": by_decorator}[options.form](training, options.batches)
    except gpud.TurnError as error:
        print(f"turns: no turn: {error}", file=sys.stderr)
        return 1
    print("right" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
