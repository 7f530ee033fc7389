"""gpud's metrics for Prometheus: names, labels and what they mean, in one place. All are made at a scrape, of the rows
that screens see, of pages and of what was counted; between scrapes nothing is done for them but counting.

Labels are class, device (`gpu`: its number, as everywhere in gpud; `gpud_gpu_info` has its UUID) and words of ours: how
many series there are does not depend on how many jobs there are.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator

import trio
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition
from prometheus_client.registry import Collector

from gpud.engine.live import Rows
from gpud.engine.state import State
from gpud.model.units import MILLISECOND
from gpud.telemetry.gpu_time import Sums
from gpud.telemetry.loop_lag import LoopLag
from gpud.telemetry.metric_values import NONE, Counts, Histograms, clean
from gpud.telemetry.tally import Tally, TraceOf

STATES = ("queued", "starting", "active", "held", "paused", "swapped", "idle")
"""Of jobs, as in live_views.JobRow."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = exposition.CONTENT_TYPE_LATEST
TOGETHER_NS = 100 * MILLISECOND
"""Who asks so soon after another gets the same bytes …"""
PART_OF_CPU = 20
"""… and where they are dear, within the time in which making them takes a twentieth of a core."""


class _Scrape(Collector):
    """The library asks it for everything, at a scrape."""

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


class Metrics:
    """Of one engine, to whose task it belongs. `counters`: what pages say now; `rows`: of now, or of a moment ago;
    `look`: lets the engine hear what the driver says now, never raises, never waits for long. Its `tally` wants to hear
    of each event (`Engine.observe`) and of each reload."""

    def __init__(
        self,
        state: State,
        counters: Callable[[], Sums],
        rows: Callable[[], Rows],
        lag: LoopLag,
        now: Callable[[], int],
        trace_of: TraceOf,
        look: Callable[[], Awaitable[None]],
    ) -> None:
        self.tally = Tally(state, trace_of, now())
        self._state, self._counters, self._rows, self._lag, self._now = state, counters, rows, lag, now
        self._look, self._making = look, trio.Lock()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Scrape(self._families))
        self._made: dict[str, tuple[int, int, bytes]] = {}
        """Form → when it was made, how long that took, and what was made."""

    async def page(self, accept: str) -> tuple[bytes, str]:
        """All of them, and the form in which they are: OpenMetrics, which has exemplars, for who takes it."""
        form = OPENMETRICS if "application/openmetrics-text" in accept else TEXT
        async with self._making:  # who asks meanwhile gets the same
            when, took, body = self._made.get(form, (0, 0, b""))
            if not body or self._now() - when >= max(TOGETHER_NS, took * PART_OF_CPU):
                await self._look()
                began = self._now()
                body = self.make(form)
                self._made[form] = began, self._now() - began, body
        return body, form

    def make(self, form: str) -> bytes:
        """Of now."""
        return (exposition.generate_latest if form == OPENMETRICS else generate_latest)(self._registry)

    def _families(self) -> Iterator[Metric]:
        now, sums, rows, tally = self._now(), self._counters(), self._rows(), self.tally
        tally.begin()
        tally.gpu_time.look(sums, now)
        yield self._jobs(rows)
        yield from _devices(rows, sums)
        yield self._shares(rows, now)
        text = "GPU time that jobs were charged, as far as it can have been worked off."
        yield _counter("gpud_gpu_busy_seconds", text, ("gpu", "class"), tally.gpu_time.busy_ns, 1e9)
        text = "Launches that were held at the gate."
        yield _counter("gpud_hook_held_launches", text, ("gpu", "class"), tally.gpu_time.held)
        text = "How long jobs waited to be let in (admission), or for a device of which they asked their turn (turn)."
        yield _histogram("gpud_job_wait_seconds", text, ("class", "kind"), tally.waits)
        text = "How long jobs had a device, turn by turn, once their memory was in."
        yield _histogram("gpud_turn_hold_seconds", text, ("class",), tally.holds)
        text = "How long memory of a process took to leave a device (out), or to come in for a turn (in)."
        yield _histogram("gpud_swap_seconds", text, ("gpu", "direction"), tally.swaps)
        text = "Memory that was moved between devices and the host."
        yield _counter("gpud_swap_bytes", text, ("gpu", "direction"), tally.swapped)
        text = "Turns that were asked back from their jobs."
        yield _counter("gpud_preemptions", text, ("gpu", "class"), tally.preemptions)
        text = "How often a process was asked to let memory of a device go."
        yield _counter("gpud_evictions", text, ("gpu", "class"), tally.evictions)
        text = "Changes of the policies that were applied or rejected, and policies that were struck out."
        yield _counter("gpud_policy_reloads", text, ("result",), tally.reloads)
        text = "How long whoever wanted the daemon's loop had to wait for it."
        yield _histogram("gpud_loop_lag_seconds", text, (), self._lag.histogram)

    def _jobs(self, rows: Rows) -> Metric:
        family = GaugeMetricFamily("gpud_jobs", "Jobs, by what they do.", labels=("class", "state"))
        counts = Counter((self.tally.label(row.job_class), row.state) for row in rows.jobs.values())
        classes = dict.fromkeys(one for slot in sorted(self._state.runs) for one in self.tally.classes_on(slot))
        classes |= dict.fromkeys(job_class for job_class, _ in counts)
        for job_class in classes or (NONE,):
            for state in STATES:
                family.add_metric((job_class, state), counts[job_class, state])
        return family

    def _shares(self, rows: Rows, now: int) -> Metric:
        """Of classes of the policy that arbitrates on a device."""
        text = (
            "Part of a device that a class shall have (target) and has used in the last ten seconds or more (actual)."
        )
        family = GaugeMetricFamily("gpud_class_share_ratio", text, labels=("gpu", "class", "kind"))
        targets = {
            (row.device, self.tally.label(row.job_class)): row.target for row in rows.classes if row.target is not None
        }
        parts = self.tally.gpu_time.parts(now)
        for slot in sorted(self._state.runs):
            for job_class in self.tally.classes_on(slot):
                gpu = str(slot)
                target = targets.get((slot, job_class))
                if target is not None:
                    family.add_metric((gpu, job_class, "target"), target)
                actual = parts.get((gpu, job_class)) if parts is not None else None
                if actual is not None:
                    family.add_metric((gpu, job_class, "actual"), actual)
        return family


