import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpud.engine import saved
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.units import SECOND
from tests.engine.conftest import UUID, World, asks, board, new_state, only


def restart(world: World, dead: frozenset[int] = frozenset(), boot: str = "b") -> State:
    found = saved.load(saved.dump(world.state, "b"), boot)
    state = new_state(world.state.board)
    if found is not None:
        saved.restore(state, found, lambda pid, started: pid not in dead and started == 1, world.now + 10 * SECOND)
    world.state = state
    return state


def come_back(world: World, client: ClientId) -> list[do.Effect]:
    old = world.state.clients[client]
    again = asks(world.session(), old.who, client, old.generation)
    effects = world.react(again)
    return effects + world.react(ev.Mapped(client=client))


def test_everything_that_lives_is_taken_over(world: World) -> None:
    low, high = world.low(), world.high()
    before = saved.dump(world.state, "b")
    state = restart(world)
    assert saved.dump(state, "b") == before
    assert state.adopt_until_ns == world.now + 10 * SECOND
    assert [world.class_of(c) for c in (low, high)] == ["low", "high"]


def test_a_client_that_comes_back_finds_its_words_in_the_new_page(world: World) -> None:
    low, high = world.low(), world.high()
    words = world.state.clients[low].words[Slot(0)]
    restart(world)
    effects = come_back(world, low)
    create = effects.index(only(effects, do.CreatePages)[0])
    publish = effects.index(only(effects, do.PublishDevice)[0])
    welcome = effects.index(only(effects, do.SendWelcome)[0])
    assert create < publish < welcome
    assert only(effects, do.CreatePages)[0].adopt
    # High is not back yet, but low has its page mapped and goes on looking at it.
    assert only(effects, do.PublishDevice)[0].words == words
    assert not only(effects, do.SendAttached)
    assert world.state.adopted == 1
    assert high in world.state.clients[low].peers


def test_what_contexts_take_is_kept_and_measured_only_of_who_is_back() -> None:
    text = "class all { match any  limit { memory = 512MiB  over_memory = wait(max = 10s) } }"
    world = World(running=board(("limits", text)))
    launcher = world.launch()[0]
    one, two = world.ready(launcher), world.ready(launcher)
    mib = 1 << 20

    def told(used: dict[ClientId, int], held: dict[ClientId, int]) -> None:
        processes = tuple(
            ev.Process(pid=world.state.clients[c].who.pid, started=1, user="ann", command="x", used_bytes=used[c] * mib)
            for c in used
        )
        seen = ev.Seen(total_bytes=1 << 30, used_bytes=0, processes=processes)
        reserved = {(c, Slot(0)): Counters(reserved_bytes=count * mib) for c, count in held.items()}
        world.react(ev.DriverTold(devices={UUID: seen}, held=reserved))

    told({one: 108, two: 308}, {one: 100, two: 300})
    restart(world)
    come_back(world, one)
    assert world.state.clients[one].words[Slot(0)].overhead_bytes == 16 * mib
    asked = ev.AllocAsked(client=one, slot=Slot(0), request=1, bytes=100 * mib, time_ns=0, held={})
    assert not only(world.react(asked), do.SendAllocReply), "what the other one has is not known yet"
    told({one: 108, two: 308}, {one: 100})
    assert world.state.clients[one].words[Slot(0)].overhead_bytes == 16 * mib
    come_back(world, two)
    told({one: 108, two: 308}, {one: 100, two: 300})
    assert world.state.clients[one].words[Slot(0)].overhead_bytes == 16 * mib


def test_who_does_not_come_back_is_gone_after_ten_seconds(world: World) -> None:
    low, high = world.low(), world.high()
    restart(world)
    come_back(world, low)
    effects = world.later(10 * SECOND)
    assert high not in world.state.clients
    assert [e.words.peers for e in only(effects, do.PublishDevice) if e.client == low] == [()]
    assert low in world.state.clients


def test_the_dead_are_not_taken_over(world: World) -> None:
    low, high = world.low(), world.high()
    pids = {world.state.clients[high].who.pid, world.state.tenants[world.state.clients[high].job].who.pid}
    state = restart(world, frozenset(pids))
    assert list(state.clients) == [low]
    assert state.clients[low].peers == {}
    assert len(state.tenants) == 1


def test_jobs_waiting_for_a_first_process_are_taken_over(world: World) -> None:
    launcher, _ = world.launch(label_tier="online")
    restart(world)
    client = world.ready(launcher)
    assert world.class_of(client) == "high"


def test_the_program_that_the_kernel_named_is_kept_and_one_it_has_yet_to_name_is_not_believed() -> None:
    running = board(
        ("by-exe", 'class vllm { match exe ~ "*/vllm" } class rest { match any } arbitrate open {} rest.pause = true')
    )
    world = World(running=running)
    known, _ = world.launch(exe="/opt/vllm")
    first, _ = world.attach(who=evolve(world.who(((known.pid, 1),)), exe="/opt/vllm"))
    yet, _ = world.launch(exe="/opt/vllm")
    restart(world)
    assert world.class_of(first) == "vllm"
    world.attach(who=evolve(world.who(((known.pid, 1),)), exe="/bin/sh"))
    assert world.class_of(first) == "vllm"
    assert world.class_of(world.attach(who=evolve(world.who(((yet.pid, 1),)), exe="/bin/sh"))[0]) == "rest"


def test_policies_go_on_with_the_first_who_comes_back() -> None:
    """Nobody reports devices again: those who come back are on them already."""
    hours = """
      timezone "UTC"
      hours day = daily 08:00..20:00
      class all { match any }
      arbitrate open {}
      during day { all.pause = true }
    """
    world = World(running=board(("hours", hours)))
    client = world.low()
    due = world.state.tick_due_ns
    assert due is not None
    restart(world)
    assert world.state.tick_due_ns is None
    come_back(world, client)
    assert world.state.tick_due_ns is not None
    world.now = due
    world.ticks(0, wall_ns=9 * 3600 * SECOND)
    assert world.state.clients[client].words[Slot(0)].gate == 1


def test_numbers_go_on(world: World) -> None:
    world.low()
    generation = world.state.last_generation
    state = restart(world)
    new = world.low()
    assert new == 2
    assert state.clients[new].generation == generation + 1


def test_another_boot_takes_nobody_over(world: World) -> None:
    world.low()
    assert restart(world, boot="another").clients == {}


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"format": 99}'])
def test_a_file_that_cannot_be_read(content: bytes) -> None:
    with pytest.raises(ValueError, match="the state file"):
        saved.load(content, "b")


def test_a_file_of_another_format(world: World) -> None:
    content = json.loads(saved.dump(world.state, "b")) | {"format": 99}
    with pytest.raises(ValueError, match="format 99"):
        saved.load(json.dumps(content).encode(), "b")


@pytest.mark.parametrize("slot", [-1, 8])
def test_a_slot_outside_of_the_pages_is_not_believed(world: World, slot: int) -> None:
    world.low()
    for path in (("clients", 0, "devices", 0), ("devices", 0, "slot")):
        content = json.loads(saved.dump(world.state, "b"))
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        assert inner[path[-1]] == 0
        inner[path[-1]] = slot
        with pytest.raises(ValueError, match="the state file cannot be read"):
            saved.load(json.dumps(content).encode(), "b")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="the state file"):
        saved.load(content, "b")
