"""Several policies on one device."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpud.policies.combine import is_tighter, meet
from gpud.policies.compile import compile_policy
from gpud.policies.program import Now
from gpud.policies.rounding import round_knob
from gpud.policies.schema import KNOBS
from gpud.policies.stack import Classes, Stack, States
from gpud.policies.tenants import TenantFacts
from gpud.policies.values import RESIDENCIES
from tests.policies.arbitrary import SIGNALS, policies, traces
from tests.policies.programs import MONDAY, S, body, program, resolved

UNLIMITED = float("inf")
ARBITER = body(
    "arbitrate preempt { order = [high, low] resume_after = 3ms max_inflight = 8 } "
    "when high.busy > 50% { low.yield = false low.max_inflight = 4 }"
)
LIMITER = program(
    """policy "quotas" {
         class gold { match label("plan") == "gold" } class rest { match any }
         rest.max_inflight = 6
         guard gpu.memory_free < 1GiB because "full" { rest.pause = true rest.residency = host }
         each rest as r { when r.idle_for > 1s { r.residency = disk } }
       }"""
)
EVERYBODY: Classes = ("low", "rest")


def ticked(stack: Stack, states: States | None = None, now: int = 0, **values: object) -> States:
    given = {name.replace("__", "."): value for name, value in values.items()}
    listed = [given.get(wanted.signal.text) for wanted in stack.wanted]
    nobody: list[dict[int, tuple[object, ...]]] = [{} for _ in stack.programs]
    return stack.tick(states or stack.initial, listed, Now(now, MONDAY + now), nobody)


def test_only_one_may_arbitrate() -> None:
    Stack((ARBITER, LIMITER, LIMITER))
    with pytest.raises(ValueError, match="only one policy may arbitrate, but p and p do"):
        Stack((ARBITER, LIMITER, ARBITER))


def test_without_an_arbiter_nobody_holds_anybody() -> None:
    stack = Stack(())
    assert stack.mode == "open"
    assert stack.met(stack.initial, (), "pause") == (False, None, 0, False)
    assert stack.explain(stack.initial, (), "pause") is None
    assert Stack((LIMITER,)).mode == "open"
    assert Stack((LIMITER, ARBITER)).mode == "preempt"


def test_a_tenant_stands_in_a_class_of_each() -> None:
    stack = Stack((ARBITER, LIMITER))
    assert stack.classify(TenantFacts(labels={"plan": "gold"})) == ("low", "gold")
    assert stack.classify(TenantFacts(labels={"tier": "online"})) == ("high", "rest")


def test_signals_are_wanted_once_and_classes_are_each_policy_s_own() -> None:
    other = body("when high.busy > 1% and gpu.memory_free > 1GiB { low.pause = true }")
    stack = Stack((ARBITER, other, LIMITER))
    found = [(wanted.policy, wanted.signal.text) for wanted in stack.wanted]
    assert found == [(0, "high.busy"), (1, "high.busy"), (None, "gpu.memory_free")]


def test_they_meet() -> None:
    stack = Stack((ARBITER, LIMITER))
    states = ticked(stack, high__busy=0.0, gpu__memory_free=1 << 40)
    assert stack.met(states, EVERYBODY, "max_inflight").value == 6
    assert stack.met(states, ("low", "gold"), "max_inflight").value == 8
    assert stack.met(states, ("high", None), "max_inflight").value == UNLIMITED
    assert stack.met(states, EVERYBODY, "pause").value is False
    states = ticked(stack, states, 1, high__busy=1.0, gpu__memory_free=0)
    assert stack.met(states, EVERYBODY, "max_inflight").value == 4
    assert stack.met(states, EVERYBODY, "pause").value is True
    found = stack.explain(states, EVERYBODY, "pause")
    assert found is not None
    assert (found.policy, found.because, found.inputs) == ("quotas", "full", (("gpu.memory_free", "0B"),))


def test_the_built_in_value_of_a_limiter_is_no_word() -> None:
    """`yield` is true by default and combines by any: a limiter must not turn the arbiter's false into true."""
    stack = Stack((ARBITER, LIMITER))
    states = ticked(stack, high__busy=1.0, gpu__memory_free=1 << 40)
    assert stack.met(states, EVERYBODY, "yield").value is False
    assert stack.met(states, EVERYBODY, "yield").policy == 0


