"""Rows of a node: what they say, and that what has not changed is not made anew."""

from attrs import evolve

from gpud.control import wire
from gpud.engine.live import step
from gpud.engine.live_still import COMMAND, MOST_PROCESSES, short
from gpud.engine.publish import (
    GATE_BUDGET,
    GATE_COPY,
    GATE_GRANT,
    GATE_PAUSED,
    GATE_PREEMPT,
    GATE_RATE,
    GATE_SHARE,
    GATE_WINDOW,
)
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import Slot
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, board
from tests.engine.live_world import OTHER, S0, SHARES, TURNS, WALL, Watched, changed


def test_what_a_row_says() -> None:
    world = Watched()
    low = world.low()
    world.counters[low] = Counters(
        entered=5, held=2, held_ns=30, spent_ns=70, used_bytes=100, active=1, resident_bytes=60, reserved_bytes=128
    )
    world.now += 4 * SECOND
    row = world.row(low)
    assert (row.id, row.name, row.user, row.uid, row.job_class, row.state) == (
        1,
        "python",
        "ann",
        1000,
        "low",
        "active",
    )
    assert (row.used_bytes, row.resident_bytes, row.spent_ns, row.launches) == (100, 60, 70, 5)
    assert (row.held, row.held_ns, row.devices, row.why, row.tags) == (2, 30, (0,), None, ())
    assert row.began_at_ns == WALL + 100 * SECOND
    assert [(one.pid, one.used_bytes, one.devices) for one in row.processes] == [
        (world.state.clients[low].who.pid, 100, (0,))
    ]
    device = world.look().devices["GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"]
    assert (device.slot, device.reserved_bytes, device.busy_ns, device.arbiter) == (0, 128, 70, "preempt")
    assert (device.used_bytes, device.policies, device.total_bytes) == (None, ("preempt-mix",), GIB)
    assert [
        (one.job_class, one.rank, one.jobs, one.active, one.held, one.spent_ns) for one in world.look().classes
    ] == [
        ("high", 0, 0, 0, 0, 0),
        ("low", 1, 1, 1, 0, 70),
    ]
    node = world.look().node
    assert (node.host, node.version, node.pid, node.driver, node.generation) == ("node1", "9", 7, "ok", 1)


def test_nothing_is_made_anew_while_nothing_changes() -> None:
    world = Watched()
    low, high = world.low(), world.high()
    world.holds(low, GATE_PREEMPT, high)
    before = world.look()
    world.now += 3 * SECOND
    after = world.look()
    assert changed(before, after) == []
    assert after.node is before.node
    assert after.classes is before.classes
    feed = step(before, after, 2)
    assert (feed.node, feed.devices, feed.jobs, feed.gone, feed.classes) == (None, (), (), (), None)


def test_only_who_does_something_changes() -> None:
    world = Watched()
    clients = [world.low() for _ in range(5)]
    before = world.look()
    world.counters[clients[3]] = Counters(entered=1)
    assert changed(before, world.look()) == [4]


def test_sums_grow_when_a_process_leaves() -> None:
    world = Watched()
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    launcher, _ = world.launch()
    first, second = world.ready(launcher), world.ready(launcher)
    for client in (first, second):
        world.counters[client] = Counters(entered=10, spent_ns=100, held=3, held_ns=4, used_bytes=50)
    assert world.row(first).launches == 20
    world.gone(second)
    row = world.row(first)
    assert (row.launches, row.spent_ns, row.held, row.held_ns, row.used_bytes) == (20, 200, 6, 8, 50)
    rows = world.look()
    assert [device.busy_ns for device in rows.devices.values()] == [200]
    assert [one.spent_ns for one in rows.classes] == [0, 200]
    world.gone(first)
    assert [one.spent_ns for one in world.look().classes] == [0, 200]


