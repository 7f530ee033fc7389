"""Jobs under one caller share a trace: it is counted by trace, not by job."""

import random
from collections import Counter

import pytest

from gpud.model.ids import JobId, Slot
from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.fill import MOST_SPANS, REMEMBERED, Traces
from gpud.telemetry.records import Came, Gone, Job, Phase, Refused, TurnMoment
from gpud.telemetry.span import Link, SpanRecord
from gpud.telemetry.spans import SEGMENT_NS, Spans
from tests.telemetry.conftest import children

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ITS_TRACE, ITS_SPAN = CALLER[3:35], CALLER[36:52]
PHASES = ("wait", "swap_in", "hold", "swap_out")


class Told:
    """Jobs under one caller, and the spans that are made of them."""

    def __init__(self, sample: int = 1) -> None:
        self.spans: list[SpanRecord] = []
        self.now = 100 * SECOND
        self.made = Spans(
            self.spans.append, seed="boot", sample=sample, offset=lambda: 0, bits=random.Random(1).getrandbits,
            device=lambda slot: {}, class_of=lambda job: "",
        )  # fmt: skip

    def job(self, number: int) -> Job:
        return Job(
            id=number, name="x", user="ann", uid=1, pid=number, command="x", exe="", labels=(), caller=CALLER,
            asked_ns=self.now,
        )  # fmt: skip

    def comes(self, number: int) -> None:
        self.made.take(Came(job=self.job(number), at_ns=self.now))

    def goes(self, number: int) -> None:
        self.made.take(Gone(job=JobId(number), at_ns=self.now))

    def turns(self, number: int) -> None:
        """One, which makes as many spans as there can be."""
        began, self.now = self.now, self.now + 4 * MILLISECOND
        at = range(began, self.now, MILLISECOND)
        phases = tuple(Phase(name, on, on + MILLISECOND) for name, on in zip(PHASES, at, strict=True))
        self.made.take(
            TurnMoment(
                JobId(number), Slot(0), self.now, began, self.now, phases, "asked back", asked_back_ns=began,
                back_ns=self.now,
            )
        )  # fmt: skip

    def counts(self) -> Counter[str]:
        return Counter(span.trace_id for span in self.spans)

    def named(self, name: str) -> list[SpanRecord]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.mark.parametrize("in_turns", [True, False])
def test_jobs_under_one_caller_fill_its_trace_together(told: Told, in_turns: bool) -> None:
    """20 jobs, each with 1,000 turns that are told: in turns, or one job after the other while all are there."""
    jobs = range(1, 21)
    for number in jobs:
        told.comes(number)
    for number in [n for _ in range(1_000) for n in jobs] if in_turns else [n for n in jobs for _ in range(1_000)]:
        told.turns(number)
    told.made.close(told.now)
    assert Counter(span.attributes["gpud.job.id"] for span in told.named("turn")) == dict.fromkeys(jobs, 1_000)
    counts = told.counts()
    assert max(counts.values()) <= MOST_SPANS
    assert counts[ITS_TRACE] > MOST_SPANS * 0.9, "it is filled"
    assert len(counts) < sum(counts.values()) / (MOST_SPANS * 0.9) + 21
    segments = told.named("job.segment")
    followed = {(link.trace_id, link.span_id) for span in segments for link in span.links}
    assert len({(one.trace_id, one.span_id) for one in segments} - followed) == 20, "but for the last of each job"


def test_many_idle_jobs_and_the_ends_of_their_segments_have_room(told: Told) -> None:
    for number in range(1, 2_001):
        told.comes(number)
    for _ in range(4):
        told.now += SEGMENT_NS
        while (over := told.made.due(told.now)) is not None:
            told.made.cut(over[0], told.now)
    told.made.close(told.now)
    assert len(told.named("job.segment")) == 5 * 2_000
    assert max(told.counts().values()) <= MOST_SPANS


def test_a_job_that_comes_when_its_callers_trace_is_full_has_one_of_its_own(told: Told) -> None:
    for number in range(1, MOST_SPANS // 2 + 1):
        told.comes(number)
        told.goes(number)  # two spans of each
    told.comes(MOST_SPANS)
    trace = told.made.trace_of(JobId(MOST_SPANS))
    told.made.close(told.now)
    assert MOST_SPANS * 0.9 < told.counts()[ITS_TRACE] <= MOST_SPANS
    late = told.named("job")[-1]
    assert late.trace_id == trace != ITS_TRACE
    assert (late.parent_id, late.remote) == ("", False)
    assert late.links == (Link(trace_id=ITS_TRACE, span_id=ITS_SPAN, kind="caller"),)
    assert [span.name for span in children(told.spans, late)] == ["job.segment"]


def test_jobs_that_are_not_let_in_fill_their_callers_trace_no_further(told: Told) -> None:
    for number in range(1, MOST_SPANS + 10):
        told.made.take(Refused(job=told.job(number), at_ns=told.now, text="full"))
    assert len(told.spans) == MOST_SPANS + 9, "none is lost"
    assert MOST_SPANS * 0.9 < told.counts()[ITS_TRACE] <= MOST_SPANS
    assert told.spans[-1].error == "not let in: full"


def test_a_job_that_goes_leaves_its_room_to_others(told: Told) -> None:
    for number in range(1, 1_001):
        told.comes(number)
        told.goes(number)
    told.comes(1_001)
    assert told.made.trace_of(JobId(1_001)) == ITS_TRACE


def test_traces_of_the_past_are_forgotten_and_those_that_go_on_are_not() -> None:
    traces = Traces()
    goes_on = traces.of("goes on")
    goes_on.count = traces.of("over").count = 7
    for number in range(REMEMBERED - 1):
        traces.of(str(number))
    assert traces.of("over").count == 7, "it is one of the last"
    for number in range(REMEMBERED):
        traces.of(str(number))
    assert (traces.of("goes on").count, traces.of("over").count) == (7, 0)
