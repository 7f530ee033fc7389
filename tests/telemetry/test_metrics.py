"""What a scrape shows: names, labels, values; and that both forms are what their parsers take."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import trio
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from bench.feed_state import Crowd
from gpud.engine.board import OPEN
from gpud.engine.live import Facts, Live, Rows
from gpud.engine.reducer import react
from gpud.model import events as ev
from gpud.model import live_views
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Slot
from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.loop_lag import LoopLag
from gpud.telemetry.metrics import OPENMETRICS, STATES, TEXT, TOGETHER_NS, Metrics
from tests.engine.conftest import GIB, UUID, board, by
from tests.engine.live_world import RUNNING, S0, SHARES, Watched
from tests.engine.swaps import SWAPS
from tests.engine.test_lock import TURNS

NAMES = {
    "gpud_jobs": ("gauge", {"class", "state"}),
    "gpud_gpu_info": ("gauge", {"gpu", "uuid", "name"}),
    "gpud_gpu_memory_bytes": ("gauge", {"gpu", "kind"}),
    "gpud_class_share_ratio": ("gauge", {"gpu", "class", "kind"}),
    "gpud_gpu_busy_seconds_total": ("counter", {"gpu", "class"}),
    "gpud_hook_held_launches_total": ("counter", {"gpu", "class"}),
    "gpud_job_wait_seconds": ("histogram", {"class", "kind"}),
    "gpud_turn_hold_seconds": ("histogram", {"class"}),
    "gpud_swap_seconds": ("histogram", {"gpu", "direction"}),
    "gpud_swap_bytes_total": ("counter", {"gpu", "direction"}),
    "gpud_preemptions_total": ("counter", {"gpu", "class"}),
    "gpud_evictions_total": ("counter", {"gpu", "class"}),
    "gpud_policy_reloads_total": ("counter", {"result"}),
    "gpud_loop_lag_seconds": ("histogram", set()),
}
"""Dashboards and rules of others are made of these: they stay."""


class Scraped(Watched):
    """A node whose metrics somebody looks at."""

    def __init__(self, policy: str | None = None) -> None:
        super().__init__(board(("p", policy)) if policy else None)
        self.lag, self.looks = LoopLag(), 0
        self.metrics: Metrics | None = None
        self.metrics = Metrics(
            self.state,
            self.sums,
            self.look,
            self.lag,
            lambda: self.now,
            lambda job: f"{job:032x}",
            self.look_at_driver,
        )

    async def look_at_driver(self) -> None:
        self.looks += 1
        await trio.lowlevel.checkpoint()

    def react(self, event: ev.Event) -> list[Effect]:
        effects = react(self.state, event, self.now)
        if self.metrics is not None:
            self.metrics.tally.saw(event, effects, self.now)
        return effects

    def scrape(self) -> dict[str, Metric]:
        """Families by name, as OpenMetrics has them."""
        assert self.metrics is not None
        return {one.name: one for one in parse_openmetrics(self.metrics.make(OPENMETRICS).decode())}

    def text(self) -> str:
        assert self.metrics is not None
        return self.metrics.make(TEXT).decode()

    def values(self, family: str, **labels: str) -> dict[tuple[str, ...], float]:
        """Values of the labels that are not given → value."""
        return {
            tuple(value for key, value in sorted(one.labels.items()) if key not in labels): one.value
            for one in self.scrape()[family].samples
            if labels.items() <= one.labels.items()
        }


def busy_node() -> Scraped:
    """With something of everything."""
    w = Scraped(SWAPS)
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    one, two = w.low(), w.low()
    slots = frozenset({S0})
    for number, client in enumerate((one, two)):
        w.counters[client] = Counters(
            resident_bytes=GIB // 2, host_bytes=7, reserved_bytes=GIB // 2, held=number, spent_ns=number
        )
        w.react(ev.LockAsked(client=client, request=1, slots=slots, explicit=False, wait_ns=None))
    w.now += SECOND
    epoch = w.state.locks.last_epoch
    w.react(ev.LockIsIn(client=one, slots=slots, epoch=epoch, bytes=9, short=False, took_ns=5 * MILLISECOND))
    w.react(ev.LockBack(client=one, slots=slots, epoch=epoch, overrun=False, never=False))
    w.react(ev.DriverTold(devices={UUID: ev.Seen(total_bytes=GIB, used_bytes=GIB // 4, when_ns=w.now)}))
    w.lag.histogram.add((), MILLISECOND)
    w.scrape()
    w.now += 11 * SECOND
    return w


def test_the_names_and_labels_are_these() -> None:
    families = {one.name: one for one in parse_text(busy_node().text())}
    found = {}
    for name, family in families.items():
        labels = {frozenset(one.labels) - {"le"} for one in family.samples}
        assert len(labels) == 1, name
        found[name if family.type != "counter" else f"{name}_total"] = (family.type, set(*labels))
    assert found == NAMES


def test_both_forms_say_the_same() -> None:
    w = busy_node()
    openmetrics = {name: _plain(one.samples) for name, one in w.scrape().items()}
    assert {one.name: _plain(one.samples) for one in parse_text(w.text())} == openmetrics


def _plain(samples: Iterable[object]) -> set[tuple[str, tuple[tuple[str, str], ...], float]]:
    return {(one.name, tuple(sorted(one.labels.items())), one.value) for one in samples}  # type: ignore[attr-defined]


def test_promtool_finds_nothing() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    done = subprocess.run([promtool, "check", "metrics"], input=busy_node().text(), text=True, capture_output=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_jobs_by_class_and_state() -> None:
    w = Scraped()
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    low, _, high = w.low(), w.low(), w.high()
    w.counters[low] = Counters(holding=1, hold_reason=2, hold_since_ns=w.now)
    w.counters[high] = Counters(active=1)
    found = w.values("gpud_jobs")
    assert {key: value for key, value in found.items() if value} == {
        ("low", "held"): 1,
        ("low", "idle"): 1,
        ("high", "active"): 1,
    }
    assert set(found) == {(job_class, state) for job_class in ("low", "high") for state in STATES}


def test_states_are_those_of_rows() -> None:
    source = Path(live_views.__file__).read_text()
    said = source[source.index("class JobRow") :].partition("    state: str\n")[2].split('"""')[1]
    assert re.findall(r"`([a-z]+)`", said) == list(STATES)