def test_states() -> None:
    world = Watched()
    launcher, _ = world.launch()
    assert world.look().jobs[1].state == "starting"
    client = world.ready(launcher)
    assert world.row(client).state == "idle"
    world.counters[client] = Counters(active=1)
    assert world.row(client).state == "active"
    world.counters[client] = Counters(host_bytes=5)
    assert world.row(client).state == "swapped"
    world.counters[client] = Counters(host_bytes=5, resident_bytes=1)
    assert world.row(client).state == "idle"
    world.holds(client, GATE_WINDOW)
    assert world.row(client).state == "held"


def test_a_job_that_attaches_is_no_more_starting() -> None:
    """That its pages are mapped changes nothing else of it."""
    world = Watched()
    client, _ = world.attach()
    assert world.look().jobs[1].state == "starting"
    world.react(ev.Mapped(client=client))
    assert world.look().jobs[1].state == "idle"


def test_a_policy_that_pauses() -> None:
    world = Watched(board(("p", "class all { match any }\n all.pause = true")))
    client = world.low()
    world.holds(client, GATE_PAUSED)
    row = world.row(client)
    assert row.state == "paused"
    assert row.why is not None
    assert (row.why.code, row.paused_by) == ("paused", "")
    assert row.why.text.startswith("it is paused (p.gpol:")


def test_why_by_rank() -> None:
    world = Watched()
    low, high = world.low(), world.high()
    world.holds(low, GATE_PREEMPT, high, 4 * MILLISECOND)
    why = world.row(low).why
    assert why is not None
    assert (why.code, why.holder, why.since_at_ns) == ("preempt", 2, WALL + world.now - 4 * MILLISECOND)
    assert why.text == "job 2 (python, high) is active; goes on 1ms after it is idle, one launch after 2s at most"


def test_where_it_stands_that_a_job_is_held() -> None:
    policy = """
  class high { match label("tier") == "online" }
  class low {
    match any
    limit { compute = 30% }
  }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  low.max_inflight = 4
  low.max_launch_rate = 1000/s
"""
    world = Watched(board(("p", policy)))
    low = world.low()
    places = {}
    for reason in (GATE_PREEMPT, GATE_BUDGET, GATE_WINDOW, GATE_RATE, GATE_COPY):
        world.holds(low, reason)
        world.level(low, cap_ppm=300_000)
        why = world.row(low).why
        assert why is not None
        places[why.code] = why.by
    assert places == {
        "preempt": "p.gpol:8",
        "budget": "p.gpol:6",
        "window": "p.gpol:9",
        "rate": "p.gpol:10",
        "copy": "",
    }


def test_sentences_do_not_move_with_the_clock() -> None:
    """Every number in them is one that a policy says."""
    world = Watched(board(("p", SHARES)))
    own, other = world.low(), world.low()
    for reason in (GATE_PREEMPT, GATE_WINDOW, GATE_BUDGET, GATE_SHARE):
        world.holds(own, reason, other if reason == GATE_SHARE else None)
        world.level(own, lag_ns=5 * MILLISECOND, share_ppm=250_000, cap_ppm=100_000, cap_ns=-5 * MILLISECOND)
        world.level(other, lag_ns=-5 * MILLISECOND, share_ppm=250_000)
        before = world.row(own).why
        held = world.counters[own]
        world.now += 7 * SECOND
        world.counters[own] = held
        world.level(own, lag_ns=9 * MILLISECOND, share_ppm=250_000, cap_ppm=100_000, cap_ns=-9 * MILLISECOND)
        assert before is not None
        assert world.row(own).why == before, reason


