from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpud.model.live_views import Decision, Feed
from gpud.testing.scripted_feed import BEGIN_NS, Script, node_row
from gpud.tui.meters import BUCKETS, Meter, Ring
from gpud.tui.model import ENDED_NS, NodeModel
from tests.tui.rig import device, full, job

S = 10**9


def state(model: NodeModel) -> tuple[object, ...]:
    return model.node, model.devices, model.jobs, model.classes, model.at_ns, model.number


steps_of_jobs = st.lists(
    st.dictionaries(st.integers(1, 6), st.tuples(st.integers(0, 3), st.sampled_from(("active", "held"))), max_size=5),
    min_size=1,
    max_size=12,
)


@given(steps_of_jobs)
def test_steps_one_by_one_lead_to_the_same_as_a_full_one(nodes: list[dict[int, tuple[int, str]]]) -> None:
    stepped, before = NodeModel(), {}
    for number, node in enumerate(nodes, 1):
        rows = {key: job(key, used_bytes=used, state=word) for key, (used, word) in node.items()}
        feed = Feed(
            number=number, at_ns=BEGIN_NS + number * S, full=number == 1, node=node_row() if number == 1 else None,
            jobs=tuple(row for key, row in rows.items() if before.get(key) != row),
            gone=tuple(before.keys() - rows.keys()),
        )  # fmt: skip
        assert stepped.apply(feed)
        before = rows
    whole = NodeModel()
    assert whole.apply(full(*before.values(), number=len(nodes), at_ns=BEGIN_NS + len(nodes) * S))
    assert state(stepped) == state(whole)


def test_a_full_step_made_of_a_model_makes_the_same_model() -> None:
    model, other = NodeModel(), NodeModel()
    for feed in Script().steps(30):
        model.apply(feed)
    other.apply(model.full())
    assert state(other) == state(model)
    assert list(other.decisions) == list(model.decisions)


def test_after_a_gap_nothing_is_taken_until_a_full_step() -> None:
    model = NodeModel()
    model.apply(full(job(1)))
    later = Feed(number=3, at_ns=BEGIN_NS + S, full=False, jobs=(job(2),))
    assert not model.apply(later)
    assert not model.apply(evolve(later, number=4))
    assert set(model.jobs) == {1}
    assert model.apply(full(job(3), number=9, at_ns=BEGIN_NS + 2 * S))
    assert set(model.jobs) == {3}


def test_a_job_that_ended_is_remembered_for_a_while_or_while_it_is_kept() -> None:
    model = NodeModel()
    model.apply(full(job(1), job(2)))
    model.kept = {2}
    model.apply(Feed(number=2, at_ns=BEGIN_NS + S, full=False, gone=(1, 2)))
    assert not model.jobs
    assert {model.job(1), model.job(2)} == {job(1), job(2)}
    model.apply(Feed(number=3, at_ns=BEGIN_NS + S + ENDED_NS, full=False))
    assert model.job(1) is None
    assert model.job(2) == job(2)


