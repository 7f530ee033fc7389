"""Knobs and signals over time: what `sim` draws."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from attrs import define, field, frozen

from gpud.policies.schema import UNLIMITED
from gpud.policies.types import Type
from gpud.policies.values import RESIDENCIES

WORDS = frozenset({Type.SHARE, Type.TEXT, Type.CLASS, Type.CHOICE})
"""Types without an order: drawn as words."""


@define
class Series:
    """One of them. A value holds until the next; None is missing."""

    name: str
    type: Type
    kind: str
    """`knob`, `signal`, `let`, `gate`."""
    times: list[int] = field(factory=list)
    """Nanoseconds from the beginning, rising."""
    values: list[Any] = field(factory=list)

    def add(self, t_ns: int, value: Any) -> None:
        """Keeps it if it is another than the last; a later word about one moment replaces the earlier."""
        if self.times and self.times[-1] == t_ns:
            self.times.pop()
            self.values.pop()
        if not self.values or self.values[-1] != value or (value is None) != (self.values[-1] is None):
            self.times.append(t_ns)
            self.values.append(value)

    def at(self, t_ns: int) -> Any:
        """The value then; None before the first."""
        index = bisect_right(self.times, t_ns) - 1
        return self.values[index] if index >= 0 else None

    def pieces(self, end_ns: int) -> Iterator[tuple[int, int, Any]]:
        """(from, to, value), missing ones too."""
        for index, value in enumerate(self.values):
            until = self.times[index + 1] if index + 1 < len(self.times) else end_ns
            if self.times[index] <= end_ns:
                yield self.times[index], min(until, end_ns), value


@frozen(kw_only=True)
class Recording:
    """A simulated run."""

    title: str
    end_ns: int
    series: tuple[Series, ...]
    notes: tuple[str, ...] = ()
    """What else is to be said: a test that failed, a trace that ended early."""


def height(value: Any, type: Type) -> float | None:
    """A value as a number to be drawn; inf for unlimited; None where there is none."""
    if value is None or type in WORDS:
        return None
    if type is Type.RESIDENCY:
        return float(RESIDENCIES.index(value))
    return float(value)


def top_of(series: Series) -> float:
    """The highest finite value, at least the type's natural one."""
    least = {Type.BOOL: 1.0, Type.RATIO: 1.0, Type.RESIDENCY: 2.0}.get(series.type, 0.0)
    heights = [height(value, series.type) for value in series.values]
    return max([least, *(found for found in heights if found is not None and found != UNLIMITED)])
