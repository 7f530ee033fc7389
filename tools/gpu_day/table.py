"""The Markdown file: a table of steps, a table of figures for each bench, then what went wrong."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpu_day.model import Outcome


def markdown(head: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """All of it, as text."""
    counts = [
        f"{count} {state}"
        for state in ("passed", "failed", "timed out", "skipped")
        if (count := sum(outcome.state == state for outcome in outcomes))
    ]
    lines = [
        "# A day with a GPU" + (": rehearsal, **simulated**" if head.get("simulated") else ""),
        "",
        f"{', '.join(counts) or 'nothing was run'}; {head.get('took_s', 0):.0f} of {head.get('budget_s', 0):.0f} s.",
        "",
        *_facts(head.get("machine", {})),
        "",
        *_rows(("step", "", "s", "tests", ""), [_step(outcome) for outcome in outcomes]),
    ]
    for outcome in outcomes:
        if outcome.rows:
            lines += [
                "",
                f"## Figures of {outcome.name}",
                "",
                f"{outcome.words[:1].upper()}{outcome.words[1:]}. On: {outcome.device}.",
                "",
            ]
            lines += _rows(("row", "value", "target", ""), [_figure(row) for row in outcome.rows])
    for outcome in outcomes:
        lines += _trouble(outcome)
    return "\n".join(lines) + "\n"


def _facts(machine: Mapping[str, Any]) -> list[str]:
    return [f"- {name}: {_text(value)}" for name, value in machine.items()]


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {what}" for name, what in value.items())
    return str(value)


def _step(outcome: Outcome) -> tuple[str, ...]:
    tests = outcome.tests
    counted = f"{tests['passed']}/{tests['passed'] + len(tests['failed'])}" if tests else ""
    if tests and tests["skipped"]:
        counted += f", {len(tests['skipped'])} skipped"
    said = f": {outcome.said}" if outcome.said else ""
    state = f"passed{said}" if outcome.state == "passed" else f"**{outcome.state}**: {outcome.why}"
    return (f"`{outcome.name}`", outcome.words, f"{outcome.took_s:.0f}", counted, state)


def _figure(row: Mapping[str, Any]) -> tuple[str, ...]:
    target = row.get("target")
    lower = row.get("better", "lower") == "lower"
    value = row["value"]
    met = ""
    if isinstance(target, int | float):
        met = "met" if (value <= target if lower else value >= target) else "**missed**"
    return (
        f"`{row['name']}`",
        f"{value:.4g} {row.get('unit', '')}".rstrip(),
        "" if target is None else f"{'≤' if lower else '≥'} {target:g}",
        met,
    )


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table. A bar within a cell would end it."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [f"| {' | '.join(cell.replace('|', '∣').replace(chr(10), ' ') for cell in line)} |" for line in lines]


def _trouble(outcome: Outcome) -> list[str]:
    """What did not pass, with its tests and the end of its output; tests that were left out."""
    lines: list[str] = []
    for name, message in outcome.tests.get("failed", {}).items():
        lines.append(f"- `{name}`: {' '.join(message.split())}")
    for name, reason in outcome.tests.get("skipped", {}).items():
        lines.append(f"- `{name}` skipped: {' '.join(reason.split())}")
    lines += [f"- left running: `{name}`" for name in outcome.left]
    if outcome.state in ("failed", "timed out") and outcome.tail:
        fence = "```" if "```" not in outcome.tail else "~~~~"
        lines += ["", fence, outcome.tail, fence]
    return ["", f"## {outcome.name}: {outcome.state}", "", *lines] if lines else []
