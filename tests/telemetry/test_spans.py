"""From events to spans: the whole tree of scripted runs."""

import collections
from itertools import pairwise

import pytest

from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model import traceparent
from gpud.model.counters import Counters
from gpud.model.ids import JobId, Slot, uuid_text
from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.fill import MOST_SPANS
from gpud.telemetry.span import Link
from gpud.telemetry.spans import LONG_WAIT_NS, SEGMENT_NS
from tests.engine.conftest import GIB, UUID, by, only
from tests.engine.test_memory_swap import ZERO
from tests.telemetry.conftest import OFFSET, HeardSwaps, HeardTurns, children, out_of, took

MIB = 1 << 20
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def two_take_turns() -> HeardSwaps:
    """1 has 600 MiB in, holds for 10 s, gives back within 0.4 s; 2 needs 600 MiB: 176 MiB leave in 0.3 s, it comes in
    0.2 s later, holds for 5 s and ends."""
    w = HeardSwaps()
    who, _ = w.launch(name="one", command="python one.py", traceparent=CALLER, label_team="a")
    one = w.ready(who)
    w.rows[one] = _row(600 * MIB)
    w.ask(one)
    w.comes_in(one)
    two = w.ready(w.launch(name="two")[0])
    w.rows[two] = _row(600 * MIB)
    w.now += 1 * SECOND
    w.ask(two)
    w.now += 9 * SECOND
    assert only(w.look(0), do.SendLockRevoked)
    w.now += 400 * MILLISECOND
    out = out_of(w.back(one))
    w.now += 300 * MILLISECOND
    w.leaves(out)
    w.now += 200 * MILLISECOND
    w.comes_in(two)
    w.now += 5 * SECOND
    w.back(two)
    w.gone(one)
    w.gone(two)
    for job in list(w.state.tenants):
        w.react(ev.LauncherEnded(job=job))
    return w


def _row(lazy: int) -> Counters:
    return Counters(lazy_bytes=lazy, used_bytes=lazy)


def test_the_whole_tree_of_two_jobs_that_take_turns() -> None:
    w = two_take_turns()
    assert collections.Counter(span.name for span in w.spans) == {
        "job": 2, "job.segment": 2, "turn": 2, "hold": 2, "wait": 1, "swap_in": 1, "swap_out": 1, "preempt": 1,
    }  # fmt: skip
    first, second = w.named("job")
    assert (first.trace_id, first.parent_id, first.remote) == (CALLER[3:35], CALLER[36:52], True)
    assert second.trace_id not in (first.trace_id, "")
    assert (second.parent_id, second.remote) == ("", False)
    for job in (first, second):
        (segment,) = children(w.spans, job)
        (turn,) = children(w.spans, segment)
        parts = [span for span in children(w.spans, turn) if span.name != "preempt"]
        assert sum(map(took, parts)) == took(turn)
        assert [parts[0].start_ns, *(span.end_ns for span in parts)] == [
            *(span.start_ns for span in parts), turn.end_ns,
        ]  # fmt: skip
        assert parts[0].start_ns == turn.start_ns
    assert len({span.span_id for span in w.spans}) == len(w.spans)


def test_phases_of_a_turn_say_what_moved_and_how_fast() -> None:
    w = two_take_turns()
    one, two = w.named("turn")
    parts = {span.name: span for span in children(w.spans, one)}
    assert {name: took(span) for name, span in parts.items()} == {
        "hold": 10 * SECOND + 400 * MILLISECOND,
        "swap_out": 300 * MILLISECOND,
        "preempt": 400 * MILLISECOND,
    }
    moved = (600 + 600 - 1024) * MIB
    assert parts["swap_out"].attributes["gpud.swap.bytes"] == moved
    assert parts["swap_out"].attributes["gpud.swap.bytes_per_second"] == moved * 10 // 3
    parts = {span.name: span for span in children(w.spans, two)}
    assert {name: took(span) for name, span in parts.items()} == {
        "wait": 9 * SECOND + 400 * MILLISECOND,
        "swap_in": 500 * MILLISECOND,
        "hold": 5 * SECOND,
    }
    assert parts["swap_in"].attributes["gpud.swap.bytes"] == 600 * MIB
    assert parts["swap_in"].attributes["gpud.swap.bytes_per_second"] == 1200 * MIB
    assert one.start_ns == OFFSET + 100 * SECOND


