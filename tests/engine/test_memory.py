"""`limit { memory, over_memory }` and `admit { memory }`: words, peers, the line of allocations that wait."""

import pytest

from gpud.engine.memory_line import NO_DEVICE, NO_LIMIT, NO_TIME, YES
from gpud.engine.report import job_view
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import MEMORY_WAIT, PEER_OWN, UNLIMITED, DeviceWords
from gpud.model.units import MILLISECOND, SECOND
from gpud.model.views import MemoryView
from tests.engine.conftest import UUID, World, board, only

S0 = Slot(0)
MIB, GIB = 1 << 20, 1 << 30
LIMITS = """
  class gold   { match label("plan") == "gold"    limit { memory = 512MiB } }
  class silver { match label("plan") == "silver"
                 limit { memory = label_bytes("mem", default = 256MiB)  over_memory = wait(max = 10s) } }
  class free   { match any }
"""


def words(world: World, client: ClientId) -> DeviceWords:
    return world.state.clients[client].words[S0]


def held(**of: int) -> dict[tuple[ClientId, Slot], Counters]:
    """c1 = bytes that client 1 has reserved."""
    return {(ClientId(int(name[1:])), S0): Counters(reserved_bytes=count) for name, count in of.items()}


def asks(world: World, client: ClientId, count: int, request: int = 1, time_ns: int = 0, **of: int) -> list[Effect]:
    event = ev.AllocAsked(client=client, slot=S0, request=request, bytes=count, time_ns=time_ns, held=held(**of))
    return world.react(event)


def reads(world: World, **of: int) -> list[Effect]:
    """Time passes, and the pages say this."""
    world.now += 10 * MILLISECOND
    found = {client: counters for (client, _), counters in held(**of).items()}
    return world.react(ev.Tick(reading=world.reading(found)))


def replies(effects: list[Effect]) -> list[tuple[int, int, int]]:
    return [(one.client, one.request, one.code) for one in only(effects, do.SendAllocReply)]


def drives(world: World, used: dict[ClientId, int | None], total_used: int, reserved: dict[str, int]) -> list[Effect]:
    processes = tuple(
        ev.Process(pid=c.who.pid, started=1, user="ann", command="x", used_bytes=used[c.id])
        for c in world.state.clients.values()
        if c.id in used
    )
    seen = ev.Seen(total_bytes=GIB, used_bytes=total_used, processes=processes)
    world.now += MILLISECOND
    return world.react(ev.DriverTold(devices={UUID: seen}, held=held(**reserved)))


def test_limits_of_one_tenant_are_in_its_page() -> None:
    world = World(running=board(("limits", LIMITS)))
    found = []
    for labels in (
        {"label_plan": "gold"},
        {"label_plan": "silver"},
        {"label_plan": "silver", "label_mem": "64MiB"},
        {},
    ):
        client = world.ready(world.launch(None, **labels)[0])
        found.append((words(world, client).memory_limit, words(world, client).memory_flags, words(world, client).gate))
    assert found == [(512 * MIB, 0, 0), (256 * MIB, MEMORY_WAIT, 0), (64 * MIB, MEMORY_WAIT, 0), (UNLIMITED, 0, 0)]


def test_the_tightest_policy_holds_with_its_own_word() -> None:
    more = "class all { match any  limit { memory = 384MiB  over_memory = wait(max = 1s) } }"
    world = World(running=board(("limits", LIMITS), ("more", more)))
    gold = world.ready(world.launch(label_plan="gold")[0])
    silver = world.ready(world.launch(label_plan="silver")[0])
    assert (words(world, gold).memory_limit, words(world, gold).memory_flags) == (384 * MIB, MEMORY_WAIT)
    assert words(world, silver).memory_limit == 256 * MIB


def test_processes_of_a_limited_tenant_see_each_other_and_nobody_else() -> None:
    world = World(running=board(("limits", LIMITS)))
    launcher = world.launch(label_plan="gold")[0]
    first, second = world.ready(launcher), world.ready(launcher)
    other = world.ready(world.launch(label_plan="gold")[0])
    free = world.launch()[0]
    alone = [world.ready(free), world.ready(free)]
    assert [(p.client, p.flags) for p in words(world, first).peers] == [(second, PEER_OWN)]
    assert [(p.client, p.flags) for p in words(world, second).peers] == [(first, PEER_OWN)]
    assert words(world, other).peers == words(world, alone[0]).peers == words(world, alone[1]).peers == ()