def test_why_by_turns() -> None:
    world = Watched(board(("turns", TURNS)))
    first, second, third = world.low(), world.low(), world.low()
    for number, client in enumerate((first, second, third), start=1):
        slots = frozenset({S0})
        world.react(ev.LockAsked(client=client, request=number, slots=slots, explicit=False, wait_ns=None))
    world.react(
        ev.LockIsIn(client=first, slots=slots, epoch=world.state.locks.last_epoch, bytes=0, short=False, took_ns=0)
    )
    began = world.now
    for client in (second, third):
        world.holds(client, GATE_GRANT)
    rows = world.look()
    why = rows.jobs[3].why
    assert why is not None
    assert (why.code, why.holder, why.place, why.by) == ("lock", 1, 2, "turns.gpol:4")
    assert why.turn_ends_at_ns == WALL + began + 10 * SECOND
    assert why.starts_at_ns == WALL + began + 20 * SECOND
    assert why.text == "it waits for its turn; job 1 (python) has the device"
    assert (rows.jobs[1].turn, rows.jobs[3].turn) == (True, False)
    device = next(iter(rows.devices.values()))
    assert (device.holder, device.waiters, device.holder_until_at_ns) == (1, 2, WALL + began + 10 * SECOND)
    world.now += 3 * SECOND
    assert changed(rows, world.look()) == []
    world.now += 8 * SECOND
    late = world.row(second).why
    assert late is not None
    assert late.turn_ends_at_ns == WALL + began + 10 * SECOND  # it should be over: nothing moves but by whole seconds
    assert late.starts_at_ns == why.turn_ends_at_ns


def test_an_explicit_wait_for_a_turn_is_a_reason_too() -> None:
    """gpud.acquire holds no launch."""
    world = Watched(board(("turns", TURNS)))
    first, second = world.low(), world.low()
    for client in (first, second):
        slots = frozenset({S0})
        world.react(ev.LockAsked(client=client, request=1, slots=slots, explicit=True, wait_ns=None))
    assert world.row(first).why is None
    why = world.row(second).why
    assert why is not None
    assert (why.code, why.holder, why.place, why.since_at_ns) == ("lock", 1, 1, WALL + world.now)


def test_an_allocation_that_waits_is_a_reason() -> None:
    policy = "class job { match any  limit { memory = 100MiB  over_memory = wait(max = 10s) } }"
    world = Watched(board(("quotas", policy)))
    client = world.low()
    held = {(client, S0): Counters(reserved_bytes=90 << 20)}
    world.react(ev.AllocAsked(client=client, slot=S0, request=1, bytes=50 << 20, time_ns=0, held=held))
    why = world.row(client).why
    assert why is not None
    assert (why.code, why.text, why.by) == ("memory", "an allocation waits for room below its limit", "quotas.gpol:2")
    assert world.row(client).limit_bytes == 100 << 20


def test_a_job_in_line_to_be_let_in() -> None:
    policy = "class job { match any  limit { tenants = 1 } }\n admit { when_full = queue(max = 1min) }"
    world = Watched(board(("quotas", policy)))
    world.low()
    world.launch(name="late", label_team="x")
    row = world.look().jobs[2]
    assert (row.state, row.name, row.labels, row.devices) == ("queued", "late", (("team", "x"),), ())
    assert row.why is not None
    assert (row.why.code, row.why.place, row.why.since_at_ns) == ("admission", 1, WALL + world.now)
    before = world.look()
    world.now += SECOND
    assert step(before, world.look(), 1).jobs == ()


def test_who_is_over_its_limit_is_marked() -> None:
    policy = "class job { match any  limit { memory = 100MiB } }"
    world = Watched(board(("quotas", policy)))
    client = world.low()
    world.counters[client] = Counters(reserved_bytes=101 << 20)
    assert world.row(client).tags == ("over its limit",)
    world.counters[client] = Counters(reserved_bytes=100 << 20)
    assert world.row(client).tags == ()


def test_shares_limits_and_targets() -> None:
    world = Watched(board(("p", SHARES)))
    small, other = world.low(), world.low()
    big = world.high()
    world.level(small, share_ppm=250_000, cap_ppm=300_000, busy_ppm=123_456)
    row = world.row(small)
    assert (row.share, row.limit, row.busy) == (0.25, 0.3, 0.123)
    assert world.row(other).share is None
    targets = {one.job_class: one.target for one in world.look().classes}
    assert targets == {"big": 0.5, "small": 0.5}
    world.gone(big)
    world.gone(other)
    targets = {one.job_class: one.target for one in world.look().classes}
    assert targets == {"big": None, "small": 1.0}