def test_links_say_who_was_waited_for_and_who_had_to_go_for_whom() -> None:
    w = two_take_turns()
    one, two = w.named("turn")
    assert two.links == (Link(trace_id=one.trace_id, span_id=one.span_id, kind="waited_for"),)
    assert one.links == ()
    preempt = w.one("preempt")
    segment = next(span for span in w.named("job.segment") if span.trace_id == two.trace_id)
    assert preempt.links == (
        Link(trace_id=one.trace_id, span_id=one.span_id, kind="victim"),
        Link(trace_id=two.trace_id, span_id=segment.span_id, kind="beneficiary"),
    )
    assert (preempt.attributes["gpud.preempt.victim"], preempt.attributes["gpud.preempt.beneficiary"]) == (1, 2)
    assert preempt.error == ""


def test_attributes_follow_the_conventions() -> None:
    w = two_take_turns()
    turn, job = w.named("turn")[0], w.named("job")[0]
    assert dict(turn.attributes) == {
        "hw.id": uuid_text(UUID), "hw.type": "gpu", "hw.name": "", "gpud.gpu.memory_bytes": GIB, "gpud.device": 0,
        "gpud.job.id": 1, "gpud.job.name": "one", "gpud.class": "job", "gpud.turn.epoch": 100 * SECOND,
        "gpud.turn.end": "asked back", "gpud.turn.overran": False, "gpud.turn.told": "swapped",
        "gpud.turn.next_job": 2,
    }  # fmt: skip
    assert dict(job.attributes) == {
        "gpud.job.id": 1, "gpud.job.name": "one", "gpud.label.team": "a", "process.pid": 101, "process.owner": "ann",
        "process.user.id": 1000, "process.command_line": "python one.py", "process.executable.path": "python",
        "process.executable.name": "python",
    }  # fmt: skip


def test_a_segment_counts_what_was_not_told_too() -> None:
    w = HeardTurns()
    w.sample = 10
    one = w.low()
    for _ in range(25):
        w.ask(one)
        w.is_in(one)
        w.now += 2 * MILLISECOND
        w.back(one)
        w.now += 1 * MILLISECOND
    w.gone(one)
    w.react(ev.LauncherEnded(job=JobId(1)))
    assert len(w.named("turn")) == 3
    segment = w.one("job.segment")
    assert segment.attributes["gpud.segment.turns"] == 25
    assert segment.attributes["gpud.segment.turns_recorded"] == 3
    assert segment.attributes["gpud.segment.hold_s"] == pytest.approx(0.050)
    assert took(segment) == 75 * MILLISECOND


@pytest.mark.parametrize(
    ("what", "told", "error"),
    [
        ("waits long", "waited", ""),
        ("overruns", "overran", "not given back within its grace"),
        ("times out", "timed out", "it was not granted in time"),
        ("dies", "gone", ""),
    ],
)
def test_what_is_special_is_told_whatever_the_sample(what: str, told: str, error: str) -> None:
    w = HeardTurns()
    w.sample = 1000
    one, two = w.low(), w.low()
    for client in (one, two):  # the first turn of each is told by the sample
        w.ask(client)
        w.is_in(client)
        w.back(client)
    w.spans.clear()
    w.ask(one)
    w.is_in(one)
    w.ask(two, wait_ns=3 * SECOND if what == "times out" else None)
    if what == "waits long":
        w.now += LONG_WAIT_NS
        w.back(one)
        w.is_in(two)
        w.back(two)
    elif what == "overruns":
        w.now += 10 * SECOND
        w.later(0)
        w.later(2 * SECOND)
        w.now += 1 * SECOND
        w.back(one)
    elif what == "times out":
        w.now += 3 * SECOND
        w.react(ev.LockWithdrawn(client=two, request=w.numbers))
    else:
        w.now += 10 * MILLISECOND
        w.gone(one)
    (turn,) = w.named("turn")
    assert turn.attributes["gpud.turn.told"] == told
    assert turn.error == error
    assert turn.attributes["gpud.job.id"] == (2 if what in ("waits long", "times out") else 1)
    if what == "times out":
        assert [span.name for span in children(w.spans, turn)] == ["wait"]
        assert turn.links[0].kind == "waited_for"
    if what == "overruns":
        assert w.one("preempt").error


