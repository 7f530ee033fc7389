"""Whatever clients, hooks and the host do, the spans of it make sense: the machine of tests/engine/test_memory_swap.py,
heard by an observer."""

import collections
from itertools import pairwise

from hypothesis import settings

from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.telemetry.span import SpanRecord
from tests.engine.test_memory_swap import KEEP, MIB, SWAPS, Machine
from tests.telemetry.conftest import HeardSwaps, children


class Observed(Machine):
    """It ends with the death of all; then all spans are there."""

    def __init__(self) -> None:
        super().__init__()
        self.w = self.heard = HeardSwaps(SWAPS.replace("4GiB)]", f"900MiB)]  keep = {KEEP // MIB}MiB"))
        self.grants: set[tuple[int, int]] = set()

    def hear(self, effects: list[Effect]) -> None:
        super().hear(effects)
        turn = self.w.state.locks.lines[next(iter(self.w.state.locks.lines))].turn if self.w.state.locks.lines else None
        if turn is not None:
            self.grants.add((turn.job, turn.epoch))

    def teardown(self) -> None:
        super().teardown()
        for client in sorted(self.size):
            self.hear(self.w.gone(client))
        for job in list(self.w.state.tenants):
            self.w.react(ev.LauncherEnded(job=job))
        spans, observer = self.heard.spans if self.heard.observer else [], self.heard.observer
        if observer is None:
            return
        turns = observer._moments._turns
        assert [turns._waits, turns._held, turns._leaving, turns._outs, observer._spans._jobs] == [{}] * 5
        assert len(self.heard.close()) == len(spans), "nothing goes on"
        check(spans)
        told = {
            (span.attributes["gpud.job.id"], span.attributes["gpud.turn.epoch"])
            for span in spans
            if span.name == "turn" and span.attributes["gpud.turn.epoch"]
        }
        assert told >= self.grants, "each turn is told"


def check(spans: list[SpanRecord]) -> None:
    """What holds for any run that is over."""
    known = {(span.trace_id, span.span_id) for span in spans}
    assert len(known) == len(spans)
    segments: dict[object, list[SpanRecord]] = collections.defaultdict(list)
    busy: dict[object, list[SpanRecord]] = collections.defaultdict(list)
    for span in spans:
        assert span.start_ns <= span.end_ns
        assert not span.parent_id or (span.trace_id, span.parent_id) in known
        assert all((link.trace_id, link.span_id) in known for link in span.links)
        if span.name == "job.segment":
            segments[span.attributes["gpud.job.id"]].append(span)
        if span.name in ("hold", "swap_in"):
            busy[span.attributes["hw.id"]].append(span)
        if span.name == "turn":
            parts = [part for part in children(spans, span) if part.name != "preempt"]
            assert [span.start_ns, *(part.end_ns for part in parts)] == [
                *(part.start_ns for part in parts),
                span.end_ns,
            ]
            order = ["wait", "swap_in", "hold", "swap_out"]
            assert [part.name for part in parts] == sorted((part.name for part in parts), key=order.index)
    for its in segments.values():
        assert all(before.end_ns == after.start_ns for before, after in pairwise(its))
    for its in busy.values():
        its.sort(key=lambda span: (span.start_ns, span.end_ns))
        assert all(before.end_ns <= after.start_ns for before, after in pairwise(its)), "one at a time"


TestObserved = Observed.TestCase
TestObserved.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