def test_another_set_of_policies() -> None:
    """Everybody is sorted anew; what a class has used stays with its name, what is gone is gone."""
    world = Watched()
    client = world.low()
    world.counters[client] = Counters(spent_ns=70)
    assert world.row(client).job_class == "low"
    other = board(("preempt-mix", 'class low { match label("x") == "y" }\n class rest { match any }'))
    world.react(ev.BoardChanged(board=other, why="files", reading=world.reading()))
    rows = world.look()
    assert rows.node.generation == 2
    assert [(one.job_class, one.jobs, one.spent_ns) for one in rows.classes] == [("low", 0, 70), ("rest", 1, 0)]
    world.counters[client] = Counters(spent_ns=100)
    assert [(one.job_class, one.spent_ns) for one in world.look().classes] == [("low", 70), ("rest", 30)]
    ranked = board(("p", SHARES))
    world.react(ev.BoardChanged(board=ranked, why="files", reading=world.reading()))
    assert world.row(client).job_class == "small"
    assert [(one.policy, one.job_class, one.jobs) for one in world.look().classes] == [
        ("p", "big", 0),
        ("p", "small", 1),
    ]
    assert [device.policies for device in world.look().devices.values()] == [("p",)]


def test_a_process_on_other_devices_than_before() -> None:
    world = Watched()
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB), (OTHER, "A100", GIB))))
    client = world.ready()
    assert world.row(client).devices == (0,)
    world.react(ev.DevicesReported(client=client, devices=((UUID, GIB), (OTHER, GIB))))
    row = world.row(client)
    assert (row.devices, row.processes[0].devices) == ((0, 1), (0, 1))
    assert [one.device for one in world.look().classes if one.jobs] == [0, 1]


def test_a_device_that_comes_may_change_the_class_of_who_is_on_none_yet() -> None:
    rules = "class {} {{ match any }}\n arbitrate share {{ period = 20ms }}"
    site = 'apply "a" to gpu 0\napply "b" to gpu *'
    world = Watched(board(("a", rules.format("x")), ("b", rules.format("y")), site=site))
    world.launch()
    assert set(world.look().jobs[1].job_class.split("/")) == {"x", "y"}
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    assert world.look().jobs[1].job_class == "x"


def test_waits_of_a_class_are_of_lately() -> None:
    world = Watched()
    low = world.low()
    world.high()
    world.counters[low], world.histograms[low] = Counters(held=9), (9,) + (0,) * 31
    first = {one.job_class: one.wait_p95_ns for one in world.look().classes}
    assert first == {"high": None, "low": None}  # nobody looked when these waited
    world.now += 2 * SECOND
    world.counters[low] = Counters(held=109)
    world.histograms[low] = (9, 0, 90, 10) + (0,) * 28
    row = {one.job_class: one for one in world.look().classes}["low"]
    assert row.wait_p50_ns is not None
    assert row.wait_p95_ns is not None
    assert 4_000 <= row.wait_p50_ns < 8_000
    assert 8_000 <= row.wait_p95_ns < 16_000
    for _ in range(16):
        world.now += 2 * SECOND
        rows = world.look()
    assert {one.wait_p95_ns for one in rows.classes} == {None}
    assert {one.job_class: one.jobs for one in rows.classes} == {"high": 1, "low": 1}


def test_what_the_driver_says() -> None:
    world = Watched()
    world.low()
    seen = ev.Seen(total_bytes=40, used_bytes=30, power_w=250.0, temperature_c=61.0, utilisation=0.5, processes=())
    world.react(ev.DriverTold(devices={UUID: seen, OTHER: seen}))
    rows = world.look()
    assert [(d.slot, d.used_bytes, d.power_w, d.temperature_c, d.utilisation) for d in rows.devices.values()] == [
        (0, 30, 250.0, 61.0, 0.5),
        (None, 30, 250.0, 61.0, 0.5),
    ]
    world.now += 20 * SECOND
    rows = world.look()
    assert [(d.slot, d.used_bytes, d.utilisation) for d in rows.devices.values()] == [(0, None, None)]


