"""When rows are made, and what the journal keeps of them."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from gpud.engine.watching import TOGETHER_NS
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.ids import ClientId, JobId
from gpud.model.live_views import JobRow
from gpud.model.units import SECOND
from tests.engine.conftest import preempt_mix
from tests.engine.live_world import WALL
from tests.engine.watching_rig import Rig, watched


def jobs_at(rig: Rig, seconds: float) -> dict[int, JobRow]:
    piece = rig.watching.journal.past(round(seconds * SECOND))
    assert piece is not None
    return dict(piece.read().jobs)


async def test_without_clients_nothing_wakes(autojump_clock: trio.testing.MockClock) -> None:
    async with watched() as rig:
        await wait_all_tasks_blocked()
        looks = rig.looks
        await trio.sleep(10_000)
        assert (rig.engine.ticks, rig.looks) == (0, looks)
        client = await rig.job(1)
        await trio.sleep(100)
        before = rig.engine.ticks
        assert before <= 101  # those of the lease alone
        await rig.gone(client)
        looks = rig.looks
        await trio.sleep(10_000)
        assert (rig.engine.ticks, rig.looks) == (before, looks)


async def test_a_second_is_kept_with_each_tick_of_the_lease(autojump_clock: trio.testing.MockClock) -> None:
    async with watched() as rig:
        client = await rig.job(1)
        begin = trio.current_time()  # its lease is refreshed a little before each second from here
        for second in range(90):
            await trio.sleep(0.5)
            rig.does(client, entered=second + 1)
            await trio.sleep(0.5)
        launches = [jobs_at(rig, begin + second + 0.25)[1].launches for second in range(1, 90)]
        assert launches == list(range(1, 90))


async def test_what_ends_is_gone_from_the_past(autojump_clock: trio.testing.MockClock) -> None:
    """Also if nothing ever happens after it."""
    async with watched() as rig:
        client = await rig.job(1)
        await trio.sleep(3)
        end = trio.current_time()
        await rig.gone(client)
        await trio.sleep(1000)
        assert list(jobs_at(rig, end - 1)) == [1]
        assert jobs_at(rig, end + 900) == {}


async def test_jobs_without_clients_are_kept_too(autojump_clock: trio.testing.MockClock) -> None:
    async with watched() as rig:
        await trio.sleep(5)
        who = ev.Who(pid=7, started=1, uid=0, user="ann", command="x")
        await rig.send.send(ev.LaunchAsked(session=1, who=who, asked=()))  # type: ignore[arg-type]
        await wait_all_tasks_blocked()
        await trio.sleep(100)
        assert jobs_at(rig, trio.current_time())[1].state == "starting"
        await rig.send.send(ev.LauncherEnded(job=JobId(1)))
        await wait_all_tasks_blocked()
        assert jobs_at(rig, trio.current_time()) == {}


async def test_who_looks_at_the_same_time_sees_the_same(autojump_clock: trio.testing.MockClock) -> None:
    async with watched() as rig:
        await rig.job(1)
        first = rig.watching.rows()
        assert rig.watching.rows() is first
        await trio.sleep(2 * TOGETHER_NS / SECOND)
        second = rig.watching.rows()
        assert second is not first
        assert second.mono_ns > first.mono_ns


async def test_where_rows_are_dear_they_are_made_seldom() -> None:
    async with watched() as rig:
        spent = iter(range(0, 10**15, 40_000_000))  # 40 ms for each look
        rig.engine.state.cpu_ns = lambda: next(spent)
        assert rig.watching.spacing_ns(SECOND // 2) == SECOND // 2
        for _ in range(60):
            rig.watching._look(None)
        assert 1.9 * SECOND < rig.watching.spacing_ns(SECOND // 2) <= 2 * SECOND


async def test_the_clock_is_set(autojump_clock: trio.testing.MockClock) -> None:
    """Back by an hour: the order of what was stays, and what was is an hour earlier now."""
    async with watched() as rig:
        client = await rig.job(1)
        await trio.sleep(10)
        began = rig.watching.rows().jobs[1].began_at_ns
        set_at = trio.current_time()
        rig.wall -= 3600 * SECOND
        rig.does(client, entered=5)
        await trio.sleep(10)
        assert rig.watching.offset == WALL - 3600 * SECOND
        assert rig.watching.rows().jobs[1].began_at_ns == began - 3600 * SECOND
        assert jobs_at(rig, set_at - 2)[1].launches == 0
        assert jobs_at(rig, set_at + 5)[1].launches == 5
        journal = rig.watching.journal
        numbers = [one.number for one in journal.find(0, 10**15, most=100).found]
        assert numbers == sorted(numbers)


async def test_decisions_are_kept_as_they_are_made() -> None:
    async with watched(preempt_mix()) as rig:
        await rig.job(1)
        rig.engine.record(do.Record(level="info", text="ann (uid 5, pid 6): pause", kind="audit", job=1, by="ann"))
        found = rig.watching.journal.find(0, 10**20, most=100).found
        assert [one.made.kind for one in found] == ["admit", "attach", "audit"]
        assert [one.made.uid for one in found] == [0, 0, 0]


async def test_an_error_in_the_journal_costs_nobody_anything(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with watched() as rig:
        monkeypatch.setattr(rig.watching, "_look", None)
        monkeypatch.setattr(rig.watching, "_decisions", None)
        await rig.job(1)
        await trio.sleep(3)
        assert rig.engine.state.clients[ClientId(1)].live
        assert "something is missing in the journal" in caplog.text
