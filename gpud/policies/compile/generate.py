"""A policy → the text of two flat Python functions, `tick` and `next_change`, and the names that they use."""

from typing import Any

from attrs import frozen

from gpud.policies.check.walk import expressions, parts
from gpud.policies.combine import RANKS
from gpud.policies.compile.bases import knobs_of
from gpud.policies.compile.code import Code
from gpud.policies.compile.context import Context
from gpud.policies.compile.decide import write_knobs
from gpud.policies.compile.each import write_eaches
from gpud.policies.compile.hoist import write_lets, write_operators
from gpud.policies.compile.hours import write_hours
from gpud.policies.compile.rules import Flags, write_rules
from gpud.policies.compile.sites import BASE, places, site_of
from gpud.policies.ir import IrPolicy, KnobRef, Read, SignalRef
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import TENANT_CLASS, Knobs, Site, Slot

_FAR = 1 << 127
"""Later than everything."""


@frozen(kw_only=True)
class Generated:
    """Text and what belongs to it."""

    source: str
    globals: dict[str, Any]
    slots: tuple[Slot, ...]
    sites: tuple[Site, ...]
    knobs: tuple[KnobRef, ...]
    tenant_knobs: tuple[KnobRef, ...]
    signals: tuple[SignalRef, ...]
    tenant_signals: tuple[SignalRef, ...]

    @property
    def initial(self) -> tuple[Any, ...]:
        return tuple(slot.initial for slot in self.slots)


def generate(ir: IrPolicy, plugins: Plugins) -> Generated:
    found = list(places(ir))
    signals, tenant_signals = signals_of(ir)
    knobs = knobs_of(ir)
    tenant_knobs = tuple(dict.fromkeys(place.binding.knob for place in found if place.each is not None))
    code = Code()
    code.globals |= {"places": tuple(RANKS), "Knobs": Knobs, "new": tuple.__new__}
    context = Context(
        ir=ir,
        plugins=plugins,
        code=code,
        signals={signal: f"v{index}" for index, signal in enumerate(signals)},
        sites={id(place.binding): number for number, place in enumerate(found, 1)},
        places={id(place.binding): _identity(place.path) for place in found},
    )
    context.slots.append(Slot("begun", False))
    context.slots += [Slot(f"l_{index}", None, (), (), "") for index in range(len(ir.lets))]
    _write_tick(context, knobs, tenant_knobs, tenant_signals)
    return Generated(
        source="\n".join([*_head(context), *code.lines, "", "", *_next_change(context), ""]),
        globals=code.globals,
        slots=tuple(context.slots),
        sites=(BASE, *(site_of(ir, place) for place in found)),
        knobs=knobs,
        tenant_knobs=tenant_knobs,
        signals=signals,
        tenant_signals=tenant_signals,
    )


def _write_tick(
    context: Context,
    knobs: tuple[KnobRef, ...],
    tenant_knobs: tuple[KnobRef, ...],
    tenant_signals: tuple[SignalRef, ...],
) -> None:
    ir, code, flags = context.ir, context.code, Flags()
    write_hours(context)
    write_lets(context, ir.lets, context.lets, "l_")
    write_operators(context, [ir.body, *(guard.body for guard in ir.guards)])
    write_rules(context, ir.body.rules, flags)
    write_rules(context, ir.guards, flags, guard=True)
    early = len(code.lines)
    decided = write_knobs(context, knobs, flags, frozenset(tenant_knobs))
    code.lines[early:early] = ["    " + line for line in context.early]
    tenants = "()"
    if ir.eaches:
        write_eaches(context, decided, tenant_knobs, tenant_signals)
        tenants = "tuple(out)"
    state = ", ".join(["True", *(slot.name for slot in context.slots[1:])])
    values = "".join(f"{decided[knob].value_code(context, knob)}, " for knob in knobs)
    sites = "".join(f"{decided[knob].site_code}, " for knob in knobs)
    code.line(f"return ({state},), new(Knobs, (({values}), ({sites}), {tenants}))")


def _head(context: Context) -> list[str]:
    lines = ["def tick(state, snapshot, now, tenants):", f"    {_unpacked(context.slots)} = state"]
    if context.signals:
        lines.append(f"    ({''.join(f'{name}, ' for name in context.signals.values())}) = snapshot")
    return [*lines, "    t, w = now"]


def _next_change(context: Context) -> list[str]:
    lines = [
        f"    {_unpacked(context.slots)} = state",
        "    t = now[0]",
        "    if not begun: return t + 1",
        f"    due = {_FAR}",
        *("    " + line for line in context.timers),
        f"    return None if due == {_FAR} else due",
    ]
    return ["def next_change(state, now):", *lines]


def _unpacked(slots: list[Slot]) -> str:
    return f"({''.join(f'{slot.name}, ' for slot in slots)})"


def signals_of(ir: IrPolicy) -> tuple[tuple[SignalRef, ...], tuple[SignalRef, ...]]:
    """Those of classes, devices and the host, and those of tenants; in text order."""
    reads = [part for expr, _ in expressions(ir) for part in parts(expr) if isinstance(part, Read)]
    reads.sort(key=lambda read: read.span.start)
    found = dict.fromkeys(read.signal for read in reads)
    tenants = (TENANT_CLASS, *(signal for signal in found if signal.tenant)) if ir.eaches else ()
    return tuple(signal for signal in found if not signal.tenant), tenants


def _identity(path: Any) -> tuple[str, ...]:
    return tuple(f"{step.rule.identity}{' else' if step.otherwise else ''}" for step in path)
