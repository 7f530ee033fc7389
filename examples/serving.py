"""A latency-critical service: requests arrive at random, each some short kernels and one answer.

An ordinary numba-cuda program; it knows nothing of gpud. Requests arrive by a Poisson process with a fixed seed, so
that two runs see the same arrivals, and whether or not the one before is done: a request's latency counts from its
arrival, waiting included. Every answer is compared with NumPy's.

Writes JSON lines (times are CLOCK_MONOTONIC nanoseconds): "ready" once everything is compiled and warm, "start",
and at the end "request" for each request (arrival, begin, end) and "summary". Ends with 1 when an answer was wrong.
"""

import argparse
import json
import os
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
def serve_layer(values: Any, weights: Any, rounds: int) -> None:
    i = cuda.grid(1)
    if i < values.size:
        x = values[i] ^ weights[i]
        for _ in range(rounds):
            x = (x * A + C) & MASK
        values[i] = x


# The same by another name, for requests of another length: a simulated device knows a kernel's length by its name.
@cuda.jit
def short_layer(values: Any, weights: Any, rounds: int) -> None:
    i = cuda.grid(1)
    if i < values.size:
        x = values[i] ^ weights[i]
        for _ in range(rounds):
            x = (x * A + C) & MASK
        values[i] = x


KERNELS = {"serve": serve_layer, "short": short_layer}


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


def expected(question: np.ndarray, weights: np.ndarray, rounds: int) -> np.ndarray:
    """What the layers must answer to `question`, by NumPy."""
    factor, addend = steps(rounds)
    x = question.astype(np.uint64)
    for layer in weights:
        x = ((x ^ layer.astype(np.uint64)) * np.uint64(factor) + np.uint64(addend)) & np.uint64(MASK)
    return x.astype(np.int64)


class Model:
    """Weights on the device, and one request at a time through them."""

    def __init__(self, kernel: Any, layers: int, size: int, rounds: int, random: np.random.Generator) -> None:
        self.kernel = kernel
        self.rounds = rounds
        self.weights = random.integers(0, MASK, (layers, size), dtype=np.int64)
        self._on_device = [cuda.to_device(layer) for layer in self.weights]
        self._values = cuda.device_array(size, np.int64)
        self._grid = (size + THREADS - 1) // THREADS

    def answer(self, question: np.ndarray) -> np.ndarray:
        """The request's kernels in order, then the answer on the host."""
        self._values.copy_to_device(question)
        for layer in self._on_device:
            self.kernel[self._grid, THREADS](self._values, layer, self.rounds)
        cuda.synchronize()
        return self._values.copy_to_host()  # type: ignore[no-any-return]

    def calibrate(self, kernel_ms: float) -> None:
        """Chooses the rounds so that one kernel takes about `kernel_ms` on this device."""
        question = np.zeros(self._values.size, np.int64)
        first, last = cuda.event(), cuda.event()
        self.rounds = 1000
        while True:
            first.record()
            self.answer(question)
            last.record()
            last.synchronize()
            took_ms = cuda.event_elapsed_time(first, last) / len(self._on_device)
            if took_ms > kernel_ms / 2:
                self.rounds = max(1, round(self.rounds * kernel_ms / took_ms))
                return
            self.rounds *= 2


def wait_until(when_ns: int) -> None:
    """Sleeps until CLOCK_MONOTONIC is at `when_ns`; returns at once when that is past."""
    left = when_ns - time.monotonic_ns()
    if left > 0:
        time.sleep(left / 1e9)


def serve(options: argparse.Namespace, out: TextIO) -> bool:
    """Serves for `options.seconds`; True when every answer was right."""
    random = np.random.default_rng(options.seed)
    gaps = random.exponential(options.gap, int(options.seconds * 1000 / options.gap * 3) + 100)
    offsets_ms = np.cumsum(gaps)
    offsets_ms = offsets_ms[offsets_ms < options.seconds * 1000]
    model = Model(KERNELS[options.kernel], options.kernels, options.size, options.rounds, random)
    if options.kernel_ms:
        model.calibrate(options.kernel_ms)
    questions = random.integers(0, MASK, (16, options.size), dtype=np.int64)
    answers = [expected(question, model.weights, model.rounds) for question in questions]
    for question in questions[: options.warm_up]:
        model.answer(question)

    def say(**line: object) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    say(event="ready", pid=os.getpid(), requests=len(offsets_ms), rounds=model.rounds)
    if options.wait:
        sys.stdin.readline()
    start = time.monotonic_ns() + 50_000_000
    say(event="start", start=start)
    served = []
    for number, offset_ms in enumerate(offsets_ms):
        arrival = start + int(offset_ms * 1e6)
        wait_until(arrival)
        begin = time.monotonic_ns()
        answer = model.answer(questions[number % len(questions)])
        served.append((arrival, begin, time.monotonic_ns(), answer))
    wait_until(start + int(options.seconds * 1e9))
    wrong = 0
    for number, (arrival, begin, end, answer) in enumerate(served):
        right = bool(np.array_equal(answer, answers[number % len(answers)]))
        wrong += not right
        say(event="request", number=number, arrival=arrival, begin=begin, end=end, correct=right)
    say(
        event="summary", requests=len(offsets_ms), wrong=wrong, correct=wrong == 0, start=start, end=time.monotonic_ns()
    )
    return wrong == 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Serves requests that arrive at random, and says how long each took.")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long requests arrive (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of arrivals and data (default %(default)s)")
    parser.add_argument("--gap", type=float, default=60.0, help="mean time between arrivals, ms (default %(default)s)")
    parser.add_argument("--kernels", type=int, default=10, help="kernels of a request (default %(default)s)")
    parser.add_argument("--size", type=int, default=4096, help="elements of a request (default %(default)s)")
    parser.add_argument("--kernel", choices=sorted(KERNELS), default="serve", help="which kernel (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="how often a kernel repeats itself (default %(default)s)")
    parser.add_argument(
        "--kernel-ms", type=float, default=0.0, help="choose the rounds so that a kernel takes this long here"
    )
    parser.add_argument(
        "--warm-up", type=int, default=3, help="requests before the first one counted (default %(default)s)"
    )
    parser.add_argument("--wait", action="store_true", help="once ready, wait for a line on standard input")
    parser.add_argument("--device", type=int, default=0, help="CUDA device number (default %(default)s)")
    parser.add_argument("--out", default="-", help="file for the JSON lines; - is standard output")
    options = parser.parse_args()
    if min(options.seconds, options.gap, options.kernels, options.size) <= 0:
        parser.error("--seconds, --gap, --kernels and --size must be above 0")
    cuda.select_device(options.device)
    if options.out == "-":
        return 0 if serve(options, sys.stdout) else 1
    with open(options.out, "w", encoding="utf-8") as out:
        return 0 if serve(options, out) else 1


if __name__ == "__main__":
    sys.exit(main())
