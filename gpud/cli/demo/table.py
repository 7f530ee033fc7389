"""The demo's table, what is possible at all, and the JSON line."""

import json
import math
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpud.cli.demo.figures import MOST_NULL, Possible, RunFigures, percentile
from gpud.cli.demo.runner import Outcome
from gpud.cli.demo.runs import KERNELS, RUNS

ROWS = {
    "alone": "serving alone",
    "shared": "both, without gpud",
    "preempt-mix": "both, preempt-mix",
    "short-alone": "1 ms requests alone",
    "short-mix": "1 ms, preempt-mix",
}
WIDE = 105
"""Columns of a terminal from which the wall times are shown too."""


def label_of(outcome: Outcome) -> str:
    """Where the figures are from; stands beside them wherever they are shown."""
    if not outcome.simulated:
        return "real GPU; times by the programs' own clocks; GPU busy estimated from the kernels' lengths"
    where = f"simulated, profile {outcome.profile}, time scale {outcome.time_scale:g}"
    return f"{where}; times are model time unless called wall"


def show(console: Console, outcome: Outcome, label: str) -> None:
    """Prints the table and what belongs to it."""
    wide = console.width >= WIDE
    table = Table(
        title=escape(label),
        title_justify="left",
        title_style="italic",
        box=box.SIMPLE_HEAD,
        padding=(0, int(wide), 0, 0),
    )
    table.add_column("\nrun", no_wrap=True)
    for column in ("serving\nrequests", "\np50 ms", "×\nalone", "\np99 ms", "×\nalone"):
        table.add_column(column, justify="right", no_wrap=True)
    if wide:
        table.add_column("wall\np50/p99 ms", justify="right", no_wrap=True)
    for column in ("training\nsteps/s", "GPU\nbusy"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("\ncorrect")
    for name, words in ROWS.items():
        if name in outcome.runs:
            base = outcome.runs["short-alone" if name.startswith("short") else "alone"]
            table.add_row(words, *_cells(outcome.runs[name], base, wide=wide), end_section=name == "preempt-mix")
    console.print(table)
    for line in _notes(outcome):
        console.print(escape(line))
    for doubt in outcome.doubts:
        console.print(f"[bold]not valid as a measurement[/bold]: {escape(doubt)}")


def _notes(outcome: Outcome) -> list[str]:
    lines = []
    limits = outcome.limits
    if limits is not None:
        lines += [
            f"what is possible at all: serving alone leaves {limits.idle:.0%} of the time; training can have "
            f"e^(−λ·resume_after) of that (λ: arrivals per second), {limits.training_steps_per_s:.1f} steps/s. "
            f"It had {_reached(outcome, limits):.0%} of what is possible.",
            f"a kernel that already runs is not passed: a request may wait {limits.delay_ms:.2f} ms (training's window "
            "and the context switches before and after it).",
            f"the 1 ms rows show what that costs where it is not small: {short_terms()}.",
        ]
    if outcome.null is not None:
        alone = outcome.runs["alone"]
        lines.append(
            f"null contender (training on another device): p50 {outcome.null.p50_ms / alone.p50_ms:.2f}, "
            f"p99 {outcome.null.p99_ms / alone.p99_ms:.2f} × alone (valid up to {MOST_NULL})"
        )
    if outcome.simulated:
        worst = max(run.overrun for run in outcome.runs.values())
        lines.append(
            f"kernels not computed in time (overruns): {worst:.2%} of device time in the worst run (valid up to 1 %)"
        )
    return lines


def short_terms() -> str:
    """What differs in the rows with short requests."""
    run = next(run for run in RUNS if run.short)
    kernels = f"{KERNELS} kernels × {run.kernel_ms:g} ms, mean gap {run.gap_ms:g} ms"
    return f"{kernels}, time scale {run.time_scale:g} where it is simulated"


def _reached(outcome: Outcome, limits: Possible) -> float:
    """Training's steps under preempt-mix as a share of what is possible."""
    return (outcome.runs["preempt-mix"].training_steps_per_s or 0.0) / limits.training_steps_per_s


def _cells(run: RunFigures, base: RunFigures, *, wide: bool) -> list[str]:
    wall = [f"{percentile(run.wall_ms, 50):.1f} / {percentile(run.wall_ms, 99):.1f}"] if wide else []
    return [
        str(len(run.samples)),
        f"{run.p50_ms:.2f}",
        f"{run.p50_ms / base.p50_ms:.2f}",
        f"{run.p99_ms:.2f}",
        f"{run.p99_ms / base.p99_ms:.2f}",
        *wall,
        "–" if run.training_steps_per_s is None else f"{run.training_steps_per_s:.1f}",
        "–" if run.gpu_busy is None else f"{run.gpu_busy:.0%}",
        "yes" if run.correct else "NO",
    ]


def as_json(outcome: Outcome, picture: str) -> str:
    """One line of JSON; see docs/cli.md for its keys."""
    limits, null, alone = outcome.limits, outcome.null, outcome.runs["alone"]
    short = {name: run for name, run in outcome.runs.items() if name.startswith("short")}
    return json.dumps(
        {
            "device": outcome.device,
            "profile": outcome.profile,
            "simulated": outcome.simulated,
            "time_scale": outcome.time_scale,
            "valid": not outcome.doubts,
            "why_not_valid": outcome.doubts,
            "picture": picture,
            "runs": {name: _run(run) for name, run in outcome.runs.items() if name not in short},
            "short_requests": {
                name.replace("short-mix", "preempt-mix").removeprefix("short-"): _run(run)
                for name, run in short.items()
            },
            "null_contender": null and _round(max(null.p50_ms / alone.p50_ms, null.p99_ms / alone.p99_ms)),
            "training_of_possible": limits and _round(_reached(outcome, limits)),
            "possible": limits
            and {
                "idle": _round(limits.idle),
                "training_steps_per_s": _round(limits.training_steps_per_s),
                "serving_delay_ms": _round(limits.delay_ms),
            },
        }
    )


def _run(run: RunFigures) -> dict[str, Any]:
    return {
        "serving_p50_ms": _round(run.p50_ms),
        "serving_p99_ms": _round(run.p99_ms),
        "serving_requests": len(run.samples),
        "training_steps_per_s": _round(run.training_steps_per_s),
        "gpu_busy": _round(run.gpu_busy),
        "correct": run.correct,
        "serving_wall_p50_ms": _round(percentile(run.wall_ms, 50)),
        "serving_wall_p99_ms": _round(percentile(run.wall_ms, 99)),
        "overrun": _round(run.overrun),
    }


def _round(value: float | None) -> float | None:
    """Six digits; null where there is no figure."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
