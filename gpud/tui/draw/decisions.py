"""Decisions as lines: each of as many as its sentence needs."""

from functools import lru_cache

from gpud.model.live_views import Decision
from gpud.tui.model import DECISIONS, NodeModel
from gpud.tui.text import Line, Span, clean, clock, fit, line_of, width_of, wrap

_HEAD = 46
"""Cells of time, kind, device and job."""
_LEAST = 24
"""Cells of a sentence beside its head; where there are fewer, it stands below."""
_BELOW = 14
_MOST = 4
"""Lines of a sentence."""


def decision_line(one: Decision, width: int) -> Line:
    """In one line, cut where it must be, of a job that is known."""
    return line_of([*_when(one), Span(clean(one.text), _role(one)), *_by(clean(one.by))], width)


def decision_lines(one: Decision, model: NodeModel, width: int, over: str = "") -> list[Line]:
    """Time, kind, device, job, sentence, place."""
    job = model.job(one.job) if one.job is not None else None
    name = f"#{one.job} {clean(job.name)[:12]}" if job else f"#{one.job}" if one.job is not None else ""
    device = "" if one.device is None else str(one.device)
    spans = [*_when(one), Span(f"{device:>2} ", "strong"), Span(fit(name, _HEAD - 28) + " ")]
    lines = []
    indent = _indent(width)
    for text, by in _sentence(one.text, one.by, width - indent):
        if indent < _HEAD and spans:
            lines.append(line_of(spans, width, over))
            spans = []
        lines.append(line_of([*(spans or [Span(" " * indent)]), Span(text, _role(one)), *_by(by)], width, over))
        spans = []
    return lines or [line_of(spans, width, over)]


def count_of(one: Decision, width: int) -> int:
    """How many lines that are."""
    return max(len(_sentence(one.text, one.by, width - _indent(width))) + (_indent(width) < _HEAD), 1)


def _indent(width: int) -> int:
    return _HEAD if width - _HEAD >= _LEAST else min(_BELOW, width - _LEAST)


def _role(one: Decision) -> str:
    return "warn" if one.level == "warning" else ""


def _when(one: Decision) -> list[Span]:
    return [
        Span(f" {clock(one.at_ns)}.{one.at_ns // 10**6 % 1000:03} ", "dim"),
        Span(f"{clean(one.kind)[:9]:<9} ", _role(one) or "key"),
    ]


def _by(by: str) -> list[Span]:
    return [Span(f"  {by}", "dim")] if by else []


@lru_cache(2 * DECISIONS)
def _sentence(text: str, by: str, width: int) -> tuple[tuple[str, str], ...]:
    """(text, place) of each line; the place stands behind the last one, where it has room there."""
    lines = [(part, "") for part in wrap(clean(text), width, _MOST)] or [("", "")]
    by = clean(by)
    if by and width_of(lines[-1][0]) + 2 + width_of(by) <= width:
        lines[-1] = lines[-1][0], by
    return tuple(lines)
