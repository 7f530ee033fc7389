"""A harness for functions of plugins: `check_operator(function)` in your own tests. Needs hypothesis."""

import math
from typing import Any

from gpud.policies.plugins.declare import Argument, Function
from gpud.policies.types import Type

LONGEST_RUN = 200
MOST_STATE = 64 * 1024
"""Characters of the state's repr: more after any run counts as unbounded."""


def check_operator(function: Function, *, examples: int = 100) -> None:
    """Runs it over random arguments and times.

    Raises AssertionError with the smallest run that shows what is wrong: it raises, its result is not of its type or
    not finite, two runs differ, a step changes the state it was given, the state grows without bound.
    """
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    arguments = st.fixed_dictionaries({p.name: _values(p) for p in function.parameters})
    steps = st.lists(st.tuples(st.integers(0, 10_000_000_000), arguments), min_size=1, max_size=LONGEST_RUN)

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        report_multiple_bugs=False,
    )
    @given(steps)
    def run(trace: list[tuple[int, dict[str, Any]]]) -> None:
        first, second = _run(function, trace), _run(function, trace)
        assert repr(first) == repr(second), f"{function.name}: two runs over the same inputs differ"

    run()


def _run(function: Function, trace: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    state, now, values = function.init(), 0, []
    for after, arguments in trace:
        now += after
        before = repr(state)
        kept = state
        state, value = function.step(state, dict(arguments), now)
        assert repr(kept) == before, f"{function.name}: a step changed the state it was given; return a new one"
        assert _is(function.result, value), f"{function.name}: {value!r} is not {function.result.value}"
        assert len(repr(state)) <= MOST_STATE, f"{function.name}: its state grows without bound"
        values.append(value)
    return values


def _is(kind: Type, value: Any) -> bool:
    if kind is Type.BOOL:
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _values(parameter: Argument) -> Any:
    from hypothesis import strategies as st

    if parameter.type is Type.BOOL:
        return st.booleans()
    if parameter.type in (Type.DURATION, Type.BYTES):
        return st.integers(0, 2**50)
    return st.floats(0, 1e9, allow_nan=False) | st.integers(0, 10**6)
