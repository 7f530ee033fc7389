"""One span, as it is sent and kept: plain data. Ids are hex, times are Unix time in nanoseconds."""

from collections.abc import Callable, Mapping

from attrs import frozen

Value = str | int | float | bool


@frozen(kw_only=True)
class Link:
    """To another span."""

    trace_id: str
    span_id: str
    kind: str
    """`previous`, `waited_for`, `victim`, `beneficiary`, `job`, `caller`."""


@frozen(kw_only=True)
class SpanRecord:
    """One span that is over."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """"": none."""
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    links: tuple[Link, ...] = ()
    error: str = ""
    """What went wrong; "": nothing did."""
    remote: bool = False
    """The parent is not of this daemon."""


Put = Callable[[SpanRecord], None]
"""Takes a span. Never waits."""
