"""What happens, counted and timed."""

from attrs import evolve

from gpud.engine.loading import Rejected
from gpud.engine.reducer import react
from gpud.engine.reload_steps import Steps
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId
from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.metric_values import Histograms, Labels
from gpud.telemetry.tally import Tally
from tests.engine.conftest import UUID, World, asks, board, by, only
from tests.engine.live_world import S0
from tests.engine.swaps import MIB, Swaps
from tests.engine.test_lock import TURNS, Turns

QUEUE = "class job { match any  limit { tenants = 1 } }\n admit { when_full = queue(max = 1min) }"
OTHER_TURNS = TURNS.replace("high", "gold").replace("class job", "class rest").replace("job]", "rest]")


class Counted(World):
    """Beside a world: its `tally`. Every job's trace is its number."""

    _tally: Tally | None = None

    @property
    def tally(self) -> Tally:
        if self._tally is None:
            self.state.wall_offset_ns = 1000 * SECOND
            self._tally = Tally(self.state, lambda job: f"{job:032x}", self.now)
        return self._tally

    def react(self, event: ev.Event) -> list[Effect]:
        tally = self.tally
        effects = react(self.state, event, self.now)
        tally.saw(event, effects, self.now)
        return effects

    def anew(self) -> Tally:
        """Another daemon takes over."""
        self._tally = None
        return self.tally


class CountedTurns(Counted, Turns):
    pass


class CountedSwaps(Counted, Swaps):
    def comes_in(self, client: ClientId, count: int, took_ns: int, short: bool = False) -> None:
        """It says so."""
        self.react(
            ev.LockIsIn(
                client=client, slots=frozenset({S0}), epoch=self.epoch(), bytes=count, short=short, took_ns=took_ns,
                held=self.held,
            )
        )  # fmt: skip


def seconds(histograms: Histograms) -> dict[Labels, tuple[float, float]]:
    """Label values → (how many, sum); those with nothing in them are left out."""
    return {labels: (buckets[-1][1], total) for labels, buckets, total in histograms.rows() if buckets[-1][1]}


def traces(histograms: Histograms) -> set[tuple[str, float]]:
    """(trace, when) of all exemplars."""
    found = [one[2] for _, buckets, _ in histograms.rows() for one in buckets if len(one) == 3]
    return {(one.labels["trace_id"], float(one.timestamp or 0)) for one in found}


# ------------------------------------------------------------------------------------------------------------ turns


def test_a_turn_is_waited_for_and_had() -> None:
    w = CountedTurns()
    low, high = w.low(), w.high()
    w.ask(low)
    w.is_in(low)
    w.now += 3 * SECOND
    w.ask(high)
    w.now += 2 * SECOND
    w.back(low)
    w.is_in(high)
    w.now += 7 * SECOND
    w.back(high)
    assert seconds(w.tally.waits) == {
        ("job", "admission"): (1, 0.0),
        ("high", "admission"): (1, 0.0),
        ("job", "turn"): (1, 0.0),
        ("high", "turn"): (1, 2.0),
    }
    assert seconds(w.tally.holds) == {("job",): (1, 5.0), ("high",): (1, 7.0)}
    job = w.state.clients[high].job
    assert (f"{job:032x}", w.now / 1e9 + 1000) in traces(w.tally.holds)


def test_a_turn_that_is_asked_back_is_a_preemption_once() -> None:
    w = CountedTurns()
    launcher, _ = w.launch()
    one, sibling, high = w.ready(launcher), w.ready(launcher), w.high()
    w.ask(one)
    w.is_in(one)
    w.is_in(sibling)
    w.ask(high)
    w.ticks(11 * SECOND, w.busy(one, sibling))
    assert w.turn.revoked_ns is not None
    w.ticks(100 * MILLISECOND, w.busy(one, sibling))
    assert w.tally.preemptions.values == {("0", "job"): 1}
    w.back(one)
    w.back(sibling)
    assert w.tally.preemptions.values == {("0", "job"): 1}


def test_given_back_by_itself_is_no_preemption() -> None:
    w = CountedTurns()
    one = w.low()
    w.ask(one)
    w.is_in(one)
    w.back(one)
    assert w.tally.preemptions.values == {}
    assert seconds(w.tally.holds) == {("job",): (1, 0.0)}


def test_who_stops_to_wait_and_asks_again_waits_from_then() -> None:
    w = CountedTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.ask(two)
    w.now += 100 * SECOND
    w.react(ev.LockWithdrawn(client=two, request=w.numbers))
    w.now += 100 * SECOND
    w.ask(two)
    w.now += 2 * SECOND
    w.back(one)
    assert seconds(w.tally.waits)["job", "turn"] == (2, 2.0)