def test_a_device_that_is_gone_makes_a_full_step() -> None:
    world = Watched()
    client = world.low()
    before = world.look()
    world.gone(client)
    after = world.look()
    assert not after.devices  # only that client's word had made it
    assert step(before, after, 2).full


def test_nonsense_in_pages_fits_into_a_step() -> None:
    world = Watched()
    launcher, _ = world.launch()
    most = 2**64 - 1
    nonsense = Counters(*[most] * len(Counters._fields))._replace(hold_reason=1 << 31, holding=1, hold_peer=5)
    for _ in range(3):
        world.counters[world.ready(launcher)] = nonsense
    rows = world.look()
    assert (rows.jobs[1].launches, rows.jobs[1].used_bytes) == (most, most)
    assert rows.jobs[1].why is not None
    assert rows.jobs[1].why.since_at_ns <= WALL + world.now
    answer = wire.FeedAnswer(feed=step(None, rows, 1))
    wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=answer))


def test_long_and_odd_text_is_cut() -> None:
    world = Watched()
    odd = "x\x1b[31m\udc80\nü" * 2000
    world.launch(name="job", command=odd)
    row = world.look().jobs[1]
    assert len(row.command) == COMMAND
    assert row.command.endswith("…")
    assert row.command.isprintable()
    assert wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=wire.FeedAnswer(feed=step(None, world.look(), 1))))


def test_policies_are_named_without_their_directory() -> None:
    assert short("it is paused (/etc/gpud/policies/a-b.gpol:12, when x)") == "it is paused (a-b.gpol:12, when x)"
    assert short("/p/turns.gpol:3") == "turns.gpol:3"
    assert short("turns.gpol:3, /tmp/x and job 2 (a/b)") == "turns.gpol:3, /tmp/x and job 2 (a/b)"


def test_many_processes_are_counted() -> None:
    world = Watched()
    launcher, _ = world.launch()
    clients = [world.ready(launcher) for _ in range(MOST_PROCESSES + 3)]
    row = world.row(clients[0])
    assert len(row.processes) == MOST_PROCESSES
    assert row.tags == (f"{MOST_PROCESSES + 3} processes",)


def test_the_clock_may_drift_and_be_set() -> None:
    world = Watched()
    world.low()
    before = world.look()
    world.offset += 400 * MILLISECOND  # of late readings
    world.now += SECOND
    assert changed(before, world.look()) == []
    world.offset -= 3600 * SECOND
    rows = world.look()
    assert rows.jobs[1].began_at_ns == before.jobs[1].began_at_ns - 3600 * SECOND + 400 * MILLISECOND
    assert rows.at_ns == world.now + world.offset
    assert changed(rows, world.look()) == []


def test_what_is_left_of_a_probation_does_not_make_rows() -> None:
    world = Watched()
    world.set = evolve(world.set, probation_ns=29 * SECOND)
    before = world.look()
    world.now += 5 * SECOND
    world.set = evolve(world.set, probation_ns=24 * SECOND)
    assert world.look().node.policy_set.probation_ns == 30 * SECOND
    world.set = evolve(world.set, probation_ns=0)
    world.now += 5 * SECOND
    assert world.look().node.policy_set.probation_ns == 0
    assert before.node.policy_set.probation_ns == 30 * SECOND


# ------------------------------------------------------------------------------------------------------- properties


def test_the_greatest_and_the_least_of_several_devices() -> None:
    world = Watched()
    client = world.ready(world.launch()[0], devices=(UUID, OTHER))
    job = world.state.clients[client].job
    world.level(client, share_ppm=100_000, cap_ppm=400_000)
    first = world.levels[job, S0]
    world.levels[job, Slot(1)] = evolve(first, slot=Slot(1), share_ppm=200_000, cap_ppm=300_000)
    row = world.row(client)
    assert (row.devices, row.share, row.limit) == ((0, 1), 0.2, 0.3)
