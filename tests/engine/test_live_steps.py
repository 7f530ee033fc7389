"""A screen that takes every step shows what one shows that asks anew."""

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.engine.live import Facts, Live, Rows, step
from gpud.engine.report import job_view
from tests.engine.live_world import POLICIES, Watched, act
from tests.watched import Model


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
