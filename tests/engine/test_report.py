from attrs import evolve

from gpud.control import wire
from gpud.engine.publish import GATE_PREEMPT, GATE_WINDOW
from gpud.engine.report import job_of, job_stats, job_view
from gpud.model import events as ev
from gpud.model.counters import Counters, HookCounters
from gpud.model.ids import ClientId, Slot
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND
from gpud.model.views import JobView
from tests.engine.conftest import World

S0 = Slot(0)


def view(world: World, client: ClientId, **counters: int | bool) -> JobView:
    tenant = world.state.tenants[world.state.clients[client].job]
    return job_view(world.state, tenant, {(client, S0): Counters(**counters)}, world.now, {})


def test_why_names_the_job_that_holds(world: World) -> None:
    low, high = world.low(), world.high()
    present = world.state.clients[low].peers[high].present
    shown = view(
        world, low, holding=2, hold_reason=GATE_PREEMPT, hold_peer=present, hold_since_ns=world.now - 4 * MILLISECOND
    )
    assert shown.state == "held"
    assert shown.why is not None
    assert (shown.why.code, shown.why.held_by, shown.why.for_ns) == ("preempt", 2, 4 * MILLISECOND)
    assert "job 2 (python, high) is active" in shown.why.text
    assert "held for 4ms" in shown.why.text


def test_why_names_the_window(world: World) -> None:
    shown = view(world, world.low(), holding=1, hold_reason=GATE_WINDOW, hold_since_ns=world.now)
    assert shown.why is not None
    assert (shown.why.code, shown.why.held_by) == ("window", None)
    assert "window of 1 unfinished launches" in shown.why.text


def test_what_a_hook_says_may_be_nonsense(world: World) -> None:
    shown = view(world, world.low(), holding=1, hold_reason=1 << 31, hold_peer=5, hold_since_ns=world.now + SECOND)
    assert shown.why is not None
    assert shown.why.for_ns == 0
    assert shown.why.code == "gate 0x80000000"


def test_why_without_a_longest_pause(world: World) -> None:
    low, high = world.low(), world.high()
    client = world.state.clients[low]
    client.words[S0] = evolve(client.words[S0], max_pause_ns=FOREVER_NS)
    present = client.peers[high].present
    shown = view(world, low, holding=1, hold_reason=GATE_PREEMPT, hold_peer=present, hold_since_ns=world.now)
    assert shown.why is not None
    assert shown.why.text.endswith("is active; goes on 1ms after it is idle")


def test_sums_of_nonsense_fit_into_an_answer(world: World) -> None:
    """A client writes its own page: it may not make the answers about everybody impossible."""
    launcher, _ = world.launch()
    clients = [world.ready(launcher), world.ready(launcher)]
    most = 2**64 - 1
    counters = Counters(
        entered=most, held_ns=most, used_bytes=most, allocations=most, hold_since_ns=most, holding=1, full_ns=most
    )
    sums = {(client, S0): counters for client in clients}
    hooks = {client: HookCounters(errors=most, attaches=most, histogram=(most,)) for client in clients}
    stats = job_stats(world.state, world.state.tenants[1], sums, hooks, world.now, {})  # type: ignore[index]
    assert (stats.launches, stats.job.used_bytes, stats.held_histogram) == (most, most, (most,))
    assert stats.full_ago_ns == 0
    wire.encode(wire.Reply(version=1, id=1, answer=wire.StatsAnswer(stats=[stats])))


def test_states(world: World) -> None:
    launcher, _ = world.launch(name="job")
    starting = job_view(world.state, world.state.tenants[1], {}, world.now, {})  # type: ignore[index]
    assert (starting.state, starting.pids, starting.launcher_pid) == ("starting", (), launcher.pid)
    client = world.ready(launcher)
    assert view(world, client).state == "idle"
    assert view(world, client, active=True).state == "active"
    world.now += 5 * SECOND
    assert view(world, client, used_bytes=7).used_bytes == 7
    assert view(world, client).age_ns == 5 * SECOND


def test_stats_add_up_all_processes(world: World) -> None:
    launcher, _ = world.launch()
    first, second = world.ready(launcher), world.ready(launcher)
    sums = {
        (first, S0): Counters(
            entered=10, left=9, held=2, held_ns=100, passed=1, inflight=3, edges=4, factor_ppm=1_250_000
        ),
        (second, S0): Counters(
            entered=5, left=6, held=1, held_ns=50, launches_failed=1, waiting=2, full_ns=world.now - 7
        ),
        (ClientId(99), S0): Counters(entered=1000),
    }
    hooks = {first: HookCounters(errors=1, histogram=(1, 2)), second: HookCounters(attaches=1, histogram=(0, 3))}
    stats = job_stats(world.state, world.state.tenants[1], sums, hooks, world.now, {})  # type: ignore[index]
    assert (stats.launches, stats.held, stats.held_ns, stats.passed, stats.launches_failed) == (15, 3, 150, 1, 1)
    assert (stats.inflight, stats.waiting, stats.edges, stats.full_ago_ns, stats.factors) == (3, 2, 4, 7, (1.25,))
    assert stats.unfinished == 1  # `left` may be read later than `entered`, never less than nothing
    assert (stats.hook_errors, stats.attaches, stats.held_histogram) == (1, 1, (1, 5))
    assert stats.job.pids == tuple(sorted(world.state.clients[c].who.pid for c in (first, second)))


def test_job_of_a_process(world: World) -> None:
    launcher, _ = world.launch()
    client = world.ready(launcher)
    who: ev.Who = world.state.clients[client].who
    assert job_of(world.state, who.pid, who.started, ()) == 1
    assert job_of(world.state, 9999, 1, ((who.pid, who.started),)) == 1
    assert job_of(world.state, 9999, 1, ((launcher.pid, launcher.started),)) == 1
    assert job_of(world.state, 9999, 1, ((who.pid, who.started + 1),)) is None
