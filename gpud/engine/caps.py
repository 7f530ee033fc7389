"""What limits GPU time, launches, blocks and copies of tenants: `limit { compute }` of each, totals of units. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from gpud.engine.board import Applied
from gpud.engine.state import Ran, Tenant
from gpud.engine.units import units_on
from gpud.model.levels import Total, TotalKind
from gpud.model.units import MILLISECOND
from gpud.policies.label_values import readable
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
    """(hard, soft) limit of a tenant's own GPU time in millionths of a device, by the tightest policy, or by a person;
    None: none."""
    hard: list[int] = []
    soft: list[int] = []
    for one in applied:
        limit = compute_of(one, tenant)
        if limit is not None:
            ratio, is_soft = limit
            (soft if is_soft else hard).append(max(round(ratio * _PPM), 1))
    if tenant.compute is not None:
        hard.append(tenant.compute.value)
    return min(hard, default=None), min(soft, default=None)


def compute_of(applied: Applied, tenant: Tenant) -> tuple[float, bool] | None:
    """(part of a device by `limit { compute }`, whether only while others want it); None: there is no limit."""
    value = limit_of(applied, tenant, "compute")
    ratio: Any = value.argument if isinstance(value, Choice) else value
    return None if ratio is None or ratio == math.inf else (float(ratio), isinstance(value, Choice))


def limit_of(applied: Applied, tenant: Tenant, name: str) -> Any:
    """What `limit { … }` of the tenant's class says of one thing; None: nothing."""
    placed = tenant.placed.get(applied.program.digest)
    if placed is None or placed.job_class is None:
        return None
    return readable(applied.program.ir.class_named(placed.job_class), tenant.labels).get(name)


def totals_of(applied: Applied, ran: Ran, tenants: Sequence[Tenant]) -> list[Total]:
    """What one policy says now of the units that these tenants are in."""
    found: list[Total] = []
    if not ran.knobs.values:
        return found
    for unit in units_on(applied, tenants):
        for knob, (kind, _) in TOTALS.items():
            index = applied.knobs.get((unit.job_class, knob)) if unit.job_class is not None else None
            value = ran.knobs.values[index] if index is not None else None
            if value is None or value == math.inf:
                continue
            found.append(
                Total(
                    key=(unit.policy, unit.job_class or "", unit.member, knob),
                    kind=kind,
                    amount=amount(knob, value),
                    window_ns=WINDOW_NS if kind is TotalKind.COMPUTE else RATE_WINDOW_NS,
                    members=unit.tenants,
                )
            )
    return found


def amount(knob: str, value: float) -> int:
    """Of a total, in the page's units; of one that is unlimited, as much as there can be."""
    return min(round(value * TOTALS[knob][1]), 2**50) if value < math.inf else 2**50
