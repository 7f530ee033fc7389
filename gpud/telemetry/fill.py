"""How full traces are. Jobs under one caller share its trace, so spans are counted by trace, not by job. Pure."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from attrs import define

MOST_SPANS = 5_000
"""Of one trace, as far as gpud makes them; then others follow, linked to it."""
RESERVE = 10
"""What one record makes at most, with the segment's own."""
REMEMBERED = 1_024
"""So many traces stay counted after the last job in them has ended."""


@define(eq=False)
class Trace:
    """One trace and what is in it."""

    id: str
    count: int = 0
    """Spans."""
    open: int = 0
    """Segments that go on and will end in it. Each has room kept: what is full is so before anybody is cut off."""

    def is_full(self, more: int = 0) -> bool:
        """Is there no room for so many more spans?"""
        return self.count + more + RESERVE * self.open >= MOST_SPANS


class Traces:
    """All that jobs are in, and the last ones that they were in."""

    def __init__(self) -> None:
        self._all: WeakValueDictionary[str, Trace] = WeakValueDictionary()
        self._last: OrderedDict[str, Trace] = OrderedDict()

    def of(self, trace_id: str) -> Trace:
        trace = self._all.get(trace_id)
        if trace is None:
            trace = self._all[trace_id] = Trace(trace_id)
        self._last[trace_id] = trace
        self._last.move_to_end(trace_id)
        if len(self._last) > REMEMBERED:
            self._last.popitem(last=False)
        return trace
