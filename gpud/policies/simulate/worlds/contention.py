"""Two classes launch as fast as they can, or may, on a device that does so many launches a second.

What both want beyond its capacity is done in proportion to what each wants: who offers three times as much gets three
times as much. That is how a device without a gate treats two tenants, and why `high` is hurt. Rates are means of the
last 100 ms, as the daemon measures them.

Each launch takes the device for 1/`capacity`. While it cannot do all that is wanted, launches of `low` stand in a
queue, as many as its window allows (`depth` without one), and whatever is launched starts behind them. A window in GPU
time goes by what launches are thought to cost: they take `misjudged` times that.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from attrs import define, field

from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.grains import TICK_NS
from gpud.policies.simulate.worlds.kind import Knob, Setup

WINDOW_NS = 100_000_000
_SECOND = 1_000_000_000
_OF_DEVICE = ("capacity", "blocks", "depth", "misjudged")


@define
class Side:
    """One of the two classes."""

    name: str
    role: str
    """`high`, `low`."""
    demand: float
    paused: bool = False
    max_launch_rate: float = UNLIMITED
    max_block_rate: float = UNLIMITED
    max_compute: float = UNLIMITED
    max_inflight: float = UNLIMITED
    max_inflight_time: float = UNLIMITED
    rates: deque[tuple[int, float]] = field(factory=deque)
    """(since, launches a second), as far back as the window reaches."""

    def offered(self, capacity: float, blocks: float) -> float:
        """Launches a second that reach the device."""
        if self.paused or not self.max_compute:
            return 0.0
        of_blocks = self.max_block_rate / blocks if blocks else UNLIMITED
        return min(self.demand, self.max_launch_rate, of_blocks, self.max_compute * capacity)

    def now_at(self, rate: float, now: int) -> None:
        while self.rates and self.rates[-1][0] >= now:
            self.rates.pop()
        if not self.rates or self.rates[-1][1] != rate:
            self.rates.append((now, rate))

    def measured(self, now: int) -> float:
        """Launches a second over the last 100 ms; before the beginning there were none."""
        begin = now - WINDOW_NS
        while len(self.rates) > 1 and self.rates[1][0] <= begin:
            self.rates.popleft()
        if len(self.rates) == 1 and self.rates[0][0] <= begin:
            return self.rates[0][1]
        launches, until = 0.0, now
        for since, rate in reversed(self.rates):
            launches += rate * (until - max(since, begin))
            until = since
        return launches / WINDOW_NS


@define
class Contention:
    """A running world."""

    capacity: float
    blocks: float
    depth: float
    misjudged: float
    sides: tuple[Side, Side]
    delay_ns: float = 0
    """From launch to start."""

    @classmethod
    def begin(cls, setup: Setup) -> "Contention":
        given = setup.arguments
        high, low = (Side(given[role], role, given[f"{role}_demand"]) for role in ("high", "low"))
        world = cls(given["capacity"], given["blocks"], given["depth"], given["misjudged"], (high, low))
        world._settle(setup.now)
        return world

    def set(self, name: str, value: Any, now: int) -> None:
        if name in _OF_DEVICE:
            setattr(self, name, value)
        for side in self.sides:
            if name == f"{side.role}_demand":
                side.demand = value
        self._settle(now)

    def decided(self, knob: Knob, now: int) -> None:
        for side in self.sides:
            side.paused = knob(side.name, "pause")
            side.max_launch_rate = knob(side.name, "max_launch_rate")
            side.max_block_rate = knob(side.name, "max_block_rate")
            side.max_compute = knob(side.name, "max_compute")
            side.max_inflight = knob(side.name, "max_inflight")
            side.max_inflight_time = knob(side.name, "max_inflight_time")
        self._settle(now)

    def _settle(self, now: int) -> None:
        high, low = (side.offered(self.capacity, self.blocks) for side in self.sides)
        done = 1.0 if high + low <= self.capacity else self.capacity / (high + low)
        self.sides[0].now_at(high * done, now)
        self.sides[1].now_at(low * done, now)
        self.delay_ns = self._queue_ns() if done < 1 and low else 0

    def _queue_ns(self) -> float:
        """GPU time of what `low` has submitted: a launch at least."""
        if not self.capacity:
            return 0
        launch_ns, low = _SECOND / self.capacity, self.sides[1]
        thought_ns = launch_ns / self.misjudged if self.misjudged else UNLIMITED
        return launch_ns * max(min(self.depth, low.max_inflight, low.max_inflight_time // thought_ns), 1)

    def signals(self, now: int) -> Iterable[tuple[str, Any]]:
        total = 0.0
        for side in self.sides:
            rate = side.measured(now)
            total += rate
            yield f"{side.name}.launch_rate", rate
            yield f"{side.name}.block_rate", rate * self.blocks
            yield f"{side.name}.busy", rate / self.capacity if self.capacity else 0.0
            yield f"{side.name}.delay_p99", round(self.delay_ns) if side.rates[-1][1] > 0 else 0
            yield f"{side.name}.active", side.rates[-1][1] > 0
            yield f"{side.name}.tenants", 1
        yield "gpu.busy", total / self.capacity if self.capacity else 0.0

    def next_ns(self, now: int) -> int | None:
        moving = any(side.rates[-1][0] > now - WINDOW_NS for side in self.sides)
        return now + TICK_NS if moving else None

    def reading(self, name: str, now: int) -> Any:
        if name in _OF_DEVICE:
            return getattr(self, name)
        return next(side.demand for side in self.sides if name == f"{side.role}_demand")