def test_processes_beyond_the_table_are_added_up() -> None:
    world = World(running=board(("limits", LIMITS)))
    launcher = world.launch(label_plan="gold")[0]
    clients = [world.ready(launcher) for _ in range(19)]
    first = world.state.clients[clients[0]]
    beyond = {c for c in clients[1:] if c not in first.peers}
    assert len(beyond) == 2
    assert world.state.memory_due_ns is not None
    effects = reads(world, **{f"c{c}": 3 * MIB for c in clients})
    assert words(world, clients[0]).others_reserved == 6 * MIB
    assert {e.client for e in only(effects, do.PublishDevice)} == set(clients)
    assert not only(reads(world, **{f"c{c}": 3 * MIB for c in clients}), do.PublishDevice), "nothing new"
    gone = beyond.pop()
    world.gone(gone)
    left = beyond.pop()
    reads(world, **{f"c{c}": 5 * MIB if c == left else 3 * MIB for c in clients if c != gone})
    assert words(world, clients[0]).others_reserved == 5 * MIB
    assert left not in world.state.clients[clients[0]].peers
    world.gone(clients[1])
    assert words(world, clients[0]).others_reserved == 0, "it has moved up into the table"
    assert world.state.memory_due_ns is None or not world.state.crowded


def test_a_limit_is_changed_live() -> None:
    world = World(running=board(("limits", LIMITS)))
    client = world.ready(world.launch(label_plan="gold")[0])
    lower = board(("limits", LIMITS.replace("512MiB", "16MiB")))
    effects = world.react(ev.BoardChanged(board=lower, reading=world.reading({client: Counters(reserved_bytes=GIB)})))
    assert [e.words.memory_limit for e in only(effects, do.PublishDevice)] == [16 * MIB]
    none = board(("limits", "class all { match any }"))
    world.react(ev.BoardChanged(board=none, reading=world.reading()))
    assert words(world, client).memory_limit == UNLIMITED


def test_overhead_is_what_the_driver_says_beyond() -> None:
    world = World(running=board(("limits", LIMITS)))
    launcher = world.launch(label_plan="gold")[0]
    one, two = world.ready(launcher), world.ready(launcher)
    drives(world, {one: 150 * MIB, two: 60 * MIB}, 300 * MIB, {f"c{one}": 100 * MIB})
    assert words(world, one).overhead_bytes == words(world, two).overhead_bytes == 110 * MIB
    drives(world, {one: 250 * MIB, two: 60 * MIB}, 300 * MIB, {f"c{one}": 100 * MIB})
    assert words(world, one).overhead_bytes == 110 * MIB, "it has allocated meanwhile: no overhead"
    drives(world, {one: 250 * MIB, two: 61 * MIB}, 300 * MIB, {f"c{one}": 190 * MIB})
    assert words(world, one).overhead_bytes == 120 * MIB
    drives(world, {one: None, two: 61 * MIB}, 300 * MIB, {})
    assert words(world, one).overhead_bytes == 61 * MIB
    world.gone(two)
    assert words(world, one).overhead_bytes == 0


def test_what_is_just_about_to_be_allocated_makes_overhead_no_less() -> None:
    world = World(running=board(("limits", LIMITS)))
    one = world.ready(world.launch(label_plan="gold")[0])
    for _ in range(2):
        drives(world, {one: 108 * MIB}, 300 * MIB, {f"c{one}": 100 * MIB})
    drives(world, {one: 108 * MIB}, 300 * MIB, {f"c{one}": 148 * MIB})
    assert words(world, one).overhead_bytes == 8 * MIB, "reserved, and not yet the driver's"
    drives(world, {one: 156 * MIB}, 300 * MIB, {f"c{one}": 148 * MIB})
    assert words(world, one).overhead_bytes == 8 * MIB


def test_an_answer_older_than_what_was_read_measures_nothing() -> None:
    world = World(running=board(("limits", LIMITS)))
    one = world.ready(world.launch(label_plan="gold")[0])
    seen = ev.Seen(total_bytes=GIB, used_bytes=0, processes=(_process(world, one, 8 * MIB),))
    world.react(ev.DriverTold(devices={UUID: seen}, held=held(c1=0), asked_ns=5, held_ns=5))
    assert words(world, one).overhead_bytes == 8 * MIB
    seen = ev.Seen(total_bytes=GIB, used_bytes=0, processes=(_process(world, one, 200 * MIB),))
    for _ in range(3):
        world.react(ev.DriverTold(devices={UUID: seen}, held=held(c1=0), asked_ns=5, held_ns=6))
    assert words(world, one).overhead_bytes == 8 * MIB


def _process(world: World, client: ClientId, used: int) -> ev.Process:
    who = world.state.clients[client].who
    return ev.Process(pid=who.pid, started=who.started, user="ann", command="x", used_bytes=used)


