"""What a job of the benches does on orders (gpud.testing.spoken), whatever it computes with. Standard library only.

A *step* is what a kind of work does before it could be asked whether it is done. A job that trains has some of them
under way, so that the device always finds something. Times are CLOCK_MONOTONIC seconds.
"""

import random
import statistics
import time
from collections import deque
from typing import Any, Protocol

AHEAD_MS = 4.0
"""A job that trains has about so much submitted, and at least two steps."""
BURST = 400
"""Launches in a row whose cost for the host is measured; fewer than any driver's queue holds."""


class Work(Protocol):
    """A kind of work of one framework."""

    shape: dict[str, Any]
    """What was chosen to make a step as long as it is."""

    def step(self) -> None:
        """Puts one step on the device."""

    def mark(self) -> Any:
        """Something that can be waited for: all steps so far."""

    def wait(self, mark: Any) -> None:
        """Returns when the device is past the mark."""

    def between_ms(self, first: Any, last: Any) -> float:
        """Device time from one mark to another, both past."""

    def right(self) -> bool:
        """Whether what has been computed is right. The device is idle."""


class Jobs:
    """The orders."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._work: dict[str, Work] = {}
        self._ahead: dict[str, int] = {}

    def prepare(self, kind: str, ms: float | None = None, known: dict[str, Any] | None = None) -> dict[str, Any]:
        """Makes a kind of work whose step takes about `ms` on the device. The answer is what another job needs to make
        the same (`known`), who must not measure it: one that is held would find it longer than it is."""
        work = self._work[kind] = self._make(kind, ms, known and known["shape"])
        self._steps(work, 5)
        step_ms = known["step_ms"] if known else self._step_ms(work)
        self._ahead[kind] = max(2, min(16, round(AHEAD_MS / max(step_ms, 1e-3))))
        return {"step_ms": step_ms, "shape": work.shape}

    def _step_ms(self, work: Work, steps: int = 20) -> float:
        """Device time of a step: the median of three rows of them."""
        rows = []
        for _ in range(3):
            first = work.mark()
            for _ in range(steps):
                work.step()
            last = work.mark()
            work.wait(last)
            rows.append(work.between_ms(first, last) / steps)
        return statistics.median(rows)

    def serve(self, kind: str, seconds: float, gap_ms: float, seed: int) -> dict[str, Any]:
        """Requests (a step each) that arrive at random, whether or not the one before is done."""
        work, arrivals = self._work[kind], random.Random(seed)
        start = time.monotonic() + 0.05
        due, latencies = start, []
        while (due := due + arrivals.expovariate(1000 / gap_ms)) < start + seconds:
            if (left := due - time.monotonic()) > 0:
                time.sleep(left)
            self._steps(work, 1)
            latencies.append((time.monotonic() - due) * 1e3)
        return {"latencies_ms": latencies, "right": work.right()}

    def closed(self, kind: str, seconds: float, think_ms: float) -> dict[str, Any]:
        """A request, a pause, the next request."""
        work = self._work[kind]
        start = time.monotonic()
        ends: list[float] = []
        while time.monotonic() < start + seconds:
            self._steps(work, 1)
            ends.append(time.monotonic())
            time.sleep(think_ms / 1e3)
        return {"start": start, "ends": ends, "right": work.right()}

    def train(self, kind: str, seconds: float) -> dict[str, Any]:
        """Steps back to back; when each of them was found done."""
        work = self._work[kind]
        start = time.monotonic()
        under_way: deque[Any] = deque()
        ends: list[float] = []
        while time.monotonic() < start + seconds:
            work.step()
            under_way.append(work.mark())
            if len(under_way) > self._ahead[kind]:
                work.wait(under_way.popleft())
                ends.append(time.monotonic())
        for mark in under_way:
            work.wait(mark)
            ends.append(time.monotonic())
        return {"start": start, "ends": ends, "right": work.right()}

    def burst(self, kind: str, rounds: int) -> dict[str, Any]:
        """What a step costs the host, in ns: the median over rounds of BURST steps, with the device idle in between."""
        work = self._work[kind]
        costs = []
        for _ in range(rounds):
            work.wait(work.mark())
            began = time.perf_counter_ns()
            for _ in range(BURST):
                work.step()
            costs.append((time.perf_counter_ns() - began) / BURST)
        work.wait(work.mark())
        return {"ns": statistics.median(costs), "launches": rounds * BURST}

    def steps(self, kind: str, count: int) -> dict[str, Any]:
        """So many steps, and the wait for them."""
        self._steps(self._work[kind], count)
        return {"steps": count}

    def check(self, kind: str) -> dict[str, Any]:
        """Whether all that is right."""
        return {"right": self._work[kind].right()}

    @staticmethod
    def _steps(work: Work, count: int) -> None:
        for _ in range(count):
            work.step()
        work.wait(work.mark())
