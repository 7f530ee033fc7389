"""Values as pages keep them, so that two runs write identical pages: rates in 1/s, bandwidth in B/s, durations in 1 µs,
GPU time in whole percent, counts whole. Half goes up; nothing goes below the least that makes sense.

Rounding never turns two values around, so it does not matter whether they meet before or after it.
"""

from collections.abc import Callable
from typing import Any

from gpud.policies.schema import KNOBS
from gpud.policies.types import Type

_EXACT = float(1 << 53)
"""From here on floats are whole anyway (and `unlimited` stays)."""


def whole_float(value: float) -> float:
    """A rate or a bandwidth."""
    return (value + 0.5) // 1.0 if 0.0 < value < _EXACT else float(value) if value > 0 else 0.0


def whole_percent(value: float) -> float:
    return (value * 100.0 + 0.5) // 1.0 / 100.0 if 0.0 < value < _EXACT else float(value) if value > 0 else 0.0


def whole(value: float) -> float:
    """A count, at least 1."""
    return int((value + 0.5) // 1) if 1.0 < value < _EXACT else value if value > 1 else 1


def microseconds(value: float) -> float:
    """Nanoseconds in whole microseconds, at least one."""
    return int((value + 500) // 1000) * 1000 if 1000 < value < _EXACT else value if value > 1000 else 1000


def whole_bytes(value: float) -> float:
    return int((value + 0.5) // 1) if 0 < value < _EXACT else value if value > 0 else 0


_BY_TYPE: dict[Type, Callable[[float], float]] = {
    Type.RATE: whole_float,
    Type.BANDWIDTH: whole_float,
    Type.RATIO: whole_percent,
    Type.NUMBER: whole,
    Type.DURATION: microseconds,
    Type.BYTES: whole_bytes,
}


def rounding_of(knob: str) -> Callable[[float], float] | None:
    """How a knob's value is rounded; None: it has nothing to round."""
    return _BY_TYPE.get(KNOBS[knob].type) if knob in KNOBS else None


def round_knob(knob: str, value: Any) -> Any:
    """The value as a page keeps it."""
    rounding = rounding_of(knob)
    return value if rounding is None else rounding(value)