def test_an_ordinary_turn_is_not_told() -> None:
    w = HeardTurns()
    w.sample = 1000
    one, two = w.low(), w.low()
    for client in (one, two, one, two):
        w.ask(client)
        w.is_in(client)
        w.now += 5 * MILLISECOND
        w.back(client)
    assert [span.attributes["gpud.job.id"] for span in w.named("turn")] == [1, 2]


def test_what_goes_on_for_long_is_told_in_parts_that_follow_each_other() -> None:
    w = HeardTurns()
    one = w.low()
    began = w.now
    w.ask(one)
    w.is_in(one)
    for _ in range(25):
        w.later(100 * SECOND)
    w.back(one)
    turns, segments = w.named("turn"), w.named("job.segment")
    assert [turn.attributes["gpud.turn.end"] for turn in turns] == ["goes on"] * (len(turns) - 1) + ["back"]
    assert len(turns) > 2
    assert turns[0].start_ns == began + OFFSET
    for before, after in pairwise(turns):
        assert (after.start_ns, after.trace_id) == (before.end_ns, before.trace_id)
        assert after.links == (Link(trace_id=before.trace_id, span_id=before.span_id, kind="previous"),)
    assert turns[-1].end_ns == w.now + OFFSET
    assert max(map(took, turns)) <= 2 * SEGMENT_NS
    assert len(segments) == 4
    for before, after in pairwise(segments):
        assert after.start_ns == before.end_ns
        assert after.links == (Link(trace_id=before.trace_id, span_id=before.span_id, kind="previous"),)
    assert {took(segment) for segment in segments} == {SEGMENT_NS}


def test_a_wait_that_is_told_in_parts_keeps_its_links() -> None:
    """Who waits beyond the end of a segment: its parts follow each other, and the last says who was waited for."""
    w = HeardTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    for _ in range(13):
        w.later(100 * SECOND)
    w.back(one)
    w.is_in(two)
    w.now += 1 * SECOND
    w.back(two)
    parts = [turn for turn in w.named("turn") if turn.attributes["gpud.job.id"] == 2]
    assert len(parts) > 1
    for before, after in pairwise(parts):
        assert after.links[0] == Link(trace_id=before.trace_id, span_id=before.span_id, kind="previous")
    last = [turn for turn in w.named("turn") if turn.attributes["gpud.job.id"] == 1][-1]
    assert [link for link in parts[-1].links if link.kind == "waited_for"] == [
        Link(trace_id=last.trace_id, span_id=last.span_id, kind="waited_for")
    ]


def test_a_segment_ends_after_200_turns() -> None:
    w = HeardTurns()
    w.sample = 100
    one = w.low()
    for _ in range(450):
        w.ask(one)
        w.is_in(one)
        w.now += MILLISECOND
        w.back(one)
    assert [span.attributes["gpud.segment.turns"] for span in w.named("job.segment")] == [200, 200]


def test_a_trace_stays_bounded_whatever_happens_in_a_day() -> None:
    """24 h of turns of twenty seconds, of which each is told."""
    w = HeardTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    held, other = one, two
    end = w.now + 24 * 3600 * SECOND
    turns = 0
    counts: collections.Counter[str] = collections.Counter()
    while w.now < end:
        w.ask(other)
        w.now += 20 * SECOND
        w.back(held)
        w.is_in(other)
        held, other = other, held
        turns += 1
        if len(w.spans) > 10_000:
            counts.update(span.trace_id for span in w.spans)
            w.spans.clear()
    counts.update(span.trace_id for span in w.close())
    assert turns == 4_320
    assert sum(counts.values()) > 13_000
    assert max(counts.values()) <= MOST_SPANS
    assert len(counts) < sum(counts.values()) / (MOST_SPANS * 0.9) + 3, "they are filled before another one begins"


