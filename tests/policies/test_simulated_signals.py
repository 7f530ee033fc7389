"""Signals that a test sets: what follows from what."""

from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.schema import SIGNALS, UNLIMITED
from gpud.policies.simulate.signals import RATES, Signals

S = 10**9


def alone() -> Signals:
    return Signals(("high", "low"), {})


def test_an_idle_class_is_idle_not_unknown() -> None:
    signals = alone()
    for (scope, name), row in SIGNALS.items():
        assert signals.read(f"{'low' if scope == 'class' else scope}.{name}", S) == row.idle
    assert signals.read("low.vllm.queue_depth", S) is None, "a plugin's signal is missing until it is set"


def test_active_and_idle_for_go_together() -> None:
    signals = alone()
    assert signals.read("low.idle_for", S) == UNLIMITED
    assert signals.set("low.active", True, S)
    assert not signals.set("low.active", True, 2 * S), "no edge"
    assert signals.read("low.idle_for", 3 * S) == 0
    assert signals.set("low.active", False, 5 * S)
    assert not signals.set("low.active", False, 6 * S)
    assert signals.read("low.idle_for", 9 * S) == 4 * S
    assert not signals.set("low.idle_for", 60 * S, 10 * S)
    assert signals.read("low.idle_for", 11 * S) == 61 * S
    assert signals.set("low.active", True, 12 * S)
    assert signals.set("low.idle_for", S, 13 * S), "who has been idle for a second is not active"
    assert signals.read("low.active", 13 * S) is False
    signals.set("low.idle_for", UNLIMITED, 14 * S)
    assert signals.read("low.idle_for", 15 * S) == UNLIMITED


def test_rates_make_active_until_a_test_does_so_itself() -> None:
    for rate in RATES:
        signals = alone()
        assert signals.set(f"low.{rate}", 1.0, S)
        assert signals.read("low.active", S) is True
        assert signals.set(f"low.{rate}", 0.0, 2 * S)
        assert signals.read("low.idle_for", 3 * S) == S
        signals.set("low.active", False, 4 * S)
        assert not signals.set(f"low.{rate}", 5.0, 5 * S)
        assert signals.read("low.active", 5 * S) is False


def test_one_rate_of_several_is_enough() -> None:
    signals = alone()
    signals.set("low.busy", 0.5, S)
    signals.set("low.launch_rate", 0.0, 2 * S)
    signals.set("low.copy_rate", None, 2 * S)
    assert signals.read("low.active", 2 * S) is True


def test_missing() -> None:
    signals = alone()
    signals.set("low.idle_for", None, S)
    assert signals.read("low.idle_for", S) is None
    assert signals.read("low.active", S) is False
    signals.set("low.active", True, 2 * S)
    assert signals.read("low.idle_for", 2 * S) == 0
    signals.set("low.active", None, 3 * S)
    assert (signals.read("low.active", 3 * S), signals.read("low.idle_for", 3 * S)) == (None, None)
    signals.set("low.active", False, 5 * S)
    assert signals.read("low.idle_for", 6 * S) == S
    signals.set("gpu.busy", None, S)
    assert signals.read("gpu.busy", S) is None


def test_members_together() -> None:
    signals = Signals(("high", "low"), {"a": "low", "b": "low"})
    assert signals.read("low.tenants", S) == 2
    assert signals.read("high.tenants", S) == 0
    signals.set("a.active", True, S)
    signals.set("b.active", False, S)
    assert signals.read("low.active", 2 * S) is True
    assert signals.read("low.idle_for", 2 * S) == 0
    signals.set("a.active", False, 3 * S)
    signals.set("b.active", None, 3 * S)
    assert signals.read("low.active", 4 * S) is None, "it may be the one"
    signals.set("b.active", True, 4 * S)
    signals.set("b.active", False, 5 * S)
    assert signals.read("low.idle_for", 6 * S) == S, "the least"
    for name, values, together in (
        ("launch_rate", (1.0, 2.0), 3.0), ("memory_used", (1, 2), 3), ("queued", (1, None), None),
        ("wait_p99", (3, 2), 3), ("longest_wait", (1, 2), 2),
    ):  # fmt: skip
        for member, value in zip("ab", values, strict=True):
            signals.set(f"{member}.{name}", value, 7 * S)
        assert signals.read(f"low.{name}", 7 * S) == together
    assert signals.read("high.idle_for", 7 * S) == UNLIMITED
    assert signals.is_joint("low.busy")
    assert not signals.is_joint("low.tenants")
    assert not signals.is_joint("high.busy")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["active", "idle_for", "busy", "launch_rate"]),
            st.integers(0, 3),
            st.integers(1, 5 * S),
        )
    )
)
def test_active_is_idle_for_zero_whatever_is_set(steps: list[tuple[str, int, int]]) -> None:
    signals = alone()
    now = S
    for name, number, later in steps:
        value = {"active": number > 1, "idle_for": number * S}.get(name, float(number))
        before = signals.read("low.active", now)
        edge = signals.set(f"low.{name}", value, now)
        assert edge is (signals.read("low.active", now) is not before)
        now += later
        idle_for = signals.read("low.idle_for", now)
        assert (idle_for == 0) is signals.read("low.active", now)
        assert signals.reader("low.idle_for")(now) == idle_for
