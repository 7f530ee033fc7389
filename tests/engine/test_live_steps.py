"""A screen that takes every step shows what one shows that asks anew."""

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.live import Facts, Live, Rows, step
from gpud.engine.publish import (
    GATE_GRANT,
    GATE_PREEMPT,
    GATE_SHARE,
    GATE_WINDOW,
)
from gpud.engine.report import job_view
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, board
from tests.engine.live_world import OTHER, SHARES, TURNS, Watched
from tests.watched import Model


def act(world: Watched, action: int, number: int) -> None:
    """Something happens."""
    clients = list(world.state.clients)
    client = clients[number % len(clients)] if clients else None
    match action:
        case 0:
            world.ready(world.launch(name=f"job{number}")[0])
        case 1:
            world.ready(world.launch(label_tier="online")[0], devices=(UUID, OTHER)[: 1 + number % 2])
        case 2:
            world.launch()
        case 3 if client is not None:
            world.gone(client)
        case 4 if client is not None:
            before = world.counters.get(client, Counters())
            world.counters[client] = before._replace(
                entered=before.entered + number, spent_ns=before.spent_ns + number, active=number % 2, held=number
            )
        case 5 if client is not None:
            world.holds(client, (GATE_WINDOW, GATE_GRANT, GATE_PREEMPT, GATE_SHARE)[number % 4])
        case 6 if client is not None:
            slots = world.state.clients[client].slots()
            if slots:
                world.react(ev.LockAsked(client=client, request=number, slots=slots, explicit=True, wait_ns=None))
        case 7 if client is not None:
            slots = frozenset(world.state.locks.lines)
            world.react(
                ev.LockBack(
                    client=client,
                    slots=slots,
                    epoch=world.state.locks.last_epoch,
                    overrun=False,
                    never=False,
                )
            )
        case 8:
            world.later(number * 100 * MILLISECOND)
        case 9 if client is not None:
            world.react(ev.DevicesReported(client=client, devices=((OTHER, GIB),)))
        case 10:
            seen = ev.Seen(total_bytes=GIB, used_bytes=number, utilisation=0.5, processes=())
            world.react(ev.DriverTold(devices={UUID: seen}))
        case 11:
            world.offset += (number % 3 - 1) * SECOND
        case 12 if client is not None:
            world.level(client, share_ppm=number * 1000, cap_ppm=500_000, busy_ppm=number)


POLICIES = (None, board(("turns", TURNS)), board(("p", SHARES)))


def counted(rows: Rows) -> object:
    """What a watcher that came later sees just the same: all but what it has counted."""
    jobs = {job: evolve(row, launches=0, spent_ns=0, held=0, held_ns=0) for job, row in rows.jobs.items()}
    devices = {uuid: evolve(row, busy_ns=0) for uuid, row in rows.devices.items()}
    return jobs, devices, [evolve(one, spent_ns=0, wait_p50_ns=None, wait_p95_ns=None) for one in rows.classes]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 40), st.booleans()), max_size=40),
)
def test_steps_make_the_same_as_rows(policy: object, actions: list[tuple[int, int, bool]]) -> None:
    """And what is remembered between looks is never other than what one who has just come sees."""
    world = Watched(policy)  # type: ignore[arg-type]
    model, before = Model(), None
    for action, number, looks in actions:
        act(world, action, number)
        if looks:
            rows = world.look()
            model.apply(step(before, rows, (model.number or 0) + 1))
            before = rows
            assert model.shows(rows)
            fresh = world.look(Live(Facts(host="node1", version="9", pid=7)))
            if world.live.keep_offset(world.offset) == world.offset:
                assert counted(rows) == counted(fresh)
    for job, tenant in world.state.tenants.items():
        view = job_view(world.state, tenant, world.sums(), world.now, world.levels)  # type: ignore[arg-type]
        row = world.look().jobs[job]
        assert (row.job_class, row.devices, row.used_bytes) == (view.job_class, view.devices, view.used_bytes)
        assert (row.pinned, [one.pid for one in row.processes]) == (view.pinned, list(view.pids))
        assert (row.why.code if row.why else "") == (view.why.code if view.why else row.why.code if row.why else "")
