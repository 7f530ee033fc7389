"""Whether hooks tell of their edges: not where somebody looks anyway, nor where nobody wants to know."""

from gpud.engine.division import LINGER_NS, STEP_NS
from gpud.engine.ticking import BUSY_NS
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import Slot
from gpud.model.levels import Motion
from gpud.model.units import SECOND
from tests.engine.conftest import PREEMPT_MIX, World, board, only

S0 = Slot(0)
LIMITED = "class all { match any  limit { compute = 40% } }"
READS = "class all { match any }  arbitrate open {}  when all.queued > 3 { all.max_inflight = 1 }"


def told(effects: list[Effect]) -> list[bool]:
    return [effect.told for effect in only(effects, do.TellEdges)]


def test_where_nobody_wants_to_know_they_are_never_told() -> None:
    world = World(running=board(("preempt-mix", PREEMPT_MIX)))
    launcher, _ = world.launch()
    client, _ = world.attach(launcher)
    assert told(world.react_devices(client)) == [False]
    world.high()
    assert world.state.told == {S0: False}
    # Another set of policies may want to.
    effects = world.react(ev.BoardChanged(board=board(("reads", READS)), reading=world.reading()))
    assert told(effects) == [True]
    kinds = [type(effect) for effect in effects]
    assert kinds.count(do.Reloaded) == 1


def test_while_steps_look_they_need_not_be_told() -> None:
    world = World(running=board(("limits", LIMITED)))
    client = world.low()
    assert world.state.told.get(S0, True)  # at rest an edge is what begins steps
    assert told(world.later(STEP_NS, {S0: Motion.BUSY})) == [False]
    assert told(world.later(STEP_NS, {S0: Motion.BUSY})) == []
    assert told(world.later(LINGER_NS - 1, {S0: Motion.SETTLED})) == []
    assert told(world.later(1, {S0: Motion.SETTLED})) == [True]
    assert world.state.levels_due_ns == world.now + STEP_NS  # one that went active meanwhile has not told of it
    assert told(world.later(STEP_NS, {S0: Motion.BUSY})) == [False]
    world.gone(client)
    assert not world.state.clients


def test_while_policies_look_they_need_not_be_told() -> None:
    world = World(running=board(("reads", READS)))
    client = world.low()
    assert world.state.told.get(S0, True)
    world.react(ev.WentActive(client=client, slot=S0))
    assert told(world.ticks(BUSY_NS, {client: Counters(active=True)})) == [False]
    assert told(world.ticks(BUSY_NS)) == []
    assert world.state.tick_due_ns == world.now + BUSY_NS
    assert told(world.ticks(LINGER_NS)) == [True]
    assert world.state.tick_due_ns == world.now + BUSY_NS  # one more look, though all is idle
    assert told(world.ticks(BUSY_NS)) == []
    assert world.state.tick_due_ns is not None
    assert world.state.tick_due_ns > world.now + BUSY_NS


def test_all_who_look_must_be_at_it() -> None:
    """Steps look at presence, policies rest: an edge would wake these."""
    world = World(running=board(("reads", READS), ("limits", LIMITED)))
    client = world.low()
    assert told(world.later(STEP_NS, {S0: Motion.BUSY})) == []
    world.react(ev.WentActive(client=client, slot=S0))
    effects = world.ticks(SECOND // 100, {client: Counters(active=True)})
    assert told(effects) == [False]


def test_who_was_active_between_two_looks_was_seen() -> None:
    """Of short bursts each look may miss the activity itself, but not that there was some: telling of each would cost
    more than the looks."""
    world = World(running=board(("reads", READS)))
    client = world.low()
    world.react(ev.WentActive(client=client, slot=S0))
    assert told(world.ticks(BUSY_NS, {client: Counters(active=True)})) == [False]
    for edges in range(2, 20, 2):
        assert told(world.ticks(LINGER_NS // 2, {client: Counters(edges=edges)})) == []
    assert told(world.ticks(LINGER_NS // 2, {client: Counters(edges=edges)})) == []
    assert told(world.ticks(LINGER_NS // 2, {client: Counters(edges=edges)})) == [True]