def test_a_trace_that_is_full_is_followed_by_one_that_is_linked_to_it() -> None:
    w = HeardTurns()
    one = w.low()
    before = w.observer.trace_of(JobId(1)) if w.observer else ""
    while w.observer is not None and w.observer.trace_of(JobId(1)) == before:
        w.ask(one)
        w.is_in(one)
        w.now += MILLISECOND
        w.back(one)
    w.close()
    (fresh,) = [span for span in w.named("job.segment") if span.trace_id != before]
    last = [span for span in w.named("job.segment") if span.trace_id == before][-1]
    assert fresh.links == (Link(trace_id=before, span_id=last.span_id, kind="previous"),)
    assert fresh.parent_id == ""


def test_who_is_evicted_and_who_finds_no_memory() -> None:
    w = HeardSwaps()
    one = w.fill(600 * MIB)
    w.now += 1 * SECOND
    w.react(ev.EvictAsked(job=w.job(one), by=by()))
    w.now += 100 * MILLISECOND
    out = out_of(w.back(one))
    assert w.named("evict") == [], "its memory is there"
    w.now += 200 * MILLISECOND
    w.leaves(out)
    evict = w.one("evict")
    assert (took(evict), evict.error) == (300 * MILLISECOND, "evicted by root (uid 0)")
    assert evict.attributes["gpud.by"] == "root (uid 0)"
    w.react(ev.AllocAsked(client=one, slot=Slot(0), request=7, bytes=8 * GIB, time_ns=0, held=w.held))
    oom = w.one("oom")
    assert oom.error.startswith("an allocation fails: ")
    assert (oom.attributes["gpud.memory.bytes"], oom.attributes["hw.id"]) == (8 * GIB, uuid_text(UUID))
    segment = w.close()[-1]
    assert {evict.parent_id, oom.parent_id} == {segment.span_id}


def test_memory_that_leaves_at_another_time_stands_alone() -> None:
    w = HeardSwaps()
    one = w.fill(300 * MIB)
    two = w.join(lazy=500 * MIB)
    w.passes(one, two)
    w.set(one, idle_since_ns=w.now)
    w.is_in(two)
    w.set(two, idle_since_ns=w.now + 1)
    three = w.join(lazy=700 * MIB)
    outs = only(w.passes(two, three), do.SwapOut)
    assert [out.client for out in outs] == [one, two]
    w.spans.clear()
    w.now += 70 * MILLISECOND
    for out in outs:
        w.leaves(out)
    alone, after = w.named("swap_out")
    assert (alone.attributes["gpud.job.id"], took(alone)) == (1, 70 * MILLISECOND)
    assert alone.attributes["gpud.swap.bytes"] == 300 * MIB
    assert [link.kind for link in alone.links] == ["beneficiary"]
    assert after.parent_id == w.one("turn").span_id


def test_who_is_not_let_in_leaves_an_error_in_its_callers_trace() -> None:
    w = HeardTurns()
    w.launch(traceparent=CALLER, name="x", **{"class": "nothing"})
    span = w.one("job")
    assert (span.trace_id, span.parent_id) == (CALLER[3:35], CALLER[36:52])
    assert span.error.startswith("not let in: ")


def test_a_caller_whose_trace_is_not_recorded_gets_no_spans() -> None:
    w = HeardTurns()
    one = w.ready(w.launch(traceparent=CALLER[:-2] + "00")[0])
    w.ask(one)
    w.is_in(one)
    w.back(one)
    assert w.close() == []


