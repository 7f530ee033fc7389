"""What is said to be enforced is, and nothing else."""

from gpud.engine import in_force, signals
from gpud.engine.enforced import ENFORCED
from gpud.policies.schema import KNOBS


def test_knobs_are_those_that_pages_can_say() -> None:
    assert set(in_force.ENFORCED) == ENFORCED.knobs
    assert set(KNOBS) >= ENFORCED.knobs


def test_signals_are_those_that_are_measured() -> None:
    of_class = {name for scope, name in ENFORCED.signals if scope == "class"}
    assert of_class == {*signals._MEASURES, "idle_for", "tenants"}
    assert {*signals._MEASURES, "idle_for"} == ENFORCED.tenant_signals


def test_everything_else_is_refused_by_name() -> None:
    """test_signals.py and test_standing.py show that what is left acts."""
    assert ENFORCED.arbiters == {"open", "preempt"}
    assert ENFORCED.class_settings == frozenset()
    assert ENFORCED.settings == {
        ("arbitrate", "preempt"): {"order", "resume_after", "max_inflight", "max_pause"},
        ("failsafe", ""): {"daemon_lost", "after"},
    }
    assert not ENFORCED.actuators
