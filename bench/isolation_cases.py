"""What `isolation` puts beside a serving job: kernels, loads, and what a run of all cases at once came to."""

import time
from collections.abc import Mapping, Sequence

from attrs import field, frozen

from bench import device_log
from bench.simulated import FULL, Done, Load, Rig, doubt, together
from gpud.cli.sim.devicelog import DeviceLog

KERNELS = {"serve": 2.0, "small": 0.2, "long": 5.0, "graph": 0.2, "second": 0.5}
"""Model ms of each kernel."""
DELAY_NS = 300_000_000
"""Until all have understood what they are to do."""
HIGH, LOW = {"tier": "online"}, {"tier": "batch"}


@frozen(kw_only=True)
class Case:
    """One device: a serving job, `high`, and those beside it. Loads are options of `load`."""

    name: str
    kernels: int = 25
    """Of 2 ms, in one request of high: long beside the window of 2 ms, and beside what a busy machine is late."""
    load: float = 0.25
    """Of the device, that high is."""
    beside: tuple[Mapping[str, object], ...]
    window: str = "2ms"
    """GPU time that each of them may have submitted; all of them together 4 % of a request of high."""
    trains: bool
    """Those beside it want all that is idle."""

    @property
    def request_ms(self) -> float:
        """What a request of high takes alone."""
        return self.kernels * KERNELS["serve"]

    def high(self, device: int) -> dict[str, object]:
        rate = self.load / self.request_ms * 1e3
        kernels = f"serve:{FULL}:{self.kernels}"
        return {"kernels": kernels, "rate": f"{rate:g}", "poisson": 11 + device, "device": device, "warm": 2}


def _service(load: float, seed: int) -> dict[str, object]:
    """Requests of 20 ms that arrive at random."""
    return {"kernels": f"second:{FULL}:40", "rate": f"{load / 0.02:g}", "poisson": seed}


CASES = (
    Case(name="small", beside=({"kernels": f"small:{FULL}:50", "depth": 4},), trains=True),
    # One kernel of 5 ms is 5 % of such a request.
    Case(name="longkernel", kernels=50, beside=({"kernels": f"long:{FULL}:4", "depth": 4},), trains=True),
    Case(name="graph", beside=({"kernels": f"graph:{FULL}:10", "graph": 1, "depth": 4},), trains=True),
    Case(name="service", beside=(_service(0.25, 101),), trains=False),
    Case(
        name="nservices",
        load=0.10,
        beside=tuple(_service(0.15, 201 + i) for i in range(4)),
        window="500us",
        trains=False,
    ),
)


@frozen(kw_only=True)
class Figures:
    """What one case came to in one run. Model time; `wall_ms` by the program's clock, divided by the time scale."""

    latencies_ms: tuple[float, ...]
    wall_ms: tuple[float, ...]
    high_busy: float
    """Of the window."""
    low_busy: float
    """Those beside high, together."""
    overrun: float
    """Of the whole node: device time that was waiting for late computations."""


@frozen(kw_only=True)
class _Placed:
    case: Case
    device: int
    high: Load
    beside: list[Load] = field(factory=list)


def run(
    rig: Rig, cases: Sequence[Case], seconds: float, *, managed: bool, settle_s: float = 0.0, beside: int = 0
) -> dict[str, Figures]:
    """All cases at once, each on a device of its own, for so many seconds of wall time after `settle_s`.

    What arrives, arrives at the same times after `settle_s` in each run: that is a command of its own, which begins
    from the seed. `beside`: how many devices further those are that belong beside high (0: where it is; -1: they do
    not take part).
    """
    placed = []
    for device, case in enumerate(cases):
        high = rig.load(HIGH if managed else None, **case.high(device))
        options = [{**one, "device": device + beside, "warm": 2} for one in case.beside if beside >= 0]
        lows = [rig.load(LOW if managed else None, **one) for one in options]
        placed.append(_Placed(case=case, device=device, high=high, beside=lows))
    loads = [load for place in placed for load in (place.high, *place.beside)]
    at = together(loads, settle_s) + round(settle_s * 1e9) if settle_s else time.monotonic_ns() + DELAY_NS
    for load in loads:
        load.begin(f"for {seconds} {at}")
    time.sleep(max(at / 1e9 + seconds - time.monotonic(), 0))
    said = {}
    for place in placed:
        if settle_s:
            place.high.done()
        said[place.high.pid] = place.high.done()
        for low in place.beside:
            rig.loads.remove(low)  # killed with the node: what it still has to do may take minutes
    log = rig.log()
    first, last = log.model_ns(at), log.model_ns(at + round(seconds * 1e9))
    return {place.case.name: _figures(place, log, said[place.high.pid], first, last) for place in placed}


def _figures(place: _Placed, log: DeviceLog, said: Done, first: int, last: int) -> Figures:
    requests = said.requests
    high = device_log.intervals(device_log.work_of(log, [place.high.pid]))
    low = device_log.intervals(device_log.work_of(log, [load.pid for load in place.beside]))
    scale = log.header.time_scale
    return Figures(
        latencies_ms=tuple(device_log.latencies_ms(log, place.high.pid, requests, place.case.kernels)),
        wall_ms=tuple((one.end_ns - one.arrival_ns) / 1e6 / scale for one in requests),
        high_busy=device_log.within(high, first, last) / (last - first),
        low_busy=device_log.within(low, first, last) / (last - first),
        overrun=doubt(log),
    )
