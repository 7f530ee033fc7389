"""GPU time and held launches, by device and class."""

from gpud.engine.standing import class_text
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import SECOND
from gpud.telemetry.gpu_time import GpuTime
from tests.engine.conftest import World
from tests.engine.live_world import S0


class Timed(World):
    """`pages`: what they say of each process on the first device."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[ClientId, Counters] = {}
        self.time = self.observer()

    def observer(self) -> GpuTime:
        return GpuTime(self.state, self._class_on)

    def _class_on(self, job: JobId, slot: Slot) -> str | None:
        tenant = self.state.tenants.get(job)
        return class_text(self.state, tenant) if tenant is not None else None

    def look(self, seconds: float = 0) -> None:
        self.now += round(seconds * SECOND)
        self.time.look({(client, S0): row for client, row in self.pages.items()}, self.now)

    def ends(self, client: ClientId) -> None:
        self.gone(client)
        self.time.goes(client, {(client, S0): self.pages.pop(client)}, self.now)


def spent(seconds: float, held: int = 0) -> Counters:
    return Counters(spent_ns=round(seconds * SECOND), held=held)


def test_by_class_whoever_comes_and_goes() -> None:
    w = Timed()
    high, low, other = w.high(), w.low(), w.low()
    w.now += 10 * SECOND
    w.pages = {high: spent(1), low: spent(2, 7), other: spent(3, 1)}
    w.look()
    assert w.time.busy_ns.values == {("0", "high"): 1 * SECOND, ("0", "low"): 5 * SECOND}
    assert w.time.held.values == {("0", "low"): 8}
    w.now += 1 * SECOND
    w.pages[low] = spent(2.5, 9)
    w.ends(low)
    w.look(1)
    assert w.time.busy_ns.values == {("0", "high"): 1 * SECOND, ("0", "low"): 5.5 * SECOND}
    assert w.time.held.values == {("0", "low"): 10}


def test_who_lives_between_two_looks_counts() -> None:
    w = Timed()
    client = w.low()
    w.time.comes(client)
    w.now += SECOND
    w.pages[client] = spent(0.75)
    w.ends(client)
    assert w.time.busy_ns.values == {("0", "low"): 0.75 * SECOND}


def test_no_more_than_time_has_passed() -> None:
    """A launch of a minute is charged at once, and worked off in a minute."""
    w = Timed()
    client = w.low()
    w.pages[client] = spent(60)
    w.look(1)
    assert w.time.busy_ns.values == {("0", "low"): 1 * SECOND}
    w.look(29)
    assert w.time.busy_ns.values == {("0", "low"): 30 * SECOND}
    w.look(90)
    assert w.time.busy_ns.values == {("0", "low"): 60 * SECOND}


def test_nonsense_in_a_page() -> None:
    w = Timed()
    client = w.low()
    w.pages[client] = spent(0.5, 5)
    w.look(1)
    for row in (Counters(spent_ns=2**64 - 1, held=2**64 - 1), spent(0, 0), spent(0.25, 1)):
        w.pages[client] = row
        w.look(1)
    assert w.time.busy_ns.values == {("0", "low"): 1.5 * SECOND}
    assert w.time.held.values == {("0", "low"): 5 + 2**53 + 1}


def test_what_an_earlier_daemon_has_counted_is_not_counted_again() -> None:
    w = Timed()
    client = w.low()
    w.pages[client] = spent(3600, 1000)
    w.now += 7200 * SECOND
    w.time = w.observer()
    w.look()
    assert w.time.busy_ns.values == {}
    w.pages[client] = spent(3601, 1001)
    w.look(5)
    assert w.time.busy_ns.values == {("0", "low"): 1 * SECOND}
    assert w.time.held.values == {("0", "low"): 1}


def test_who_brings_its_pages_begins_where_they_are() -> None:
    w = Timed()
    client = w.low()
    w.time.adopts(client)
    w.pages[client] = spent(3600)
    w.look(7200)
    assert w.time.busy_ns.values == {}


def test_parts_are_of_ten_seconds_whoever_looks_meanwhile() -> None:
    w = Timed()
    client = w.low()
    w.pages[client] = spent(0)
    w.look()
    assert w.time.parts(w.now) is None
    w.pages[client] = spent(5)
    w.look(10)
    assert w.time.parts(w.now) == {("0", "low"): 0.5}
    for _ in range(100):  # one scraper after the other
        w.look(0.01)
    assert w.time.parts(w.now) == {("0", "low"): 5 / 11}
    w.look(9)
    assert w.time.parts(w.now) == {("0", "low"): 0.0}


def test_few_looks_are_kept() -> None:
    w = Timed()
    w.low()
    for _ in range(1000):
        w.look(0.5)
    assert len(w.time._past) <= 12
