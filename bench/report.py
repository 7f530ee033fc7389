"""What every bench prints: a readable table, and as the last line one JSON object."""

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Literal

import attrs


@attrs.frozen(kw_only=True)
class Row:
    """One figure. `value` is the median of `runs` runs unless the name says otherwise."""

    name: str
    value: float
    unit: str
    target: float | None = None
    """What it should reach; None for a contrast or a figure that is only shown."""
    better: Literal["lower", "higher"] = "lower"
    runs: int = 1
    spread: tuple[float, float] | None = None
    """Smallest and largest run."""

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without a target."""
        if self.target is None:
            return None
        return self.value <= self.target if self.better == "lower" else self.value >= self.target


def row_of_runs(
    name: str,
    values: Sequence[float],
    unit: str,
    target: float | None = None,
    better: Literal["lower", "higher"] = "lower",
) -> Row:
    """The median of several runs as a row, with its spread."""
    return Row(
        name=name,
        value=statistics.median(values),
        unit=unit,
        target=target,
        better=better,
        runs=len(values),
        spread=(min(values), max(values)),
    )


def arguments(description: str, *, quick: bool = False) -> argparse.ArgumentParser:
    """A parser with the options that every bench has. `quick`: it can do with a look."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print the result as JSON on the last line")
    if quick:
        parser.add_argument(
            "--quick", action="store_true", help="a rehearsal: everything once and short, no measurement"
        )
    return parser


def emit(bench: str, device: str, rows: Sequence[Row], as_json: bool, *, rehearsal: bool = False) -> None:
    """Prints the table, and the JSON line if asked. `device` says "simulated, profile X" where it is. A rehearsal meets
    no target and misses none: it is too short."""
    if rehearsal:
        device, rows = f"{device}; a rehearsal, no measurement", [attrs.evolve(row, target=None) for row in rows]
    print(f"{bench} · {device}")
    width = max(len(row.name) for row in rows)
    for row in rows:
        spread = f"  [{row.spread[0]:.4g} … {row.spread[1]:.4g}, {row.runs} runs]" if row.spread else ""
        sign = "≤" if row.better == "lower" else "≥"
        verdict = "" if row.met is None else f"  target {sign} {row.target:g}: {'met' if row.met else 'NOT MET'}"
        print(f"  {row.name:<{width}}  {row.value:>10.4g} {row.unit}{spread}{verdict}")
    if as_json:
        fields = ("name", "value", "unit", "target", "better")
        rendered = [{field: getattr(row, field) for field in fields} for row in rows]
        print(json.dumps({"bench": bench, "device": device, "rows": rendered}))
