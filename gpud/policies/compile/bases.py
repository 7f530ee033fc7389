"""What a knob is while no rule and no binding sets it: by a class's or a block's setting, or built in."""

from typing import Any, NamedTuple

from gpud.policies.ir import IrPolicy, IrSetting, KnobRef
from gpud.policies.plugins.declare import Plugins
from gpud.policies.rounding import round_knob
from gpud.policies.schema import KNOBS


class Base(NamedTuple):
    """A knob's outermost value."""

    value: Any
    setting: IrSetting | None
    """Where it is written; None: built in."""


def base_of(ir: IrPolicy, knob: KnobRef, plugins: Plugins) -> Base:
    if knob.name not in KNOBS:
        plugin, _, name = knob.name.partition(".")
        return Base(next(found.default for found in plugins[plugin].actuators if found.name == name), None)
    setting = _setting(ir, knob)
    if setting is None:
        return Base(KNOBS[knob.name].default, None)
    return Base(round_knob(knob.name, setting.value), setting)


def _setting(ir: IrPolicy, knob: KnobRef) -> IrSetting | None:
    if knob.name == "share":
        return ir.class_named(knob.job_class).settings.get("share")
    if ir.arbiter is None:
        return None
    settings = ir.arbiter.settings
    if knob.name in ("max_inflight", "max_inflight_time") and ir.mode == "preempt":
        return None if knob.job_class in highest(ir) else settings.get(knob.name)
    return settings.get(knob.name) if knob.name in ("max_hold", "max_overrun") and ir.mode == "exclusive" else None


def highest(ir: IrPolicy) -> tuple[str, ...]:
    """Classes of the first rank of `arbitrate preempt`."""
    order = ir.arbiter.settings.get("order") if ir.arbiter else None
    if order is None or not order.value:
        return ()
    first = order.value[0]
    return (first,) if isinstance(first, str) else tuple(first)


def knobs_of(ir: IrPolicy) -> tuple[KnobRef, ...]:
    """Every knob of every class that has an effect under the policy's arbiter; actuators of plugins that it sets."""
    from gpud.policies.check.walk import all_writers

    effective = [row.name for row in KNOBS.values() if not ir.mode or ir.mode in row.modes]
    found = [KnobRef(job_class.name, name) for job_class in ir.classes for name in effective]
    others = dict.fromkeys(writer.binding.knob for writer in all_writers(ir))
    return (*found, *(knob for knob in others if knob.name not in KNOBS))
