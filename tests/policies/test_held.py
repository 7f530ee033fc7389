"""Held conditions: the state machine itself, and the generated code against it."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies import held
from gpud.policies.held import GRACE_NS, OFF, ON, OUT, RESET, Held
from tests.policies.programs import MS, TICK, Run, S, body

KINDS = ["when", "when until", "guard", "guard until"]


class Rule(NamedTuple):
    """`kind A [for dwell] [until B [for release]]`"""

    kind: str
    dwell: int
    release: int

    @property
    def has_until(self) -> bool:
        return "until" in self.kind

    def text(self) -> str:
        dwell = f" for {self.dwell // MS}ms" if self.dwell else ""
        release = f" for {self.release // MS}ms" if self.release and self.has_until else ""
        until = f" until gpu.busy > 50%{release}" if self.has_until else ""
        return f"{self.kind.split()[0]} high.active{dwell}{until} {{ low.pause = true }}"

    def step(self, state: Held, now: int, condition: bool | None, until: bool | None) -> Held:
        return held.step(
            state,
            now,
            condition,
            until,
            dwell_ns=self.dwell,
            release_ns=self.release if self.has_until else 0,
            has_until=self.has_until,
            guard=self.kind.startswith("guard"),
        )


def states(rule: Rule, trace: list[tuple[int, bool | None, bool | None]]) -> list[int]:
    """Modes after each (milliseconds later, A, B)."""
    state, now, found = RESET, 0, []
    for later, condition, until in trace:
        now += later * MS
        state = rule.step(state, now, condition, until)
        found.append(state.mode)
    return found


def test_it_must_hold_all_the_time() -> None:
    rule = Rule("when", 100 * MS, 0)
    assert states(rule, [(0, True, None), (99, True, None), (1, True, None)]) == [OFF, OFF, ON]
    assert states(rule, [(0, True, None), (99, False, None), (1, True, None), (100, True, None)]) == [OFF, OFF, OFF, ON]
    assert states(rule, [(0, True, None), (100, True, None), (1, False, None)]) == [OFF, ON, OFF]


def test_until_ends_it_and_not_the_condition() -> None:
    rule = Rule("when until", 0, 50 * MS)
    trace = [(0, True, False), (5, False, False), (5, False, True), (49, False, True), (1, False, True)]
    assert states(rule, trace) == [ON, ON, ON, ON, OFF]


def test_it_does_not_begin_while_until_holds() -> None:
    rule = Rule("when until", 10 * MS, 0)
    assert states(rule, [(0, True, True), (20, True, True), (5, True, False)]) == [OFF, OFF, ON]


def test_unknown_keeps_the_state_for_the_grace() -> None:
    for_a_second = [(0, True, None), (5, None, None), (999, None, None)]
    assert states(Rule("when", 0, 0), for_a_second) == [ON, ON, ON]
    assert states(Rule("when", 0, 0), [*for_a_second, (1, None, None)]) == [ON, ON, ON, OUT]
    assert states(Rule("guard", 0, 0), [*for_a_second, (1, None, None), (9_000, None, None)]) == [ON] * 5


def test_a_dwell_survives_a_gap_and_not_a_silence() -> None:
    rule = Rule("when", 2_000 * MS, 0)
    assert states(rule, [(0, True, None), (500, None, None), (400, True, None), (1_100, True, None)])[-1] == ON
    silent = [(0, True, None), (500, None, None), (1_000, None, None), (500, True, None), (1_999, True, None)]
    assert states(rule, silent)[-1] == OFF
    assert states(rule, [*silent, (1, True, None)])[-1] == ON


def test_what_does_not_decide_may_be_unknown() -> None:
    rule = Rule("when until", 0, 0)
    assert states(rule, [(0, True, False), (5_000, None, False), (5_000, None, False)]) == [ON, ON, ON]
    assert states(rule, [(0, False, None), (5_000, False, None)]) == [OFF, OFF]
    assert states(rule, [(0, True, None), (1_000, True, None)]) == [OFF, OUT]


def test_due_is_when_it_may_change_by_itself() -> None:
    waiting = Held(OFF, 100, None)
    assert held.due(waiting, 150, dwell_ns=70, release_ns=0) == 170
    assert held.due(waiting, 170, dwell_ns=70, release_ns=0) is None
    assert held.due(Held(ON, 100, 110), 150, dwell_ns=0, release_ns=5) == 110 + GRACE_NS
    assert held.due(RESET, 0, dwell_ns=70, release_ns=70) is None


TRUTH = st.sampled_from([True, False, None])
TRACE = st.lists(st.tuples(st.sampled_from([5, 5, 5, 20, 100, 400, 1_000, 1_500]), TRUTH, TRUTH), max_size=40)
DURATION = st.sampled_from([0, 5 * MS, 50 * MS, 500 * MS, 2 * S])


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), dwell=DURATION, release=DURATION, traces=st.lists(TRACE, min_size=5, max_size=15))
def test_generated_code_does_the_same(
    kind: str, dwell: int, release: int, traces: list[list[tuple[int, bool | None, bool | None]]]
) -> None:
    rule = Rule(kind, dwell, release)
    program = body(rule.text())
    assert program.sites[1].text.startswith(kind.split()[0])
    for trace in traces:
        run, state, now = Run(program), RESET, 0
        for later, condition, until in trace:
            now += later * MS
            values = {"high.active": condition}
            if rule.has_until:
                values["gpu.busy"] = None if until is None else 0.9 if until else 0.1
            run.set(values)
            run.tick(now)
            state = rule.step(state, now, condition, until)
            assert run["low.pause"] is (state.mode == ON)
            due = held.due(state, now, dwell_ns=dwell, release_ns=release if rule.has_until else 0)
            mine = run.next_change()
            if due is None:
                assert mine is None or mine <= now + GRACE_NS
            else:
                assert mine is not None
                assert mine <= due  # it may look once more than the reference


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_changes_before_it_is_due(kind: str) -> None:
    """A run of single ticks with the same values: the mode changes only at the tick that was announced."""
    rule = Rule(kind, 500 * MS, 300 * MS)
    for condition, until in [(True, False), (True, None), (None, None), (False, True), (True, True)]:
        run = Run(body(rule.text()))
        run.set({"high.active": True} | ({"gpu.busy": 0.0} if rule.has_until else {}))
        run.run(2 * S)
        busy = None if until is None else 0.9 if until else 0.1
        run.set({"high.active": condition} | ({"gpu.busy": busy} if rule.has_until else {}))
        run.tick(run.now + TICK)
        for _ in range(1_000):
            before, due = run["low.pause"], run.next_change()
            run.tick(run.now + TICK)
            if run["low.pause"] != before:
                assert due is not None
                assert due <= run.now
