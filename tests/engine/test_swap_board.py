"""Another set of policies while jobs run."""

import pytest

from gpud.engine.board import OPEN
from gpud.engine.publish import GATE_PAUSED, GATE_PREEMPT, GATE_WINDOW
from gpud.engine.report import policies
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, PREEMPT_MIX, UUID, World, board, only

S0 = Slot(0)
DWELL = """
  class all {{ match any }}
  arbitrate open {{}}
  when all.queued > 0 for 100ms {{ all.max_inflight = {number} }}
"""
AIMD = """
  param add = {add}
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  let arrivals = ewma(high.launch_rate, half_life = 10s)
  when arrivals > 100/s { low.max_inflight = {number} }
"""


def swap(world: World, *policies: tuple[str, str], site: str = "") -> list[do.Effect]:
    running = board(*policies, site=site) if policies else OPEN
    return world.react(ev.BoardChanged(board=running, reading=world.reading()))


def words(world: World, client: ClientId) -> DeviceWords:
    return world.state.clients[client].words[S0]


def reloaded(effects: list[do.Effect]) -> do.Reloaded:
    """It comes last: whoever hears of it may say that all pages are written."""
    last = effects[-1]
    assert isinstance(last, do.Reloaded)
    return last


def test_all_pages_are_written_before_it_is_done(world: World) -> None:
    low, high = world.low(), world.high()
    body = PREEMPT_MIX.replace("max_inflight = 1", "max_inflight = 5").replace("1ms", "9ms")
    effects = swap(world, ("preempt-mix", body))
    assert {effect.client for effect in only(effects, do.PublishDevice)} == {low, high}
    assert (words(world, low).max_inflight, words(world, low).resume_after_ns) == (5, 9 * MILLISECOND)
    done = reloaded(effects)
    assert (done.generation, done.digest, done.why) == (2, world.state.board.digest, "reload")
    assert any("preempt-mix has changed on device 0" in change for change in done.changes)
    assert only(effects, do.SaveState)


def test_what_the_new_set_decides_otherwise_is_explained(world: World) -> None:
    world.low()
    effects = swap(world, ("preempt-mix", PREEMPT_MIX.replace("max_inflight = 1", "max_inflight = 5")))
    (change,) = only(effects, do.KnobChanged)
    assert (change.slot, change.before) == (0, "1")
    assert (change.because.knob, change.because.value, change.because.line) == ("low.max_inflight", "5", 6)


def test_the_same_set_again_writes_no_page(world: World) -> None:
    world.low(), world.high()
    effects = swap(world, ("preempt-mix", PREEMPT_MIX))
    assert not only(effects, do.PublishDevice)
    assert reloaded(effects).changes == ()
    assert reloaded(effects).generation == 2


def test_a_job_whose_class_changes_goes_on(world: World) -> None:
    low, high = world.low(), world.high()
    turned = PREEMPT_MIX.replace('== "online"', '!= "online"')
    effects = swap(world, ("preempt-mix", turned))
    assert (world.class_of(low), world.class_of(high)) == ("high", "low")
    assert [peer.client for peer in words(world, high).peers] == [low]
    assert words(world, low).peers == ()
    assert set(world.state.clients) == {low, high}
    assert not only(effects, do.Refuse)
    assert any("job 1 (python) is high now, was low" in change for change in reloaded(effects).changes)
    assert {effect.client for effect in only(effects, do.SendPeers)} == {low, high}


def test_a_job_that_no_class_takes_any_more_goes_on_below_all(world: World) -> None:
    low, high = world.low(), world.high()
    picky = 'class high { match label("tier") == "online" }  arbitrate preempt { order = [high]  resume_after = 1ms }'
    swap(world, ("picky", picky))
    assert world.class_of(low) == "unclassified"
    assert [peer.client for peer in words(world, low).peers] == [high]
    assert words(world, low).gate == GATE_PREEMPT


def test_no_policy_at_all_opens_every_gate(world: World) -> None:
    low, high = world.low(), world.high()
    swap(world)
    assert words(world, low).gate == words(world, high).gate == 0
    assert world.state.clients[low].peers == {}
    swap(world, ("preempt-mix", PREEMPT_MIX))
    assert words(world, low).gate == GATE_PREEMPT | GATE_WINDOW


def test_a_policy_that_is_the_same_is_not_touched() -> None:
    """The dwell time runs on while another policy beside it changes."""
    dwell = ("dwell", DWELL.format(number=2))
    world = World(running=board(dwell, ("limit", "class all { match any }  all.max_inflight = 9")))
    client = world.low()
    held = {client: Counters(holding=1)}
    world.ticks(5 * MILLISECOND, held)
    world.ticks(60 * MILLISECOND, held)
    assert words(world, client).max_inflight == 9
    board_of = board(dwell, ("limit", "class all { match any }  all.max_inflight = 8"))
    world.react(ev.BoardChanged(board=board_of, reading=world.reading(held)))
    assert words(world, client).max_inflight == 8
    world.ticks(60 * MILLISECOND, held)
    assert words(world, client).max_inflight == 2


