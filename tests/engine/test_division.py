"""When devices are divided anew, when levels are stepped, and what goes over a restart."""

import msgspec
import pytest

from gpud.engine import saved
from gpud.engine.division import EARLIEST_NS, IDLE_STEP_NS, LINGER_NS, SAVE_NS, STEP_NS
from gpud.engine.division import divide as division_of
from gpud.engine.ticking import next_wakeup
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Barred, Level, Motion
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import World, asks, board, by, new_state, only

S0 = Slot(0)
LIMITED = "class all { match any  limit { compute = 40% } }"
TURNS = "class all { match any  per = tenant  share = equal }  arbitrate share { period = 20ms }"


def world_of(body: str) -> World:
    return World(running=board(("p", body)))


def test_nobody_is_limited_nothing_is_divided() -> None:
    world = world_of("class all { match any  }  arbitrate open {}  all.max_inflight = 3")
    for _ in range(20):
        world.low()
    assert world.state.divisions == {}
    assert next_wakeup(world.state) == world.state.lease_due_ns


def test_steps_follow_what_they_find() -> None:
    world = world_of(LIMITED)
    world.low()
    assert next_wakeup(world.state) == world.now + STEP_NS
    for motion, later, after in (
        (Motion.BUSY, STEP_NS, STEP_NS),
        (Motion.MOVING, STEP_NS, STEP_NS),  # it may go on in a moment
        (
            Motion.MOVING,
            LINGER_NS,
            STEP_NS,
        ),  # hooks are to tell of edges again: one more look, for who has not seen it yet
        (Motion.MOVING, STEP_NS, IDLE_STEP_NS),
        (Motion.BUSY, STEP_NS, STEP_NS),
        (Motion.SETTLED, STEP_NS, STEP_NS),
        (Motion.SETTLED, LINGER_NS, STEP_NS),
    ):
        world.later(later, {S0: motion})
        assert next_wakeup(world.state) == world.now + after
    world.later(STEP_NS, {S0: Motion.SETTLED})
    assert world.state.levels_due_ns is None
    assert next_wakeup(world.state) == world.state.lease_due_ns


def test_who_is_not_believed_is_told_of_once() -> None:
    world = world_of(LIMITED)
    world.low()
    tenant = world.state.tenants[JobId(1)]

    def step(*barred: Barred) -> list[tuple[str, str]]:
        world.now += STEP_NS
        event = ev.Tick(motion={S0: Motion.BUSY}, barred={(JobId(1), S0): why for why in barred})
        return [(record.level, record.text) for record in only(world.react(event), do.Record)]

    assert step() == []
    who = f"job 1 ({tenant.name})"
    about = f"{who} takes no part in the turns of others on device 0 for a while"
    assert step(Barred.WORDS) == [("warning", f"{about}: words: its pages say what cannot be")]
    assert step(Barred.WORDS) == []
    (said,) = step(Barred.CLAIMS)
    assert said == ("warning", f"{about}: claims: it keeps others waiting and uses next to nothing")
    assert step() == [("info", f"{who} is believed again on device 0")]
    step(Barred.WORDS)
    world.gone(ClientId(1))
    assert step() == [], "nobody waits for it any more"


def test_an_edge_hurries_a_step_but_not_two() -> None:
    world = world_of(LIMITED)
    client = world.low()
    world.later(STEP_NS, {S0: Motion.SETTLED})
    world.now += MILLISECOND
    world.react(ev.WentActive(client=client, slot=S0))
    assert world.state.levels_due_ns == world.now - MILLISECOND + EARLIEST_NS
    world.now += SECOND // 2
    world.later(0, {S0: Motion.SETTLED})
    world.now += SECOND // 4
    world.react(ev.WentActive(client=client, slot=S0))
    assert world.state.levels_due_ns == world.now
    world.react(ev.WentIdle(client=client, slot=S0))
    assert world.state.levels_due_ns == world.now


def test_the_busiest_of_several_devices_counts() -> None:
    world = world_of(LIMITED)
    other = bytes(reversed(range(16)))
    world.ready(world.launch()[0], [bytes(range(16)), other])
    assert set(world.state.divisions) == {0, 1}
    world.later(STEP_NS, {S0: Motion.SETTLED, Slot(1): Motion.BUSY})
    assert world.state.levels_due_ns == world.now + STEP_NS
    for _ in range(2):
        world.later(LINGER_NS, {S0: Motion.MOVING, Slot(1): Motion.SETTLED})
    assert world.state.levels_due_ns == world.now + IDLE_STEP_NS


