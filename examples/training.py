"""A batch job: longer kernels back to back, as fast as the device lets it, until its time is over or SIGTERM comes.

An ordinary numba-cuda program; it knows nothing of gpud. Each `--every` steps it copies its state to the host and
compares it with a replay by NumPy, while the device goes on with the next steps.

Writes JSON lines (times are CLOCK_MONOTONIC nanoseconds): "ready" once everything is compiled and warm, "progress"
after each comparison, "summary" at the end. Ends with 1 when the state was wrong.
"""

import argparse
import json
import os
import signal
import sys
import time
import warnings
from typing import Any, TextIO

import numpy as np
from numba import cuda

A, C, MASK = 1664525, 1013904223, 0xFFFFFFFF
THREADS = 128
warnings.filterwarnings("ignore", message="Grid size .* low occupancy")  # small on purpose


@cuda.jit
def train_step(state: Any, data: Any, step: int, rounds: int) -> None:
    i = cuda.grid(1)
    if i < state.size:
        x = state[i] ^ data[(i + step) % data.size]
        for _ in range(rounds):
            x = (x * A + C) & MASK
        state[i] = x


def steps(rounds: int) -> tuple[int, int]:
    """`rounds` times x → (A·x + C) mod 2³² as one such step: its factor and its addend."""
    factor, addend = 1, 0
    f, a = A, C
    while rounds:
        if rounds & 1:
            factor, addend = factor * f & MASK, (addend * f + a) & MASK
        f, a = f * f & MASK, (a * f + a) & MASK
        rounds >>= 1
    return factor, addend


class Replay:
    """The same training by NumPy."""

    def __init__(self, state: np.ndarray, data: np.ndarray, rounds: int) -> None:
        self.state = state.astype(np.uint64)
        self._data = data.astype(np.uint64)
        self._factor, self._addend = (np.uint64(number) for number in steps(rounds))
        self._step = 0

    def advance(self, count: int) -> np.ndarray:
        """The state after `count` more steps."""
        for _ in range(count):
            mixed = self.state ^ np.roll(self._data, -(self._step % self._data.size))
            self.state = (mixed * self._factor + self._addend) & np.uint64(MASK)
            self._step += 1
        return self.state.astype(np.int64)


class Training:
    """The state on the device."""

    def __init__(self, size: int, rounds: int, random: np.random.Generator) -> None:
        self.rounds = rounds
        self.first = random.integers(0, MASK, size, dtype=np.int64)
        self.data = random.integers(0, MASK, size, dtype=np.int64)
        self._state = cuda.to_device(self.first)
        self._data = cuda.to_device(self.data)
        self._grid = (size + THREADS - 1) // THREADS
        self.step = 0

    def launch(self, count: int) -> None:
        """Puts `count` steps on the device."""
        for _ in range(count):
            train_step[self._grid, THREADS](self._state, self._data, self.step, self.rounds)
            self.step += 1

    def state(self) -> np.ndarray:
        """Waits for the steps launched so far and copies the state."""
        cuda.synchronize()
        return self._state.copy_to_host()  # type: ignore[no-any-return]

    def restart(self) -> None:
        """Back to the first state."""
        cuda.synchronize()
        self._state.copy_to_device(self.first)
        self.step = 0

    def calibrate(self, kernel_ms: float) -> None:
        """Chooses the rounds so that one step takes about `kernel_ms` on this device."""
        first, last = cuda.event(), cuda.event()
        self.rounds = 1000
        while True:
            first.record()
            self.launch(4)
            last.record()
            last.synchronize()
            took_ms = cuda.event_elapsed_time(first, last) / 4
            if took_ms > kernel_ms / 2:
                self.rounds = max(1, round(self.rounds * kernel_ms / took_ms))
                return
            self.rounds *= 2


def train(options: argparse.Namespace, out: TextIO) -> bool:
    """Trains until the time is over or SIGTERM comes; True when the state was right each time."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    training = Training(options.size, options.rounds, np.random.default_rng(options.seed))
    if options.kernel_ms:
        training.calibrate(options.kernel_ms)
    training.launch(2)
    training.restart()
    replay = Replay(training.first, training.data, training.rounds)

    def say(**line: object) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    wrong = checks = 0
    start = time.monotonic_ns()
    say(event="ready", pid=os.getpid(), start=start, rounds=training.rounds)
    training.launch(options.every)
    going_on = True
    while going_on:
        state = training.state()
        now, done = time.monotonic_ns(), training.step
        going_on = not stopped and now - start < options.seconds * 1e9
        if going_on:
            training.launch(options.every)
        right = bool(np.array_equal(state, replay.advance(options.every)))
        wrong += not right
        checks += 1
        say(event="progress", steps=done, time=now, correct=right)
    end = time.monotonic_ns()
    say(event="summary", steps=done, checks=checks, wrong=wrong, correct=wrong == 0, start=start, end=end)
    return wrong == 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Trains as fast as the device lets it, and checks its state against NumPy."
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="how long, at most (default %(default)s)")
    parser.add_argument("--seed", type=int, default=2, help="of the data (default %(default)s)")
    parser.add_argument(
        "--every", type=int, default=50, help="steps from one comparison to the next (default %(default)s)"
    )
    parser.add_argument("--size", type=int, default=4096, help="elements of the state (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often a step repeats itself (default %(default)s)")
    parser.add_argument(
        "--kernel-ms", type=float, default=0.0, help="choose the rounds so that a step takes this long here"
    )
    parser.add_argument("--device", type=int, default=0, help="CUDA device number (default %(default)s)")
    parser.add_argument("--out", default="-", help="file for the JSON lines; - is standard output")
    options = parser.parse_args()
    if min(options.seconds, options.every, options.size) <= 0:
        parser.error("--seconds, --every and --size must be above 0")
    cuda.select_device(options.device)
    if options.out == "-":
        return 0 if train(options, sys.stdout) else 1
    with open(options.out, "w", encoding="utf-8") as out:
        return 0 if train(options, out) else 1


if __name__ == "__main__":
    sys.exit(main())