def test_what_a_policy_has_learned_is_carried_over_a_changed_number() -> None:
    body = AIMD.replace("{add}", "1")
    world = World(running=board(("aimd", body.replace("{number}", "3"))))
    low, high = world.low(), world.high()
    entered = 0
    for _ in range(100):
        entered += 500
        world.ticks(100 * MILLISECOND, {high: Counters(active=True, entered=entered)})
    assert words(world, low).max_inflight == 3
    effects = swap(world, ("aimd", body.replace("{number}", "4")))
    assert words(world, low).max_inflight == 4
    assert not any("starts anew" in change for change in reloaded(effects).changes)
    # A new name forgets, and the plan says so.
    renamed = body.replace("arrivals", "coming").replace("{number}", "4")
    effects = swap(world, ("aimd", renamed))
    assert any("starts anew" in change for change in reloaded(effects).changes)
    assert words(world, low).max_inflight == 0


def test_how_long_a_class_has_been_idle_is_not_forgotten() -> None:
    """Its members have left, so no page says it any more."""
    body = """
      class high {{ match label("tier") == "online" }}
      class low  {{ match any }}
      arbitrate preempt {{ order = [high, low]  resume_after = 1ms }}
      when high.idle_for < 10s {{ low.max_inflight = {number} }}
    """
    world = World(running=board(("idle", body.format(number=1))))
    low, high = world.low(), world.high()
    world.ticks(5 * MILLISECOND, {high: Counters(active=True)})
    world.gone(high)
    world.ticks(5 * SECOND)
    assert words(world, low).max_inflight == 1
    swap(world, ("idle", body.format(number=2)))
    assert words(world, low).max_inflight == 2
    world.ticks(6 * SECOND)
    assert words(world, low).max_inflight == 0


def test_a_policy_that_was_put_out_has_another_chance_in_another_set() -> None:
    """Else a set that was good once could not be good again."""
    dwell = ("dwell", DWELL.format(number=3))
    world = World(running=board(dwell))
    client = world.low()
    world.state.runs[S0].ran[0].failed = True
    assert [one.failed for one in policies(world.state)[0].policies] == [True]
    swap(world, dwell, ("limit", "class all { match any }  all.max_inflight = 9"))
    assert [one.failed for one in policies(world.state)[0].policies] == [False, False]
    held = {client: Counters(holding=1)}
    world.ticks(5 * MILLISECOND, held)
    world.ticks(200 * MILLISECOND, held)
    assert words(world, client).max_inflight == 3


def test_the_first_look_has_the_numbers_of_now() -> None:
    """Else a policy would begin with everybody idle, and publish that."""
    world = World()
    client = world.low()
    running = board(("p", "class all { match any } arbitrate open {} when all.active { all.pause = true }"))
    reading = world.reading({client: Counters(active=True)})
    world.react(ev.BoardChanged(board=running, reading=reading))
    assert words(world, client).gate == GATE_PAUSED


def test_ticks_begin_and_end_with_the_policies_that_need_them(world: World) -> None:
    world.low()
    assert world.state.tick_due_ns is None
    reads = "class all { match any } arbitrate open {} when all.active { all.pause = true }"
    swap(world, ("reads", reads))
    assert world.state.tick_due_ns is not None
    swap(world, ("preempt-mix", PREEMPT_MIX))
    assert world.state.tick_due_ns is None


def test_a_reload_without_anybody_there(world: World) -> None:
    reads = "class all { match any } arbitrate open {} when all.active { all.pause = true }"
    assert reloaded(swap(world, ("reads", reads))).generation == 2
    assert world.state.tick_due_ns is None
    client = world.low()
    assert world.state.tick_due_ns is not None
    assert world.class_of(client) == "all"


def test_a_reload_while_a_client_is_yet_to_come_back(world: World) -> None:
    """It gets the words of the new set when it does."""
    client = world.low()
    state = world.state.clients[client]
    session, state.session = state.session, None
    effects = swap(world, ("open", "class all { match any } arbitrate open {} all.max_inflight = 6"))
    assert not only(effects, do.PublishDevice)
    state.session = session
    from tests.engine.conftest import asks

    effects = world.react(asks(99, state.who, client, state.generation))
    assert only(effects, do.PublishDevice)[0].words.max_inflight == 6


def test_a_device_that_gets_its_number_gets_its_policies() -> None:
    site = 'apply "preempt-mix" to gpu 1\napply "open" to gpu *'
    running = board(("preempt-mix", PREEMPT_MIX), ("open", "class all { match any } arbitrate open {}"), site=site)
    world = World(running=running)
    client = world.low()  # nobody but the client has told of the device: it is number 0
    assert world.class_of(client) == "all"
    effects = world.react(ev.DevicesFound(devices=((bytes(16), "A100", GIB), (UUID, "A100", GIB))))
    assert world.class_of(client) == "low"
    assert only(effects, do.DevicesChanged)
    assert only(effects, do.Reloaded)[0].why == "devices"
    assert words(world, client).gate == GATE_WINDOW
    assert not world.react(ev.DevicesFound(devices=((bytes(16), "A100", GIB), (UUID, "A100", GIB))))


@pytest.mark.parametrize("seconds", [0, 5])
def test_strikes_do_not_outlive_the_set(world: World, seconds: int) -> None:
    world.low()
    world.state.strikes = {"digest": [world.now - SECOND, world.now]}
    world.now += seconds * SECOND
    swap(world, ("preempt-mix", PREEMPT_MIX))
    assert world.state.strikes == {}