def test_without_clients_there_are_no_steps() -> None:
    world = world_of(LIMITED)
    first, second = world.low(), world.low()
    effects = world.gone(first)
    assert [len(effect.division.tenants) for effect in only(effects, do.Divide) if effect.division] == [1]
    effects = world.gone(second)
    assert [effect.division for effect in only(effects, do.Divide)] == [None]
    assert next_wakeup(world.state) is None
    assert world.state.levels_due_ns is None


def test_who_is_alone_with_its_share_needs_no_steps() -> None:
    world = world_of(TURNS)
    first = world.low()
    assert world.state.levels_due_ns is None
    second = world.low()
    assert world.state.levels_due_ns == world.now + STEP_NS
    world.gone(second)
    assert world.state.levels_due_ns is None
    assert first in world.state.clients


def test_words_come_before_what_they_belong_to() -> None:
    """A gate that asks for levels finds them: until then a page says that nothing is limited."""
    world = world_of(TURNS)
    world.low()
    launcher, _ = world.launch()
    client, _ = world.attach(launcher)
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((bytes(range(16)), 1),)))
    kinds = [type(effect) for effect in effects]
    assert kinds.count(do.Divide) == 1
    assert kinds.index(do.Divide) > max(i for i, kind in enumerate(kinds) if kind is do.PublishDevice)


def test_the_same_division_is_not_published_twice() -> None:
    world = world_of(TURNS)
    clients = [world.low() for _ in range(3)]
    job = world.state.clients[clients[0]].job
    effects = world.react(ev.SetAsked(job=job, by=by(True), changes=(("class", "all"),)))
    assert not only(effects, do.Divide)
    effects = world.react(ev.BoardChanged(board=board(("p", TURNS)), reading=world.reading()))
    assert not only(effects, do.Divide)


def test_stopping_ends_all_limits() -> None:
    world = world_of(LIMITED)
    client = world.low()
    effects = world.react(ev.StopAsked())
    assert [effect.division for effect in only(effects, do.Divide)] == [None]
    assert world.state.clients[client].words[S0].gate == 0


# ---------------------------------------------------------------- restarts


def level(world: World, client: ClientId, **more: int) -> Level:
    words = {"cap_ns": -5, "cap_ppm": 400_000, "lag_ns": 7, "share_ppm": 500_000, "at_ns": world.now, "busy_ppm": 9}
    job = world.state.clients[client].job
    return Level(tenant=job, slot=S0, spent=((client, 123),), **(words | more))  # type: ignore[arg-type]