def test_a_daemon_that_comes_after_goes_on_in_a_trace_that_is_linked_to_the_job() -> None:
    w = HeardTurns()
    one = w.ready(w.launch(traceparent=CALLER)[0])
    w.ask(one)
    w.is_in(one)
    w.close()
    job = w.one("job")
    w.listen()
    w.now += SECOND
    w.back(one)
    w.close()
    segment = w.one("job.segment")
    assert segment.links == (Link(trace_id=job.trace_id, span_id=job.span_id, kind="job"),)
    assert segment.trace_id != job.trace_id
    assert children(w.spans, segment) == w.named("turn")


def test_jobs_are_told_of_their_span() -> None:
    w = HeardTurns()
    w.state.trace_seed = "boot"
    _, effects = w.launch(traceparent=CALLER)
    (sent,) = only(effects, do.SendJob)
    told = traceparent.parse(dict(sent.environment)["TRACEPARENT"])
    assert told is not None
    job = w.one("job")
    assert (told.trace_id, told.span_id, told.sampled) == (job.trace_id, job.span_id, True)
    w.state.trace_seed = ""
    (sent,) = only(w.launch(traceparent=CALLER)[1], do.SendJob)
    assert "TRACEPARENT" not in dict(sent.environment), "it keeps its caller's"


@pytest.mark.parametrize("text", ["x", CALLER[:-1], CALLER.upper(), "ff" + CALLER[2:], f"00-{'0' * 32}-{'1' * 16}-01"])
def test_a_malformed_traceparent_is_passed_over_with_a_line(text: str) -> None:
    w = HeardTurns()
    w.state.trace_seed = "boot"
    _, effects = w.launch(traceparent=text)
    (sent,) = only(effects, do.SendJob)
    told = traceparent.parse(dict(sent.environment)["TRACEPARENT"])
    assert told is not None
    assert told.trace_id not in text
    (line,) = [one for one in only(effects, do.Record) if one.level == "warning"]
    assert "TRACEPARENT" in line.text
    assert text in line.text
    assert w.one("job").parent_id == ""


def test_what_came_in_counts_though_it_was_not_all() -> None:
    """Asked back in the middle: it moved all the same."""
    w = HeardSwaps()
    one = w.ready(w.launch(name="one")[0])
    w.rows[one] = _row(600 * MIB)
    w.ask(one)
    w.now += SECOND
    for count, short in ((100 * MIB, True), (300 * MIB, True), (300 * MIB, True)):
        w.react(
            ev.LockIsIn(
                client=one, slots=frozenset({ZERO}), epoch=w.epoch(), bytes=count, short=short, took_ns=1, held=w.held
            )
        )
    w.back(one)
    assert w.one("swap_in").attributes["gpud.swap.bytes"] == 300 * MIB


def test_what_came_in_is_that_of_all_processes_of_the_job() -> None:
    w = HeardSwaps()
    launcher = w.launch(name="one")[0]
    one, other = w.ready(launcher), w.ready(launcher)
    w.rows |= {one: _row(300 * MIB), other: _row(100 * MIB)}
    w.ask(one)
    w.now += SECOND
    for client, count in ((one, 200 * MIB), (other, 100 * MIB), (one, 300 * MIB)):
        w.react(
            ev.LockIsIn(
                client=client,
                slots=frozenset({ZERO}),
                epoch=w.epoch(),
                bytes=count,
                short=False,
                took_ns=1,
                held=w.held,
            )
        )
    w.back(one)
    w.back(other)
    assert w.one("swap_in").attributes["gpud.swap.bytes"] == 400 * MIB


def test_who_gives_back_and_asks_in_one_word_waits_from_then_on() -> None:
    w = HeardTurns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    w.now += SECOND
    w.back(one, asks=True)
    w.is_in(two)
    w.now += 3 * SECOND
    w.back(two)
    w.is_in(one)
    w.now += SECOND
    w.back(one)
    first, again = [turn for turn in w.named("turn") if turn.attributes["gpud.job.id"] == w.job(one)]
    assert [(part.name, took(part)) for part in children(w.spans, first)] == [("hold", SECOND)]
    assert [(part.name, took(part)) for part in children(w.spans, again)] == [("wait", 3 * SECOND), ("hold", SECOND)]
