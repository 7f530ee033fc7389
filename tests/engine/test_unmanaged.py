"""Processes without a hook: shown, and said once."""

from gpud.engine import report
from gpud.engine.unmanaged import SETTLED_NS, of_device
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.events import Process
from gpud.model.units import SECOND
from tests.engine.conftest import GIB, UUID, World, only


def process(pid: int, started: int = 1, **more: object) -> Process:
    return Process(**{"pid": pid, "started": started, "user": "eve", "command": "miner", "used_bytes": GIB, **more})  # type: ignore[arg-type]


def told(world: World, *processes: Process, asked_ns: int | None = None) -> list[str]:
    """The driver lists them, and still does a while later. Returns what the journal gets."""
    seen = ev.Seen(total_bytes=40 * GIB, used_bytes=GIB, processes=processes)
    asked = world.now if asked_ns is None else asked_ns
    effects = world.react(ev.DriverTold(devices={UUID: seen}, asked_ns=asked))
    assert not only(effects, do.Record), "nothing is said before it has settled"
    world.now += SETTLED_NS
    effects += world.react(ev.DriverTold(devices={UUID: seen}, asked_ns=asked))
    return [effect.text for effect in only(effects, do.Record)]


def shown(world: World) -> list[tuple[int, int | None]]:
    return [(one.pid, one.device) for one in report.unmanaged(world.state)]


def test_a_process_without_a_hook_is_said_once() -> None:
    world = World()
    who = world.state.clients[world.low()].who
    own = process(who.pid, who.started)
    assert told(world, own, process(7)) == [
        "process 7 (miner) of eve is on device 0 without gpud: no policy holds it, and no share counts it"
    ]
    assert told(world, own, process(7)) == []
    assert shown(world) == [(7, 0)]
    assert told(world, own) == []
    assert shown(world) == []
    assert len(told(world, process(7))) == 1, "it came back"


def test_the_number_alone_says_nothing() -> None:
    """A client has ended, and another process has its number."""
    world = World()
    who = world.state.clients[world.low()].who
    assert len(told(world, process(who.pid, who.started + 1))) == 1


def test_who_has_left_since_the_driver_was_asked_is_no_stranger() -> None:
    world = World()
    client = world.low()
    who = world.state.clients[client].who
    asked = world.now
    world.now += SECOND
    world.gone(client)
    world.now += SECOND
    assert told(world, process(who.pid, who.started), asked_ns=asked) == []
    assert shown(world) == []
    assert len(told(world, process(who.pid, who.started))) == 1, "its hook is gone, it is still there"


def test_who_attaches_is_no_stranger_any_more() -> None:
    world = World()
    world.low()
    who = world.who()
    told(world, process(who.pid, who.started))
    assert shown(world) == [(who.pid, 0)]
    world.attach(who=who)
    assert shown(world) == []
    assert of_device(world.state, UUID) == ()


def test_where_the_driver_does_not_say_nobody_is_shown() -> None:
    world = World()
    world.low()
    told(world, process(7))
    seen = ev.Seen(total_bytes=GIB, used_bytes=0, processes=None)
    world.react(ev.DriverTold(devices={UUID: seen}))
    assert shown(world) == []


def test_a_device_that_nobody_manages() -> None:
    world = World()
    other = bytes(reversed(UUID))
    seen = ev.Seen(total_bytes=GIB, used_bytes=0, processes=(process(9, command=""),))
    assert not only(world.react(ev.DriverTold(devices={other: seen})), do.Record)
    world.now += SETTLED_NS
    (record,) = only(world.react(ev.DriverTold(devices={other: seen})), do.Record)
    assert record.text.startswith("process 9 (?) of eve is on device GPU-0f0e")
    assert shown(world) == [(9, None)]


def test_a_program_that_ran_before_the_daemon_has_time_to_attach() -> None:
    world = World()
    who = world.who()
    seen = ev.Seen(total_bytes=GIB, used_bytes=0, processes=(process(who.pid, who.started),))
    assert not only(world.react(ev.DriverTold(devices={UUID: seen})), do.Record)
    world.attach(who=who)
    world.now += 10 * SETTLED_NS
    assert not only(world.react(ev.DriverTold(devices={UUID: seen})), do.Record)


def test_what_is_remembered_is_forgotten() -> None:
    world = World()
    for _ in range(5):
        world.gone(world.low())
    assert len(world.state.left) == 5
    world.now += 1000 * SECOND
    told(world, process(7))
    assert world.state.left == []
    told(world)
    assert world.state.told_of == set()
