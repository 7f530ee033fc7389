"""GP906: a rule that moves memory out when memory is short, and comes back as soon as that has helped: it flaps."""

from typing import Any

from gpud.policies.check.space import Space
from gpud.policies.check.truth import FALSE, TRUE, Formula, Key
from gpud.policies.check.walk import Found, rules
from gpud.policies.ir import Const, IrBinding, IrClass, IrPolicy
from gpud.policies.quantities import show_value
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.types import Type

_FREE: Key = ("signal", "gpu", "", "memory_free", False)
_SOME = 1 << 20
"""Bytes freed at least, where limits do not say how much."""


def check_feedback(policy: IrPolicy, found: Findings) -> None:
    for one in rules(policy):
        moved = [binding for binding in one.rule.body.bindings if _moves_out(binding)]
        if one.rule.condition is not None and moved:
            _look(policy, one, moved, found)


def _moves_out(binding: IrBinding) -> bool:
    value = binding.value
    return binding.knob.name == "residency" and isinstance(value, Const) and value.value in ("host", "disk")


def _look(policy: IrPolicy, one: Found, moved: list[IrBinding], found: Findings) -> None:
    condition = one.rule.condition
    assert condition is not None
    back = one.rule.until or condition
    space = Space(policy)
    begins, ends = space.formula(condition.condition, one.each), space.formula(back.condition, one.each)
    over = TRUE if one.rule.until else FALSE
    classes = list(dict.fromkeys(binding.knob.job_class for binding in moved))
    used: dict[Key, Any] = {
        ("signal", "class", name, "memory_used", tenant): 0 for name in classes for tenant in (0, 1)
    }
    where = [(binding.target_span, "moves memory out") for binding in moved]
    names = alternatives(classes, "and")
    if ends.truth(used) == over:
        found.add(
            "GP906",
            back.condition.span,
            f"moving {names} out is enough to end this `{one.rule.kind}`",
            "it comes back at once, and flaps",
            also=where,
            helps=["end it by something that it does not change itself"],
        )
        return
    short = _shortage(space, begins)
    if short is None:
        return
    freed = {name: _freed(policy.class_named(name)) for name in classes}
    most = sum(freed.values())
    if ends.truth({**used, _FREE: short + (most or _SOME)}) != over:
        return
    known = f"frees up to {show_value(most, Type.BYTES)} by itself: that" if most else "by itself"
    enough = show_value(short + 1 + most, Type.BYTES)
    found.add(
        "GP906",
        back.condition.span,
        f"moving {names} out {known} is enough to end this `{one.rule.kind}`",
        "it comes back at once, and flaps",
        also=where,
        helps=[f"let it end above {enough} at the earliest: until gpu.memory_free > {enough}"],
    )


def _shortage(space: Space, begins: Formula) -> int | None:
    """The most free memory, in bytes, with which the rule may still begin; None if it does not begin for lack of it."""
    if _FREE not in begins.variables:
        return None
    points = sorted({int(point) for point in space.variables[_FREE].points if point < float("inf")})
    if not points or begins.truth({_FREE: points[-1] + 1}) & TRUE:
        return None
    near = [point - less for point in reversed(points) for less in (0, 1)]
    return next((free for free in near if free >= 0 and begins.truth({_FREE: free}) & TRUE), None)


def _freed(one: IrClass) -> int:
    """Bytes that its members hold at most; 0: not known."""
    limit = one.limit.settings if one.limit else {}
    memory, tenants = (limit[name].value if name in limit else None for name in ("memory", "tenants"))
    counted = isinstance(memory, int | float) and isinstance(tenants, int | float)
    if one.per != "class" or not counted or float("inf") in (memory, tenants):
        return 0
    return int(memory) * int(tenants)  # type: ignore[arg-type]
