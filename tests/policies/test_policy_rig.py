"""Policies driven from Python, and what users prove with it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies.schema import UNLIMITED
from gpud.testing.policy_rig import PolicyRig, WrongPolicy

OPEN = """gpol 1
policy "p" {
  param most = 10/s
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate open {}
  let smooth = ewma(high.launch_rate, half_life = 100ms)
  when high.wait_p99 > 2ms for 50ms until high.wait_p99 < 1ms { low.max_launch_rate = most }
  when smooth > 500/s { low.max_inflight = 4 }
  GUARD
}
"""
GUARD = "guard gpu.busy > 90% for 20ms until gpu.busy < 50% for 100ms { low.pause = true  low.max_inflight = 2 }"


def test_a_rig_sets_waits_and_looks() -> None:
    rig = PolicyRig.of(OPEN.replace("GUARD", ""), "p", arguments="(most = 3/s)", steps="attach a {}")
    assert rig.now_ns == 0
    assert rig.knobs()["low.max_launch_rate"] == UNLIMITED
    rig.set("high.wait_p99", "3ms")
    rig.advance(0.049)
    assert rig.knob("low.max_launch_rate") == UNLIMITED
    rig.advance(0.006)
    assert rig.knob("low.max_launch_rate") == 3
    assert rig.knob("a.max_launch_rate") == 3
    rig.set("high.launch_rate", 1000)
    rig.advance(0.105)
    assert rig.let("smooth") == pytest.approx(500, rel=0.01)
    assert rig.signal("high.active") is True
    assert not rig.held("low")
    assert rig.now_ns == 160_000_000


def test_a_rig_with_a_world() -> None:
    world = "simulate contention(capacity = 3_000/s, high_demand = 500/s, low_demand = 9000/s)"
    rig = PolicyRig.of(OPEN.replace("GUARD", ""), "p", steps=world)
    rig.set("world.high_demand", 0.0)
    rig.advance(1)
    assert rig.signal("low.launch_rate") == 3000


@pytest.mark.parametrize(
    ("text", "name", "more", "said"),
    [
        ("gpol 1\npolicy", "p", {}, "error[GP10"),
        (OPEN.replace("GUARD", ""), "q", {}, "no policy is called `q`"),
        (OPEN.replace("GUARD", ""), "p", {"arguments": "(most = 3ms)"}, "error[GP202]"),
        (OPEN.replace("GUARD", ""), "p", {"steps": "simulate moon()"}, "there is no world `moon`"),
        (OPEN.replace("GUARD", "low.paus = true"), "p", {}, "error[GP2"),
    ],
)
def test_what_is_wrong_is_said(text: str, name: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(WrongPolicy) as caught:
        PolicyRig.of(text, name, **more)
    assert said in str(caught.value)


def test_a_signal_that_is_not_there() -> None:
    rig = PolicyRig.of(OPEN.replace("GUARD", ""), "p")
    with pytest.raises(WrongPolicy, match=r"no signal is called `high\.wait_p9` did you mean `high\.wait_p99`\?"):
        rig.set("high.wait_p9", "3ms")


STEP = st.tuples(
    st.sampled_from(["gpu.busy", "high.wait_p99", "high.launch_rate"]),
    st.one_of(st.none(), st.integers(0, 100)),
    st.integers(1, 40),
)


def scaled(signal: str, number: int | None) -> Any:
    """A value that matters to the rules above."""
    if number is None:
        return None
    return {"gpu.busy": number / 100, "high.wait_p99": number / 25_000, "high.launch_rate": number * 10.0}[signal]


@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=30))
def test_for_any_trace_a_guard_never_loosens(steps: list[tuple[str, int | None, int]]) -> None:
    free, guarded = (PolicyRig.of(OPEN.replace("GUARD", text), "p") for text in ("", GUARD))
    for signal, number, ticks in steps:
        for rig in (free, guarded):
            rig.set(signal, scaled(signal, number))
            rig.advance(ticks * 0.005)
        for name, value in free.knobs().items():
            if isinstance(value, bool):
                assert guarded.knob(name) >= value if name != "low.admit" else guarded.knob(name) <= value
            elif isinstance(value, int | float):
                assert guarded.knob(name) <= value


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=20))
def test_for_any_trace_skipping_ticks_changes_nothing(steps: list[tuple[str, int | None, int]]) -> None:
    skipping, dense = (PolicyRig.of(OPEN.replace("GUARD", GUARD), "p", dense=dense) for dense in (False, True))
    for signal, number, ticks in steps:
        for rig in (skipping, dense):
            rig.set(signal, scaled(signal, number))
            rig.advance(ticks * 0.0173)
        assert skipping.knobs() == dense.knobs()
        assert skipping.simulation.lets() == dense.simulation.lets()
    assert skipping.simulation.ticks <= dense.simulation.ticks