def test_levels_that_move_are_put_on_file_once_a_second() -> None:
    world = world_of(LIMITED)
    world.low()
    world.later(STEP_NS, {S0: Motion.BUSY})
    saves = 0
    for _ in range(2 * SECOND // STEP_NS):
        saves += len(only(world.later(STEP_NS, {S0: Motion.BUSY}), do.SaveState))
    assert saves == 2
    assert SAVE_NS == SECOND
    world.later(STEP_NS, {S0: Motion.SETTLED})
    assert not only(world.later(10 * SECOND, None), do.SaveState)


def restarted(world: World, levels: list[Level]) -> World:
    content = saved.dump(world.state, "b", levels)
    found = saved.load(content, "b")
    assert found is not None
    world.state = new_state(world.state.board)
    saved.restore(world.state, found, lambda pid, started: True, world.now + 10 * SECOND)
    return world


def back(world: World, client: ClientId) -> list[Effect]:
    old = world.state.clients[client]
    return world.react(asks(world.session(), old.who, client, old.generation)) + world.react(ev.Mapped(client=client))


def test_levels_go_on_from_the_file() -> None:
    world = world_of(TURNS)
    first, second = world.low(), world.low()
    levels = [level(world, first), level(world, second, cap_ns=-9)]
    restarted(world, levels)
    effects = back(world, first)
    create, divide, welcome = (
        next(i for i, effect in enumerate(effects) if isinstance(effect, kind))
        for kind in (do.CreatePages, do.Divide, do.SendWelcome)
    )
    assert create < divide < welcome  # the new page says what the old one did before it is seen
    divided = only(effects, do.Divide)
    assert divided[0].resumed == tuple(levels)
    assert [effect.resumed for effect in divided[1:]] == [()] * (len(divided) - 1)
    awaited = [
        {client.client: client.awaited for tenant in effect.division.tenants for client in tenant.clients}
        for effect in divided
        if effect.division is not None
    ]
    assert awaited == [{first: True, second: True}, {first: False, second: True}]
    effects = back(world, second)
    assert only(effects, do.Divide)[-1].resumed == ()


def test_levels_stay_on_file_until_somebody_comes_back() -> None:
    """The daemon may be started again before that, and again."""
    world = world_of(TURNS)
    first, second = world.low(), world.low()
    levels = [level(world, first), level(world, second)]
    restarted(restarted(world, levels), [])
    assert only(back(world, first), do.Divide)[0].resumed == tuple(levels)


def test_levels_of_jobs_that_are_gone_are_forgotten() -> None:
    world = world_of(TURNS)
    first = world.low()
    gone = Level(tenant=JobId(99), slot=S0, cap_ns=0, cap_ppm=None, lag_ns=0, share_ppm=0, at_ns=0, spent=((first, 1),))
    restarted(world, [gone, level(world, first)])
    assert {one.tenant for one in world.state.levels[S0]} == {world.state.clients[first].job}


@pytest.mark.parametrize(
    "more",
    [{"cap_ns": 2**70}, {"lag_ns": -(2**62)}, {"at_ns": -1}, {"at_ns": 2**63}, {"share_ppm": -1}, {"cap_ppm": 2**33},
     {"busy_ppm": 2**63}, {"slot": 9}],
)  # fmt: skip
def test_nonsense_on_file_is_left_out(more: dict[str, int]) -> None:
    world = world_of(TURNS)
    first = world.low()
    content = msgspec.json.decode(saved.dump(world.state, "b", [level(world, first)]))
    content["levels"][0] |= more
    try:
        found = saved.load(msgspec.json.encode(content), "b")
    except ValueError:
        return  # such a file is not read at all
    assert found is not None
    state = new_state(world.state.board)
    saved.restore(state, found, lambda pid, started: True, world.now)
    assert state.levels == {}


def test_a_file_of_before_levels_is_read() -> None:
    world = world_of(TURNS)
    world.low()
    content = msgspec.json.decode(saved.dump(world.state, "b"))
    del content["levels"]
    assert saved.load(msgspec.json.encode(content), "b") is not None


def test_classes_that_change_keep_their_levels() -> None:
    """On a reload the same tenants go on; the store takes over what it knows of them."""
    world = world_of(TURNS)
    world.low()
    world.low()
    other = "class some { match any  share = burst(weight = 2, max = 50%) }  arbitrate share { period = 10ms }"
    effects = world.react(ev.BoardChanged(board=board(("p", other)), reading=world.reading()))
    divided = only(effects, do.Divide)
    assert len(divided) == 1
    assert divided[0].division is not None
    assert [len(unit.members) for unit in divided[0].division.units] == [2]
    assert isinstance(effects[-1], do.Reloaded)  # all pages are written by then


def test_another_amount_divides_the_device_and_writes_no_words() -> None:
    """A controller moves a rate many times a second: nobody's words, tables or caps are looked at for it."""
    world = world_of(
        "class all { match any }  arbitrate open {}\n"
        "when all.queued > 1 { all.max_launch_rate = 500/s }  when all.queued > 5 { all.max_launch_rate = 100/s }"
    )
    one = world.low()
    world.low()
    assert only(world.ticks(STEP_NS, {one: Counters(holding=2)}), do.PublishDevice)
    before = world.state.divisions[S0]
    effects = world.ticks(STEP_NS, {one: Counters(holding=6)})
    (divide,) = only(effects, do.Divide)
    assert not only(effects, do.PublishDevice)
    assert divide.division is world.state.divisions[S0]
    assert divide.division is not None
    assert divide.division.has_shape_of(before)
    assert [total.amount for total in divide.division.totals] == [100_000]
    # It is what dividing anew would say.
    assert divide.division == division_of(world.state, S0)
    # No limit at all is another matter.
    assert only(world.ticks(STEP_NS), do.PublishDevice)
    assert S0 not in world.state.divisions