def _devices(rows: Rows, sums: Sums) -> Iterator[Metric]:
    """Those that are managed. What the driver does not say is not there."""
    info = GaugeMetricFamily("gpud_gpu_info", "1: which device has this number.", labels=("gpu", "uuid", "name"))
    text = (
        "Memory of a device: all of it (total), in use by the driver's word (used), what jobs hold or are about to "
        "(reserved); of what can leave it, what is on it (resident) and in host memory (host)."
    )
    memory = GaugeMetricFamily("gpud_gpu_memory_bytes", text, labels=("gpu", "kind"))
    resident: Counter[int] = Counter()
    host: Counter[int] = Counter()
    for (_, slot), row in sums.items():
        resident[slot] += row.resident_bytes
        host[slot] += row.host_bytes
    for device in rows.devices.values():
        if device.slot is None:
            continue
        gpu = str(device.slot)
        info.add_metric((gpu, device.uuid, clean(device.name)), 1)
        memory.add_metric((gpu, "total"), device.total_bytes)
        if device.used_bytes is not None:
            memory.add_metric((gpu, "used"), device.used_bytes)
        memory.add_metric((gpu, "reserved"), device.reserved_bytes)
        memory.add_metric((gpu, "resident"), resident[device.slot])
        memory.add_metric((gpu, "host"), host[device.slot])
    yield info
    yield memory


def _counter(name: str, text: str, labels: tuple[str, ...], counts: Counts, unit: float = 1) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.values.items():
        family.add_metric(values, count / unit if unit != 1 else count)
    return family


def _histogram(name: str, text: str, labels: tuple[str, ...], histograms: Histograms) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, buckets, total in histograms.rows():
        family.add_metric(values, buckets, total)
    return family
