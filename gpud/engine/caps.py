"""What limits GPU time, launches, blocks and copies of tenants: `limit { compute }` of each, totals of units. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from gpud.engine import labels
from gpud.engine.board import Applied
from gpud.engine.state import Ran, Tenant
from gpud.engine.units import units_on
from gpud.model.errors import Refused
from gpud.model.levels import Total, TotalKind
from gpud.model.units import MILLISECOND
from gpud.policies.values import Choice

WINDOW_NS = 100 * MILLISECOND
"""What a unit does not use of its total of GPU time is kept this long. (`busy` is measured over the same time.)"""
RATE_WINDOW_NS = 10 * MILLISECOND
"""Of launches, blocks and copies."""
_PPM = 1_000_000

TOTALS: dict[str, tuple[TotalKind, int]] = {
    "max_compute": (TotalKind.COMPUTE, _PPM),
    "max_launch_rate": (TotalKind.LAUNCHES, 1000),
    "max_block_rate": (TotalKind.BLOCKS, 1000),
    "max_copy_rate": (TotalKind.COPIES, 1),
}
"""Knob → what it is a total of, and how many of the page's units one of the language's is."""


def limits_of(applied: Sequence[Applied], tenant: Tenant) -> tuple[int | None, int | None]:
    """(hard, soft) limit of a tenant's own GPU time in millionths of a device, by the tightest policy; None: none."""
    hard: list[int] = []
    soft: list[int] = []
    for one in applied:
        value = _limit(one, tenant)
        into, ratio = (soft, value.argument) if isinstance(value, Choice) else (hard, value)
        if isinstance(ratio, int | float) and ratio < math.inf:
            into.append(max(round(ratio * _PPM), 1))
    return min(hard, default=None), min(soft, default=None)


def _limit(applied: Applied, tenant: Tenant) -> Any:
    name = tenant.placed[applied.program.digest].job_class
    if name is None:
        return None
    job_class = applied.program.ir.class_named(name)
    try:
        return labels.limits(job_class, tenant.labels).get("compute")
    except Refused:  # it was let in by other policies: a label that cannot be read counts as none
        return labels.limits(job_class, {}).get("compute")


def totals_of(applied: Applied, ran: Ran, tenants: Sequence[Tenant]) -> list[Total]:
    """What one policy says now of the units that these tenants are in."""
    found: list[Total] = []
    if not ran.knobs.values:
        return found
    for unit in units_on(applied, tenants):
        for knob, (kind, scale) in TOTALS.items():
            index = applied.knobs.get((unit.job_class, knob)) if unit.job_class is not None else None
            value = ran.knobs.values[index] if index is not None else None
            if value is None or value == math.inf:
                continue
            found.append(
                Total(
                    key=(unit.policy, unit.job_class or "", unit.member, knob),
                    kind=kind,
                    amount=min(round(value * scale), 2**50),
                    window_ns=WINDOW_NS if kind is TotalKind.COMPUTE else RATE_WINDOW_NS,
                    members=unit.tenants,
                )
            )
    return found
