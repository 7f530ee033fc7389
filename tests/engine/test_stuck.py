"""Who is active and uses nothing loses its rank until a kernel of it finishes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.engine.ticking import wants_reading
from gpud.model import effects as do
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Slot
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import World, board, only

S0 = Slot(0)


def watch(world: World, seconds: float, counters: dict[ClientId, Counters], step_s: float = 1.0) -> list[Effect]:
    """Looked at as with the lease."""
    effects: list[Effect] = []
    for _ in range(round(seconds / step_s)):
        effects += world.ticks(round(step_s * SECOND), counters)
    return effects


def holds(world: World, low: ClientId, high: ClientId) -> bool:
    words = world.state.clients[low].words[S0]
    return any(peer.client == high and peer.rank < words.rank for peer in words.peers)


def pair(world: World) -> tuple[ClientId, ClientId]:
    low, high = world.low(), world.high()
    world.ticks(0)
    assert holds(world, low, high)
    return low, high


def test_a_job_that_hangs_holds_nobody_for_ever() -> None:
    world = World()
    low, high = pair(world)
    hangs = {high: Counters(active=1, entered=5, spent_ns=1000, last_finish_ns=77)}
    effects = watch(world, 10, hangs)
    assert holds(world, low, high)
    effects += watch(world, 1, hangs)
    assert not holds(world, low, high)
    assert world.state.clients[high].words[S0].rank > world.state.clients[low].words[S0].rank
    (said,) = only(effects, do.Record)
    assert said.level == "warning"
    assert "has been active on device 0 for 10s, used nothing of it and finished nothing" in said.text
    assert not only(watch(world, 100, hangs), do.Record), "it is said once"
    assert not holds(world, low, high)


def test_it_has_its_rank_back_once_a_kernel_finishes() -> None:
    world = World()
    low, high = pair(world)
    watch(world, 12, {high: Counters(active=1, entered=5, spent_ns=1000, last_finish_ns=77)})
    assert not holds(world, low, high)
    effects = watch(world, 1, {high: Counters(active=1, entered=6, spent_ns=2000, last_finish_ns=78)})
    assert holds(world, low, high)
    (said,) = only(effects, do.Record)
    assert "moves again on device 0" in said.text
    watch(world, 12, {high: Counters(active=1, entered=6, spent_ns=2000, last_finish_ns=78)})
    assert not holds(world, low, high), "it has ten seconds again, no more"


def test_it_has_its_rank_back_once_it_is_idle() -> None:
    world = World()
    low, high = pair(world)
    watch(world, 12, {high: Counters(active=1, spent_ns=1000)})
    watch(world, 1, {high: Counters(active=0, spent_ns=1000, idle_since_ns=world.now)})
    assert holds(world, low, high)


def test_launching_into_a_stuck_queue_is_no_way_back() -> None:
    world = World()
    low, high = pair(world)
    watch(world, 12, {high: Counters(active=1, entered=5, spent_ns=1000)})
    watch(world, 30, {high: Counters(active=1, entered=9, spent_ns=60 * SECOND)})
    assert not holds(world, low, high)


def test_a_long_kernel_that_is_charged_is_no_hang() -> None:
    """Half a minute of GPU time, charged when it was launched."""
    world = World()
    low, high = pair(world)
    long = {high: Counters(active=1, entered=1, spent_ns=30 * SECOND)}
    watch(world, 39, long)
    assert holds(world, low, high)
    watch(world, 3, long)
    assert not holds(world, low, high), "it should have finished ten seconds ago"


def test_whoever_uses_the_device_keeps_its_rank() -> None:
    """Spins without ever synchronising: nothing is proven finished, but time is charged."""
    world = World()
    low, high = pair(world)
    for second in range(60):
        watch(world, 1, {high: Counters(active=1, entered=second, spent_ns=second * 20 * MILLISECOND)})
    assert holds(world, low, high)
    spent = 60 * 20 * MILLISECOND
    for second in range(60):
        watch(world, 1, {high: Counters(active=1, entered=60 + second, spent_ns=spent + second * 5 * MILLISECOND)})
    assert not holds(world, low, high), "half a per cent is not enough"


def test_where_nothing_is_charged_launches_have_to_do() -> None:
    world = World()
    low, high = pair(world)
    for second in range(30):
        watch(world, 1, {high: Counters(active=1, entered=second)})
    assert holds(world, low, high)
    watch(world, 12, {high: Counters(active=1, entered=30)})
    assert not holds(world, low, high)


@pytest.mark.parametrize("mode", ["open {}", "share { period = 20ms }"])
def test_where_nobody_ranks_nobody_loses_a_rank(mode: str) -> None:
    body = f'class high {{ match label("tier") == "online" }} class low {{ match any }} arbitrate {mode}'
    world = World(running=board(("p", body)))
    world.low()
    high = world.high()
    assert not only(watch(world, 60, {high: Counters(active=1)}), do.Record)
    assert world.state.watched == {}


def test_others_of_the_same_rank_go_on_holding() -> None:
    world = World()
    low, first, second = world.low(), world.high(), world.high()
    world.ticks(0)
    watch(world, 12, {first: Counters(active=1, spent_ns=1), second: Counters(active=1, last_finish_ns=world.now)})
    watch(world, 1, {first: Counters(active=1, spent_ns=1), second: Counters(active=1, last_finish_ns=world.now)})
    assert not holds(world, low, first)
    assert holds(world, low, second)


def test_it_is_looked_at_with_the_lease_whatever_policies_read() -> None:
    world = World()
    world.low()
    lease, tick = world.state.lease_due_ns, world.state.tick_due_ns
    assert tick is None
    assert lease is not None
    assert not wants_reading(world.state, lease - 1)
    assert wants_reading(world.state, lease)


def test_a_client_that_leaves_leaves_nothing() -> None:
    world = World()
    low, high = pair(world)
    watch(world, 12, {high: Counters(active=1, spent_ns=1)})
    world.gone(high)
    watch(world, 1, {})
    assert set(world.state.watched) == {(low, S0)}
    again = world.high()
    world.ticks(0)
    assert holds(world, low, again)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
        max_size=30,
    )
)
def test_whatever_a_page_says(looks: list[tuple[bool, int, int, int]]) -> None:
    """A rank is only ever lost after ten seconds, and never by who is idle."""
    world = World()
    low, high = pair(world)
    active_since = world.now
    for active, spent, entered, finished in looks:
        world.ticks(SECOND, {high: Counters(active=active, spent_ns=spent, entered=entered, last_finish_ns=finished)})
        active_since = active_since if active else world.now
        if not active or world.now - active_since < 10 * SECOND:
            assert holds(world, low, high)