def test_who_may_not_wait_is_refused_at_once() -> None:
    world = World(running=board(("limits", LIMITS)))
    gold = world.ready(world.launch(label_plan="gold")[0])
    assert replies(asks(world, gold, 100 * MIB, c1=450 * MIB)) == [(gold, 1, NO_LIMIT)]
    assert replies(asks(world, gold, 10 * MIB, c1=450 * MIB)) == [(gold, 1, NO_DEVICE)]
    assert not world.state.asks


def silver() -> tuple[World, ClientId, ClientId]:
    world = World(running=board(("limits", LIMITS)))
    launcher = world.launch(label_plan="silver")[0]
    return world, world.ready(launcher), world.ready(launcher)


def test_who_waits_is_answered_when_there_is_room_first_come_first_served() -> None:
    world, one, two = silver()
    assert not replies(asks(world, one, 100 * MIB, 7, c1=100 * MIB, c2=100 * MIB))
    assert not replies(asks(world, two, 60 * MIB, 8, c1=100 * MIB, c2=100 * MIB))
    assert not replies(reads(world, c1=100 * MIB, c2=90 * MIB)), "it would fit, but is second"
    assert replies(reads(world, c1=80 * MIB, c2=70 * MIB)) == [(one, 7, YES)]
    assert not replies(reads(world, c1=80 * MIB, c2=70 * MIB)), "the room is promised"
    assert not replies(reads(world, c1=180 * MIB, c2=70 * MIB))
    assert replies(reads(world, c1=126 * MIB, c2=70 * MIB)) == [(two, 8, YES)]


def test_who_was_too_slow_keeps_its_place() -> None:
    world, one, two = silver()
    asks(world, one, 100 * MIB, 7, c1=200 * MIB)
    asks(world, two, 100 * MIB, 8, c1=200 * MIB)
    assert replies(reads(world, c1=150 * MIB)) == [(one, 7, YES)]
    assert not replies(asks(world, one, 100 * MIB, 7, c1=150 * MIB, c2=50 * MIB)), "somebody was quicker"
    assert replies(reads(world, c1=150 * MIB)) == [(one, 7, YES)]
    assert [asked.request for asked in world.state.asks] == [7, 8]


def test_the_wait_ends_by_the_policy_and_by_the_asker() -> None:
    world, one, two = silver()
    asks(world, one, 100 * MIB, 7, c1=200 * MIB)
    asks(world, two, 100 * MIB, 8, time_ns=2 * SECOND, c1=200 * MIB)
    world.now += 2 * SECOND - 10 * MILLISECOND
    assert replies(reads(world, c1=200 * MIB)) == [(two, 8, NO_TIME)]
    world.now += 8 * SECOND - 20 * MILLISECOND
    assert not replies(reads(world, c1=200 * MIB))
    assert replies(reads(world, c1=200 * MIB)) == [(one, 7, NO_TIME)]
    assert not world.state.asks
    assert world.state.memory_due_ns is None


def test_a_tick_is_due_when_the_wait_ends() -> None:
    world, one, _ = silver()
    asks(world, one, 100 * MIB, 7, time_ns=3 * MILLISECOND, c1=200 * MIB)
    assert world.state.memory_due_ns == world.now + 3 * MILLISECOND


def test_what_can_never_fit_does_not_wait() -> None:
    world, one, _ = silver()
    assert replies(asks(world, one, 257 * MIB)) == [(one, 1, NO_LIMIT)]
    free = World(
        running=board(("wait", "class all { match any  limit { memory = 2GiB  over_memory = wait(max = 1s) } }"))
    )
    client = free.ready(free.launch()[0])
    assert replies(asks(free, client, GIB + 1)) == [(client, 1, NO_DEVICE)]


@pytest.mark.parametrize("how", ["dies", "withdraws", "sibling dies"])
def test_death_and_withdrawal_clean_up(how: str) -> None:
    world, one, two = silver()
    asks(world, one, 100 * MIB, 7, c1=100 * MIB, c2=100 * MIB)
    if how == "dies":
        effects = world.gone(one)
    elif how == "withdraws":
        effects = asks(world, one, 0, 7, c1=100 * MIB, c2=100 * MIB)
    else:
        effects = world.gone(two)
        assert replies(effects) == [(one, 7, YES)], "at once"
        return
    assert not replies(effects)
    assert not world.state.asks