def test_a_job_waits_since_its_first_process_asked() -> None:
    w = CountedTurns()
    holder = w.low()
    launcher, _ = w.launch()
    first, second = w.ready(launcher), w.ready(launcher)
    w.ask(holder)
    w.ask(first)
    w.now += 4 * SECOND
    w.ask(second)
    w.now += 1 * SECOND
    w.back(holder)
    assert seconds(w.tally.waits)["job", "turn"] == (2, 5.0)


def test_the_dead_have_had_it_until_then() -> None:
    w = CountedTurns()
    one = w.low()
    w.ask(one)
    w.now += 6 * SECOND
    w.gone(one)
    assert seconds(w.tally.holds) == {("job",): (1, 6.0)}


def test_another_daemon_goes_on() -> None:
    w = CountedTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    w.now += 3 * SECOND
    tally = w.anew()
    w.now += 1 * SECOND
    w.back(one)
    assert seconds(tally.holds) == {("job",): (1, 4.0)}
    assert seconds(tally.waits) == {("job", "turn"): (1, 4.0)}


# ----------------------------------------------------------------------------------------------------------- memory


def test_memory_that_moves_for_a_turn() -> None:
    w = CountedSwaps()
    one = w.join(lazy=700 * MIB)
    w.ask(one)
    w.now += 200 * MILLISECOND
    w.comes_in(one, 700 * MIB, 150 * MILLISECOND)
    w.set(one, resident_bytes=700 * MIB, lazy_bytes=0)
    assert w.tally.swapped.values == {("0", "in"): 700 * MIB}
    two = w.join(lazy=600 * MIB)
    effects = w.passes(one, two)
    outs = only(effects, do.SwapOut)
    w.now += 250 * MILLISECOND
    w.leaves(outs[0])
    assert w.tally.evictions.values == {("0", "job"): 1}
    assert w.tally.swapped.values["0", "out"] == outs[0].bytes
    assert seconds(w.tally.swaps) == {("0", "in"): (1, 0.15), ("0", "out"): (1, 0.25)}
    job = w.state.clients[one].job
    assert {trace for trace, _ in traces(w.tally.swaps)} == {f"{job:032x}"}


def test_who_gives_back_and_asks_in_one_word_waits_from_then_on() -> None:
    w = CountedTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    w.now += 1 * SECOND
    w.back(one, asks=True)
    w.is_in(two)
    w.now += 3 * SECOND
    w.back(two)
    assert seconds(w.tally.waits)["job", "turn"] == (3, 4.0)


def test_a_turn_whose_memory_comes_in_piece_by_piece() -> None:
    """Each word of it counts from the first grant on."""
    w = CountedSwaps()
    one = w.join(lazy=700 * MIB)
    w.ask(one)
    w.now += 1 * SECOND
    w.comes_in(one, 300 * MIB, 100 * MILLISECOND, short=True)
    w.comes_in(one, 700 * MIB, 400 * MILLISECOND)
    w.comes_in(one, 700 * MIB, 400 * MILLISECOND, short=True)
    assert w.tally.swapped.values == {("0", "in"): 700 * MIB}
    assert seconds(w.tally.swaps) == {("0", "in"): (1, 0.4)}


def test_held_from_when_it_is_in() -> None:
    w = CountedSwaps()
    one = w.join(lazy=MIB)
    w.ask(one)
    w.now += 2 * SECOND
    w.comes_in(one, MIB, SECOND)
    w.now += 3 * SECOND
    w.back(one)
    assert seconds(w.tally.holds) == {("job",): (1, 3.0)}


def test_a_turn_that_never_came_in_was_not_had() -> None:
    w = CountedSwaps()
    one = w.join(lazy=MIB)
    w.ask(one)
    w.now += 2 * SECOND
    w.back(one)
    assert seconds(w.tally.holds) == {}


def test_what_cannot_be_is_not_counted() -> None:
    w = CountedSwaps()
    one, liar = w.join(lazy=MIB), w.join(lazy=MIB)
    w.ask(one)
    w.comes_in(liar, 5 * MIB, SECOND)  # it has no turn
    assert w.tally.swapped.values == {}
    w.comes_in(one, 2**64 - 1, 2**64 - 1)
    assert w.tally.swapped.values == {("0", "in"): w.state.devices[S0].total_bytes}
    assert seconds(w.tally.swaps) == {("0", "in"): (1, 0.0)}
    w.react(ev.Swapped(client=liar, slot=S0, request=77, code=1, bytes=2**64 - 1, held=w.held))  # nobody asked
    assert ("0", "out") not in w.tally.swapped.values


