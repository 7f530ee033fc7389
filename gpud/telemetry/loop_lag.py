"""How long whoever wants the daemon's loop has to wait for it: measured by the loop itself, whenever it runs anyway."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from gpud.telemetry.metric_values import Histograms

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class LoopLag(trio.abc.Instrument):
    """Two figures for each round of the loop, of which the longer one counts: how late an alarm woke it (the machine
    had no time for it), and how long it was at work until it could listen again (what came meanwhile had to wait)."""

    def __init__(self, now: Callable[[], int] = time.monotonic_ns) -> None:
        self.histogram = Histograms(BOUNDS)
        self._now = now
        self._slept_ns = self._woke_ns = self._late_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        self._slept_ns = now = self._now()
        if self._woke_ns:
            self.histogram.add((), max(now - self._woke_ns, self._late_ns))

    def after_io_wait(self, timeout: float) -> None:
        self._woke_ns = now = self._now()
        asked_ns = timeout * 1e9
        # trio waits for a day where there is no alarm; who was woken by something else was not late.
        self._late_ns = max(int(now - self._slept_ns - asked_ns), 0) if asked_ns else 0


@contextmanager
def open_loop_lag() -> Iterator[LoopLag]:
    """Measures the running loop until left."""
    lag = LoopLag()
    trio.lowlevel.add_instrument(lag)
    try:
        yield lag
    finally:
        trio.lowlevel.remove_instrument(lag)