def test_memory() -> None:
    w = busy_node()
    assert w.values("gpud_gpu_memory_bytes", gpu="0") == {
        ("host",): 14,
        ("reserved",): GIB,
        ("resident",): GIB,
        ("total",): GIB,
        ("used",): GIB // 4,
    }
    w.now += 60 * SECOND
    assert ("used",) not in w.values("gpud_gpu_memory_bytes", gpu="0"), "the driver has not answered for a minute"


def test_shares_against_their_targets() -> None:
    w = Scraped(SHARES)
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    big, small = w.high(), w.low()
    w.counters = {big: Counters(active=1), small: Counters(active=1)}
    w.react(ev.WentActive(client=big, slot=S0))
    w.react(ev.WentActive(client=small, slot=S0))
    w.scrape()
    w.now += 10 * SECOND
    w.counters = {big: Counters(spent_ns=6 * SECOND), small: Counters(spent_ns=2 * SECOND)}
    assert w.values("gpud_class_share_ratio", gpu="0") == {
        ("big", "target"): 0.5,
        ("big", "actual"): 0.6,
        ("small", "target"): 0.5,
        ("small", "actual"): 0.2,
    }
    assert w.values("gpud_gpu_busy_seconds", gpu="0") == {("big",): 6, ("small",): 2}


def test_gpu_time_that_nobody_measures_is_not_zero() -> None:
    """Under `exclusive` launches are not charged."""
    w = Scraped(TURNS)
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    client = w.low()
    w.counters[client] = Counters(active=1, entered=1000)
    for _ in range(2):
        assert w.values("gpud_gpu_busy_seconds") == w.values("gpud_class_share_ratio") == {}
        w.now += 11 * SECOND
    w.react(ev.SetAsked(job=w.state.clients[client].job, changes=(("compute", 300_000),), by=by()))
    assert w.values("gpud_gpu_busy_seconds", gpu="0") == {("job",): 0}, "from now on it is, and it has not run yet"
    w.scrape()
    w.now += 11 * SECOND
    assert w.values("gpud_class_share_ratio", gpu="0") == {("job", "actual"): 0}


def test_exemplars_lead_to_traces() -> None:
    w = busy_node()
    found = {
        (name, one.exemplar.labels["trace_id"])
        for name, family in w.scrape().items()
        for one in family.samples
        if one.exemplar is not None
    }
    one, two = f"{1:032x}", f"{2:032x}"
    assert {("gpud_turn_hold_seconds", one), ("gpud_swap_seconds", one), ("gpud_job_wait_seconds", two)} <= found
    assert "trace_id" not in w.text()