def test_who_is_asked_and_dies_is_forgotten() -> None:
    w = CountedSwaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=600 * MIB)
    w.passes(one, two)
    assert w.tally._outs
    w.gone(one)
    w.gone(two)
    assert (w.tally._outs, w.tally._in) == ({}, {})


# ---------------------------------------------------------------------------------------------------- being let in


def test_the_line_to_be_let_in() -> None:
    w = Counted(running=board(("p", QUEUE)))
    w.react(ev.DevicesFound(devices=((UUID, "A100", 1 << 30),)))
    launcher, _ = w.launch()
    first = w.ready(launcher)
    w.now += 5 * SECOND
    w.launch()  # in line
    w.now += 30 * SECOND
    w.launch()  # likewise, and never let in
    w.gone(first)
    w.react(ev.LauncherEnded(job=JobId(1)))
    assert seconds(w.tally.waits) == {("none", "admission"): (2, 30.0)}
    w.later(61 * SECOND)
    assert seconds(w.tally.waits) == {("none", "admission"): (2, 30.0)}
    assert w.tally._queued == {}


def test_a_process_by_itself_is_let_in_once_however_often_it_comes_back() -> None:
    w = Counted()
    client = w.ready()
    there = w.state.clients[client]
    w.react(evolve(asks(50, there.who, client, there.generation), again=True))
    assert seconds(w.tally.waits) == {("low", "admission"): (1, 0.0)}


# ---------------------------------------------------------------------------------------------------------- the rest


def test_what_a_process_was_charged_last_counts() -> None:
    w = Counted()
    client = w.low()
    w.now += SECOND
    session = w.state.clients[client].session
    last = {(client, S0): Counters(spent_ns=400 * MILLISECOND, held=3)}
    w.react(ev.Detached(client=client, session=session, reason="its process ended", held=last))
    assert w.tally.gpu_time.busy_ns.values == {("0", "low"): 400 * MILLISECOND}
    assert w.tally.gpu_time.held.values == {("0", "low"): 3}


def test_a_session_that_ends_late_ends_nothing() -> None:
    w = Counted()
    client = w.low()
    late = ev.Detached(client=client, session=None, reason="another one", held={(client, S0): Counters(spent_ns=1)})
    w.react(late)
    assert w.tally.gpu_time.busy_ns.values == {}


def test_reloads() -> None:
    w = Counted()
    steps = Steps(how="files", now=lambda: 0)
    w.tally.reloaded(steps)
    try:
        with steps.step("check"):
            raise Rejected("line 3: no")
    except Rejected:
        w.tally.reloaded(steps)
    w.tally.saw(ev.DrainAsked(), [do.StruckOut(policy="p", text="too slow", generation=1)], w.now)
    assert w.tally.reloads.values == {("applied",): 1, ("rejected",): 1, ("struck_out",): 1}


def test_of_classes_that_are_gone_nothing_is_left() -> None:
    w = CountedTurns()
    for client in (w.low(), w.high()):
        w.ask(client)
        w.is_in(client)
        w.now += SECOND
        w.back(client)
    assert set(seconds(w.tally.holds)) == {("job",), ("high",)}
    w.react(ev.BoardChanged(board=board(("turns", OTHER_TURNS)), reading=w.reading()))
    assert set(seconds(w.tally.holds)) == set()
    client = w.high()
    w.ask(client)
    w.back(client)
    assert set(seconds(w.tally.holds)) == {("gold",)}


def test_what_may_happen_stands_at_zero() -> None:
    w = CountedSwaps()
    w.low()
    w.tally.begin()
    assert w.tally.preemptions.values == w.tally.evictions.values == {("0", "job"): 0}
    assert {labels for labels, _, _ in w.tally.waits.rows()} == {("job", "admission"), ("job", "turn")}
    assert {labels for labels, _, _ in w.tally.swaps.rows()} == {("0", "in"), ("0", "out")}


def test_evicted_by_an_operator() -> None:
    w = CountedSwaps()
    one = w.fill(100 * MIB)
    w.react(ev.EvictAsked(job=w.state.clients[one].job, by=by()))
    w.back(one)
    assert w.tally.preemptions.values == {("0", "job"): 1}
    assert w.tally.evictions.values == {("0", "job"): 1}