def test_what_each_says_of_a_tenant_is_for_it_alone() -> None:
    stack = Stack((ARBITER, LIMITER))
    tenants = [{}, {5: ("rest", 2 * S), 6: ("rest", 0)}]
    states = stack.tick(stack.initial, [0.0, 1 << 40], Now(0, MONDAY), tenants)
    assert stack.met(states, EVERYBODY, "residency", 5).value == "disk"
    assert stack.met(states, EVERYBODY, "residency", 6).value == "device"
    found = stack.explain(states, EVERYBODY, "residency", 5)
    assert found is not None
    assert found.inputs == (("rest.idle_for", "2s"),)


def test_a_policy_is_asked_only_if_something_changed() -> None:
    stack = Stack((ARBITER, LIMITER))
    first = ticked(stack, high__busy=0.0, gpu__memory_free=1 << 40)
    second = ticked(stack, first, 1, high__busy=0.9, gpu__memory_free=1 << 40)
    assert second[0] is not first[0]
    assert second[1] is first[1]
    assert stack.next_change(second) is None


def test_state_goes_from_stack_to_stack() -> None:
    aimd = (
        'policy "aimd" { class high { match any } let calm = ewma(high.launch_rate, half_life = 1s) '
        "high.max_launch_rate = calm * 2 }"
    )
    old = Stack((program(aimd), LIMITER))
    states = ticked(old, high__launch_rate=500.0, gpu__memory_free=0)
    new = Stack((ARBITER, LIMITER, program(aimd.replace("* 2", "* 3"))))
    carried, anew = new.carry(states, old)
    assert anew == ()
    assert new.met(carried, ("low", "rest", None), "pause").value is False  # nothing is decided before a tick
    carried = ticked(new, carried, S, high__launch_rate=900.0, gpu__memory_free=0, high__busy=0.0)
    assert new.met(carried, ("low", "rest", "high"), "max_launch_rate").value == 1_500  # it was 500/s until now
    _, anew = new.carry(states, Stack((program(aimd.replace("calm", "mean")), LIMITER)))
    assert anew == ("aimd.calm",)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(texts=st.lists(policies, min_size=2, max_size=3), trace=traces)
def test_the_order_of_policies_means_nothing_and_skipping_changes_nothing(texts: list[str], trace) -> None:
    programs = [compile_policy(resolved(text)) for text in texts]
    stacks = [Stack(tuple(order)) for order in itertools.permutations(programs)]
    states = [stack.initial for stack in stacks]
    fresh = stacks[0].initial
    values, now = {name: found[0] for name, found in SIGNALS.items()}, 0
    for later, changed in [(0, {}), *trace]:
        now += later
        values |= changed
        found = []
        for number, stack in enumerate(stacks):
            listed = [values[wanted.signal.text] for wanted in stack.wanted]
            nobody = [{} for _ in programs]
            states[number] = stack.tick(states[number], listed, Now(now, MONDAY + now), nobody)
            classes = ("low",) * len(programs)
            found.append({knob: stack.met(states[number], classes, knob).value for knob in KNOBS if knob != "share"})
            if not number:
                aged = tuple(ran and ran._replace(due_ns=0) for ran in fresh)
                fresh = stack.tick(aged, listed, Now(now, MONDAY + now), nobody)
                assert [ran.knobs for ran in fresh if ran] == [ran.knobs for ran in states[0] if ran]
        assert all(one == found[0] for one in found)


# ----------------------------------------------------------------------------------------------------- how values meet

VALUES = {
    "pause": st.booleans(),
    "admit": st.booleans(),
    "residency": st.sampled_from(RESIDENCIES),
    "max_launch_rate": st.floats(0, 1e9) | st.just(UNLIMITED),
    "max_inflight_time": st.integers(0, 10**12) | st.just(UNLIMITED),
    "max_compute": st.floats(0, 1) | st.just(UNLIMITED),
    "max_inflight": st.floats(0, 100) | st.just(UNLIMITED),
}


@pytest.mark.parametrize("knob", VALUES)
@given(data=st.data())
def test_meets_are_a_semilattice_and_rounding_keeps_order(knob: str, data: st.DataObject) -> None:
    combine = KNOBS[knob].combine
    a, b, c = (data.draw(VALUES[knob]) for _ in range(3))
    assert meet(combine, a, b) == meet(combine, b, a)
    assert meet(combine, a, meet(combine, b, c)) == meet(combine, meet(combine, a, b), c)
    assert meet(combine, a, a) == a
    assert not is_tighter(combine, a, meet(combine, a, b))
    assert round_knob(knob, meet(combine, a, b)) == meet(combine, round_knob(knob, a), round_knob(knob, b))
    assert round_knob(knob, round_knob(knob, a)) == round_knob(knob, a)
