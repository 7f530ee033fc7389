"""How two values of a knob meet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.combine import is_tighter, meet
from gpud.policies.rounding import round_knob
from gpud.policies.schema import KNOBS
from gpud.policies.values import RESIDENCIES

UNLIMITED = float("inf")

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