def test_rates_are_those_of_the_last_moments() -> None:
    model = NodeModel()
    spent = [0, 250, 500, 750, 1000, 1000, 1000, 1000, 1000]  # ms, each half second: busy by half, then idle
    seen = []
    for number, milliseconds in enumerate(spent, 1):
        row = job(1, spent_ns=milliseconds * 10**6, launches=milliseconds, busy=None)
        jobs = (row,) if number == 1 or row != model.jobs[1] else ()
        model.apply(Feed(number=number, at_ns=BEGIN_NS + number * S // 2, full=number == 1, jobs=jobs))
        seen.append((model.gpu(model.jobs[1]), model.launches(model.jobs[1])))
    assert seen[0] == (None, None)
    assert seen[4] == (0.5, 500.0)
    assert seen[6] == (0.25, 250.0)
    assert seen[8] == (0.0, 0.0)


def test_a_clock_that_is_set_back_begins_anew_and_shows_no_negative_rate() -> None:
    model = NodeModel()
    for number, feed in enumerate(Script().steps(30), 1):
        back_ns = 0 if number <= 20 else 3600 * S
        decisions = tuple(evolve(one, at_ns=one.at_ns - back_ns) for one in feed.decisions)
        model.apply(evolve(feed, at_ns=feed.at_ns - back_ns, decisions=decisions))
        for row in model.jobs.values():
            assert (model.gpu(row) or 0) >= 0
    assert model.at_ns < BEGIN_NS
    busy = next(row for row in model.jobs.values() if row.state == "active")
    assert (model.gpu(busy) or 0) > 0
    known = [value for value in model.job_history(busy.id, BUCKETS) if value is not None]
    assert 4 <= len(known) <= 6
    assert all(held.began_at_ns < BEGIN_NS for held in model.holders[0].spans)


def test_a_clock_that_leaps_ahead_leaves_a_gap_in_the_history() -> None:
    ring = Ring()
    for second in (0, 1, 2, 60, 61):
        ring.put(second * S, 0.5)
    last = ring.last(62)
    assert last[:3] == [0.5] * 3
    assert last[3:60] == [None] * 57
    ring.put(10**6 * S, 1.0)
    assert ring.last(3) == [None, None, 1.0]


def test_a_ring_holds_the_mean_of_each_second() -> None:
    ring = Ring()
    for at_ns, value in ((0, 0.2), (S // 2, 0.4), (S, 1.0)):
        ring.put(at_ns, value)
    assert [round(value or 0, 3) for value in ring.last(2)] == [0.3, 1.0]


def test_a_meter_at_rest_then_busy_tells_the_rate_since_it_is_busy() -> None:
    meter = Meter()
    for second in range(100):
        meter.put(second * S, 7)
    meter.put(100 * S, 8)
    assert meter.rate() == 0.5  # of the last two seconds


def test_a_counter_that_fell_begins_anew() -> None:
    meter = Meter()
    meter.put(0, 100)
    meter.put(S, 200)
    meter.put(2 * S, 10)
    assert meter.rate() is None
    meter.put(3 * S, 15)
    assert meter.rate() == 5.0


def decision(number: int, kind: str, at_s: float, who: int) -> Decision:
    return Decision(number=number, at_ns=BEGIN_NS + int(at_s * S), kind=kind, text="", device=0, job=who)


def test_turns_shorter_than_a_step_stand_in_the_timeline() -> None:
    model = NodeModel()
    model.apply(full(job(1), job(2), devices=(device(0, holder=1),)))
    turns = (
        decision(1, "back", 0.1, 1),
        decision(2, "grant", 0.1, 2),
        decision(3, "back", 0.2, 2),
        decision(4, "grant", 0.3, 1),
    )
    model.apply(Feed(number=2, at_ns=BEGIN_NS + S // 2, full=False, decisions=turns))
    spans = [(held.job, held.began_at_ns - BEGIN_NS, held.ended_at_ns) for held in model.holders[0].spans]
    assert spans == [
        (1, 0, BEGIN_NS + S // 10),
        (2, S // 10, BEGIN_NS + S // 5),
        (1, 3 * S // 10, None),
    ]


def test_where_nobody_takes_turns_the_one_that_used_most_stands_there() -> None:
    model = NodeModel()
    model.apply(full(job(1, spent_ns=0), job(2, spent_ns=0), devices=(device(0, holder=None, waiters=0),)))
    model.apply(
        Feed(number=2, at_ns=BEGIN_NS + S, full=False, jobs=(job(1, spent_ns=S // 10), job(2, spent_ns=S // 2)))
    )
    model.apply(Feed(number=3, at_ns=BEGIN_NS + 2 * S, full=False))
    (held,) = model.holders[0].spans
    assert (held.job, held.began_at_ns, held.ended_at_ns, held.turn) == (2, BEGIN_NS, BEGIN_NS + S, False)


def test_older_decisions_are_put_before_those_that_are_known() -> None:
    model = NodeModel()
    model.apply(evolve(full(job(1), devices=(device(0, holder=1),)), decisions=(decision(5, "grant", 0, 1),)))
    model.take_older((decision(3, "grant", -9, 2), decision(4, "back", -4, 2), decision(5, "grant", 0, 1)))
    assert [one.number for one in model.decisions] == [3, 4, 5]
    assert [(held.job, held.ended_at_ns) for held in model.holders[0].spans] == [(2, BEGIN_NS - 4 * S), (1, None)]


def test_a_full_step_after_a_reconnect_repeats_no_decision() -> None:
    model = NodeModel()
    model.apply(evolve(full(job(1)), decisions=(decision(1, "note", 0, 1), decision(2, "note", 0, 1))))
    again = (decision(2, "note", 0, 1), decision(3, "note", 1, 1))
    model.apply(evolve(full(job(1), number=7, at_ns=BEGIN_NS + S), decisions=again))
    assert [one.number for one in model.decisions] == [1, 2, 3]


def test_another_daemon_counts_its_decisions_anew() -> None:
    model = NodeModel()
    model.apply(evolve(full(job(1)), decisions=(decision(900, "note", 0, 1),)))
    other = evolve(node_row(), pid=999)
    model.apply(evolve(full(job(1), number=1, at_ns=BEGIN_NS + S), node=other, decisions=(decision(1, "note", 1, 1),)))
    assert [one.number for one in model.decisions] == [1]


def test_a_snapshot_stays_as_it_is() -> None:
    model = NodeModel()
    feeds = list(Script().steps(20))
    for feed in feeds[:10]:
        model.apply(feed)
    kept = model.snapshot()
    before = (state(kept), kept.gpu(kept.jobs[1]), list(kept.holders[0].between(0, 2**62)), len(kept.decisions))
    open_spans = [evolve(held) for held in kept.holders[0].spans]
    for feed in feeds[10:]:
        model.apply(feed)
    assert (state(kept), kept.gpu(kept.jobs[1]), list(kept.holders[0].between(0, 2**62)), len(kept.decisions)) == before
    assert [evolve(held) for held in kept.holders[0].spans] == open_spans
    assert state(model) != state(kept)


def test_what_is_charged_in_lumps_is_not_more_than_the_devices() -> None:
    model = NodeModel()
    for number in (1, 2):
        spent = number * 5 * 10**9
        model.apply(full(job(1, spent_ns=spent, devices=(0,)), number=number, at_ns=BEGIN_NS + number * 10**9))
    assert model.gpu(model.jobs[1]) == 1.0
