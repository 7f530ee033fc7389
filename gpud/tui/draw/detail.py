"""All that is known of one job, for the pane beside or below the table."""

from gpud.model.live_views import JobRow
from gpud.tui.actions import named
from gpud.tui.columns import slots
from gpud.tui.draw.bars import bar, sparkline
from gpud.tui.draw.decisions import decision_line
from gpud.tui.draw.view import View
from gpud.tui.model import NodeModel
from gpud.tui.text import (
    Line,
    Span,
    amount,
    clean,
    line_of,
    moment,
    percent,
    rate,
    rule,
    span_of_time,
    wrap,
)
from gpud.tui.words import ROLE_OF_STATE, state_of, swap_in_short, why_parts

_LABEL = 10


def detail_lines(view: View, width: int, height: int) -> list[Line]:
    """Of the job under the cursor; what matters most first, for what is below is cut."""
    job = view.model.job(view.cursor) if view.cursor is not None else None
    if job is None:
        return [rule("job", width), line_of([Span("  no job is chosen", "dim")], width)][:height]
    lines = [rule(f"job #{job.id} {clean(job.name)}", width)]
    lines += _state(job, view.model, width)
    lines += _why(job, view.model, width)
    lines += _figures(job, view.model, width)
    lines += _origin(job, width)
    lines += _journal(job, view.model, width, height - len(lines))
    return lines[:height]


def _pair(label: str, spans: list[Span], width: int) -> Line:
    return line_of([Span(f" {label:<{_LABEL}}", "dim"), *spans], width)


def _texts(label: str, text: str, width: int, most: int, role: str = "") -> list[Line]:
    parts = wrap(clean(text), width - _LABEL - 2, most)
    return [_pair(label if not at else "", [Span(part, role)], width) for at, part in enumerate(parts)]


def _state(job: JobRow, model: NodeModel, width: int) -> list[Line]:
    word = state_of(job, model)
    spans = [Span(clean(word), ROLE_OF_STATE.get(word, "")), Span(f"  {clean(job.job_class) or 'no class'}")]
    if job.pinned:
        spans.append(Span(" (pinned)", "note"))
    spans.append(Span(f"  gpu {slots(job.devices)}", "dim"))
    if job.turn:
        spans.append(Span("  has its turn", "good"))
    lines = [_pair("state", spans, width)]
    if job.paused_by:
        lines.append(_pair("paused by", [Span(clean(job.paused_by), "note")], width))
    if job.tags:
        lines += _texts("remarks", ", ".join(job.tags), width, 2, "warn")
    return lines


def _why(job: JobRow, model: NodeModel, width: int) -> list[Line]:
    lines: list[Line] = []
    if job.why is not None:
        parts = [Span(clean(job.why.code), "warn"), *(Span(f"  {part}") for part in why_parts(job.why, model))]
        lines.append(_pair("why", parts, width))
        lines += _texts("", job.why.text, width, 3)
        if job.why.by:
            lines.append(_pair("", [Span(clean(job.why.by), "key")], width))
    if job.swap is not None:
        swap = job.swap
        ratio = swap.done_bytes / swap.total_bytes if swap.total_bytes else 1.0
        lines.append(_pair("swap", [*bar(ratio, max(min(width - 60, 30), 10), "note"), Span(" ")], width))
        lines += _texts("", f"gpu {swap.device}: {swap_in_short(swap, model.at_ns)}", width, 2)
    return lines


def _figures(job: JobRow, model: NodeModel, width: int) -> list[Line]:
    cells = max(min(width - _LABEL - 22, 60), 8)
    gpu = [
        Span(sparkline(model.job_history(job.id, cells)), "bar"),
        Span(f" {percent(model.gpu(job)):>4}"),
        Span(f"  {span_of_time(job.spent_ns)} in all", "dim"),
    ]
    memory = [Span(amount(job.used_bytes))]
    memory.append(Span(f" of {amount(job.limit_bytes)}" if job.limit_bytes is not None else " no limit", "dim"))
    memory.append(Span(f"  {amount(job.resident_bytes)} swappable there, {amount(job.host_bytes)} on the host", "dim"))
    launches = [
        Span(rate(model.launches(job))),
        Span(f"/s  {job.launches:,} in all  held {job.held:,} times, {span_of_time(job.held_ns)}", "dim"),
    ]
    lines = [_pair("gpu time", gpu, width), _pair("memory", memory, width), _pair("launches", launches, width)]
    if job.share is not None or job.limit is not None:
        share = [Span(f"{percent(job.share)}"), Span(f"  at most {percent(job.limit)}" if job.limit else "", "dim")]
        lines.append(_pair("share", share, width))
    return lines


def _origin(job: JobRow, width: int) -> list[Line]:
    lines = _texts("processes", named(job).partition("  ")[2], width, 2)
    lines += _texts("command", job.command, width, 3, "dim")
    if job.labels:
        lines += _texts("labels", " ".join(f"{key}={value}" for key, value in job.labels), width, 2)
    lines.append(_pair("began", [Span(moment(job.began_at_ns), "dim")], width))
    if job.trace:
        lines.append(_pair("trace", [Span(clean(job.trace), "key"), Span("  x copies it", "dim")], width))
    return lines


def _journal(job: JobRow, model: NodeModel, width: int, room: int) -> list[Line]:
    """The last decisions about it."""
    if room < 3:
        return []
    own = [one for one in model.decisions if one.job == job.id][-(room - 2) :]
    if not own:
        return []
    return [Line(), *(decision_line(one, width) for one in reversed(own))]