def lines_with(jobs: int) -> int:
    crowd, live = Crowd(jobs, 8), Live(Facts())
    sums, levels = crowd.step(SECOND)

    def rows() -> Rows:
        return live.look(crowd.state, sums, levels, crowd.now, offset=0, driver="ok", policy_set=RUNNING)

    metrics = Metrics(
        crowd.state, lambda: sums, rows, LoopLag(), lambda: crowd.now, lambda job: "", trio.lowlevel.checkpoint
    )
    return metrics.make(TEXT).count(b"\n")


def test_how_many_series_there_are_does_not_depend_on_jobs() -> None:
    assert lines_with(8) == lines_with(200)


@pytest.mark.parametrize("name", ['q"uo\\te', "new\nline\nTYPE x counter", "x" * 10_000, "\x00\x1b[31m", "‮", "\ud800"])
def test_whatever_stands_in_a_name_it_is_a_label(name: str) -> None:
    w = Scraped()
    w.react(ev.DevicesFound(devices=((UUID, name, GIB),)))
    (sample,) = w.scrape()["gpud_gpu_info"].samples
    assert 0 < len(sample.labels["name"]) <= 64
    assert sample.labels["name"].isprintable() or "�" in sample.labels["name"]
    assert len(list(parse_text(w.text()))) == len(NAMES)
    assert w.metrics is not None
    assert w.metrics.tally.label(name)
    (labels,) = {one.samples[0].name for one in parse_text(w.text()) if one.name == "gpud_gpu_info"}
    assert labels == "gpud_gpu_info"


def test_another_set_between_two_scrapes() -> None:
    w = Scraped(TURNS)
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    client = w.low()
    w.counters[client] = Counters(spent_ns=SECOND)
    w.now += 5 * SECOND
    assert w.values("gpud_gpu_busy_seconds", gpu="0") == {("job",): 1}
    w.react(ev.BoardChanged(board=board(("p", SHARES)), reading=w.reading()))
    w.counters[client] = Counters(spent_ns=3 * SECOND)
    w.now += 5 * SECOND
    assert w.values("gpud_gpu_busy_seconds", gpu="0") == {("small",): 2}
    w.react(ev.BoardChanged(board=OPEN, reading=w.reading()))  # no policy at all
    w.now += 5 * SECOND
    w.counters[client] = Counters(spent_ns=4 * SECOND)
    assert w.values("gpud_gpu_busy_seconds", gpu="0") == {("none",): 1}
    assert w.values("gpud_jobs", state="idle") == {("none",): 1}


async def test_who_asks_together_gets_the_same() -> None:
    w = busy_node()
    assert w.metrics is not None
    pages: list[bytes] = []

    async def ask() -> None:
        assert w.metrics is not None
        body, form = await w.metrics.page("text/plain")
        assert form == TEXT
        pages.append(body)

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert len(set(map(id, pages))) == 1
    assert w.looks == 1
    w.counters[ClientId(1)] = Counters()
    w.now += TOGETHER_NS
    await ask()
    assert pages[-1] != pages[0]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", TEXT),
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75", OPENMETRICS),
        ("application/openmetrics-text; version=nonsense; escaping=\\", OPENMETRICS),
    ],
)
async def test_the_form_is_what_was_asked_for(accept: str, form: str) -> None:
    w = Scraped()
    assert w.metrics is not None
    body, said = await w.metrics.page(accept)
    assert said == form
    assert body.endswith(b"# EOF\n") == (form == OPENMETRICS)


async def test_a_page_that_is_dear_is_made_seldom() -> None:
    w = Scraped()
    assert w.metrics is not None
    rows = w.metrics._rows

    def slow() -> object:
        w.now += 50 * MILLISECOND
        return rows()

    w.metrics._rows = slow  # type: ignore[assignment]
    first, _ = await w.metrics.page("")
    w.low()
    w.now += 900 * MILLISECOND
    assert (await w.metrics.page(""))[0] is first
    w.now += 100 * MILLISECOND
    assert (await w.metrics.page(""))[0] != first


def test_slot_is_the_number() -> None:
    w = Scraped()
    w.react(ev.DevicesFound(devices=((UUID, "A100", GIB), (b"\xee" * 16, "H100", 2 * GIB))))
    assert w.values("gpud_gpu_info") == {
        ("0", "A100", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"): 1,
        ("1", "H100", "GPU-eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee"): 1,
    }
    assert w.values("gpud_gpu_memory_bytes", kind="total") == {(str(Slot(0)),): GIB, (str(Slot(1)),): 2 * GIB}
