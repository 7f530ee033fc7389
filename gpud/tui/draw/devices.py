"""A line for each device: sparkline, utilisation, memory, power, temperature, who has it."""

from gpud.model.live_views import DeviceRow
from gpud.tui.draw.bars import bar, sparkline
from gpud.tui.draw.view import View
from gpud.tui.model import NodeModel
from gpud.tui.text import Line, Span, amount, clean, fit, line_of, percent, rule, span_of_time
from gpud.tui.words import job_title

HOT_C = 83.0
"""Above this, a device's temperature is worth a colour."""


def device_lines(view: View, width: int, height: int) -> list[Line]:
    """A title, and a line for each device; what does not fit is counted."""
    rows = view.devices()
    shown = rows if len(rows) < height else rows[: max(height - 2, 0)]
    lines = [rule("devices", width), *(_device(row, view.model, width) for row in shown)]
    if not rows:
        lines.append(line_of([Span("  no device", "dim")], width))
    elif len(shown) < len(rows):
        lines.append(line_of([Span(f"  … {len(rows) - len(shown)} more: g looks at one", "dim")], width))
    return lines[:height]


def _device(row: DeviceRow, model: NodeModel, width: int) -> Line:
    wide = width >= 100
    spare = max(width - (100 if wide else 78), 0)
    used = model.utilisation(row)
    spans = [
        Span(f" {'–' if row.slot is None else row.slot:>2} ", "strong"),
        Span(fit(short_name(row), 18 if wide else 9) + " ", "dim"),
        Span(sparkline(model.device_history(row, min(8 + spare // 2, 60))), "bar"),
        Span(fit(percent(used), 5, ">") + "  ", "" if used else "dim"),
        *_memory(row, min(6 + spare // 4, 24)),
        Span(fit(f"{amount(row.used_bytes)}/{amount(row.total_bytes)}", 11, ">")),
        Span(fit("–" if row.temperature_c is None else f"{row.temperature_c:.0f}°C", 6, ">"), _heat(row)),
    ]
    if wide:
        spans.append(Span(fit("–" if row.power_w is None else f"{row.power_w:.0f}W", 6, ">"), "dim"))
    spans += [Span("  "), *_holder(row, model, " left" if wide else "")]
    if row.notes and wide:
        spans.append(Span("  ! " + clean(row.notes[0]), "warn"))
    return line_of(spans, width)


def short_name(row: DeviceRow) -> str:
    """Without what says nothing."""
    return clean(row.name).removeprefix("NVIDIA ").removeprefix("gpud simulated ")


def _heat(row: DeviceRow) -> str:
    return "bad" if row.temperature_c is not None and row.temperature_c >= HOT_C else "dim"


def _memory(row: DeviceRow, width: int) -> list[Span]:
    if not row.total_bytes or row.used_bytes is None:
        return bar(None, width)
    used = row.used_bytes / row.total_bytes
    return bar(used, width, "warn" if used >= 0.95 else "bar", more=row.reserved_bytes / row.total_bytes)


def _holder(row: DeviceRow, model: NodeModel, left: str) -> list[Span]:
    spans: list[Span] = []
    if row.holder is not None:
        spans.append(Span(job_title(row.holder, model), "good"))
        if row.holder_until_at_ns is not None and row.waiters:
            spans.append(Span(f" {span_of_time(row.holder_until_at_ns - model.at_ns)}{left}", "dim"))
    if row.waiters:
        spans.append(Span(f"  {row.waiters} wait", "warn"))
    if row.unmanaged:
        spans.append(Span(f"  {row.unmanaged} unmanaged", "warn"))
    if not spans:
        spans.append(Span(clean(row.arbiter), "dim"))
    return spans