def test_another_policy_ends_the_wait() -> None:
    world, one, _ = silver()
    asks(world, one, 100 * MIB, 7, c1=200 * MIB)
    fails = board(("limits", LIMITS.replace("  over_memory = wait(max = 10s)", "")))
    reading = world.reading({one: Counters(reserved_bytes=200 * MIB)})
    assert replies(world.react(ev.BoardChanged(board=fails, reading=reading))) == [(one, 7, NO_LIMIT)]
    more = board(("limits", LIMITS.replace("256MiB", "512MiB")))
    world.react(ev.BoardChanged(board=more, reading=reading))
    world.react(ev.BoardChanged(board=board(("limits", LIMITS)), reading=reading))
    asks(world, one, 100 * MIB, 9, c1=200 * MIB)
    assert replies(world.react(ev.BoardChanged(board=more, reading=reading))) == [(one, 9, YES)]


def test_who_waits_below_a_limit_tries_again_when_the_limit_is_lifted() -> None:
    world, one, _ = silver()
    asks(world, one, 100 * MIB, 7, c1=200 * MIB)
    reading = world.reading({one: Counters(reserved_bytes=200 * MIB)})
    none = board(("limits", "class all { match any }"))
    assert replies(world.react(ev.BoardChanged(board=none, reading=reading))) == [(one, 7, YES)]
    assert replies(asks(world, one, 100 * MIB, 7, c1=200 * MIB)) == [(one, 7, NO_DEVICE)], "the driver had none either"


def test_a_full_device_is_waited_for_until_others_give_or_the_driver_says_so() -> None:
    world, one, _ = silver()
    other = world.ready(world.launch()[0])
    assert not replies(asks(world, one, 100 * MIB, 7, c3=900 * MIB)), "below its limit: it is the device that is full"
    assert not replies(reads(world, c3=850 * MIB))
    assert replies(reads(world, c3=800 * MIB)) == [(one, 7, YES)]
    assert not replies(asks(world, one, 100 * MIB, 7, c3=800 * MIB))
    assert not replies(drives(world, {}, GIB - 99 * MIB, {}))
    assert replies(drives(world, {}, GIB - 100 * MIB, {})) == [(one, 7, YES)]
    assert not replies(asks(world, one, 100 * MIB, 7, c3=800 * MIB)), "what the driver said before counts no more"
    assert replies(world.gone(other)) == [(one, 7, YES)]


PROMISES = """
  class gold { match label("plan") == "gold"  limit { memory = 400MiB } }
  class rest { match any }
  admit { memory = 150%  when_full = queue(max = 5min) }
"""


def test_promised_memory_lets_in_or_keeps_waiting() -> None:
    world = World(running=board(("quotas", PROMISES)))
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    said = []
    for labels in [{"label_plan": "gold"}] * 4 + [{}]:
        effects = world.launch(None, **labels)[1]
        said.append(type(next(e for e in effects if isinstance(e, do.SendJob | do.SendQueued | do.Refuse))).__name__)
    assert said == ["SendJob", "SendJob", "SendJob", "SendQueued", "SendJob"]
    text = "400MiB of memory do not fit on device 0: 1200MiB of 1536MiB are promised (policy quotas)"
    assert world.state.waiting[0].text.replace("1.5GiB", "1536MiB") == text
    first = next(iter(world.state.tenants))
    assert only(world.react(ev.LauncherEnded(job=first)), do.SendJob)


def test_a_job_over_its_lowered_limit_is_shown_with_its_line() -> None:
    world = World(running=board(("limits", LIMITS)))
    client = world.ready(world.launch(label_plan="gold")[0])
    row = Counters(reserved_bytes=300 * MIB, used_bytes=290 * MIB, resident_bytes=200 * MIB, pinned_bytes=100 * MIB)
    drives(world, {client: 350 * MIB}, 400 * MIB, {f"c{client}": 300 * MIB})

    def seen() -> MemoryView:
        (tenant,) = world.state.tenants.values()
        (view,) = job_view(world.state, tenant, {(client, S0): row}, world.now, {}).memory
        return view

    view = seen()
    assert (view.used, view.reserved, view.limit, view.overhead) == (290 * MIB, 300 * MIB, 512 * MIB, 50 * MIB)
    assert (view.resident, view.pinned, view.over, view.place) == (200 * MIB, 100 * MIB, False, "limits.gpol:3")
    lower = board(("limits", LIMITS.replace("512MiB", "340MiB")))
    world.react(ev.BoardChanged(board=lower, reading=world.reading({client: row})))
    assert (seen().over, seen().place) == (True, "limits.gpol:3"), "with what it holds beside"
    drives(world, {client: None}, 400 * MIB, {})
    assert (seen().overhead, seen().over) == (None, False)


def test_who_waits_is_counted() -> None:
    world, one, _ = silver()
    asks(world, one, 100 * MIB, 7, c1=200 * MIB)
    (tenant,) = world.state.tenants.values()
    (view,) = job_view(world.state, tenant, {}, world.now, {}).memory
    assert (view.waiting, view.waiting_bytes) == (1, 100 * MIB)
