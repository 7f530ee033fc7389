"""`each`: rules about one tenant, with a state for each tenant that ends with it.

What they set refines the policy's own binding and meets what the policy's other rules and guards say of the class.
"""

from attrs import evolve

from gpud.policies.combine import combine_of
from gpud.policies.compile.context import Context
from gpud.policies.compile.decide import Decided, paused
from gpud.policies.compile.hoist import write_lets, write_operators
from gpud.policies.compile.knobs import Sets, Target, write_body
from gpud.policies.compile.rules import Flags, write_rules
from gpud.policies.ir import IrEach, KnobRef, SignalRef
from gpud.policies.program import Slot


def write_eaches(
    context: Context,
    decided: dict[KnobRef, Decided],
    knobs: tuple[KnobRef, ...],
    signals: tuple[SignalRef, ...],
) -> None:
    """Writes the loop over tenants, which leaves what it finds in `out`."""
    code = context.code
    code.line("out = []")
    outers: list[str] = []
    number_of_class: dict[str, int] = {}
    for each in context.ir.eaches:
        number = number_of_class[each.job_class] = number_of_class.get(each.job_class, -1) + 1
        outers.append(context.slot("E", {}, "each", each.job_class, str(number)))
        code.line(f"{outers[-1]}_was, {outers[-1]} = {outers[-1]}, {{}}")
    variables = [f"q{index}" for index in range(len(signals))]
    with code.block("for n in sorted(tenants)"):
        code.line(f"({''.join(f'{name}, ' for name in variables)}) = tenants[n]")
        for index in range(len(knobs)):
            code.line(f"z{index} = None")
            code.line(f"zy{index} = 0")
        for number, (each, outer) in enumerate(zip(context.ir.eaches, outers, strict=True)):
            with code.block(f"if q0 == {each.job_class!r}"):
                inner = evolve(
                    context,
                    prefix=f"e{number}_",
                    slots=[],
                    timers=[],
                    early=[],
                    tenant_lets=[],
                    operators={},
                    signals={**context.signals, **dict(zip(signals, variables, strict=True))},
                )
                _write_each(inner, each, outer, decided, knobs)
                _finish(context, inner, outer)
        _write_meets(context, decided, knobs)
        if knobs:
            values = [
                f"None if z{index} is None else places[z{index}]" if _places(context, knob) else f"z{index}"
                for index, knob in enumerate(knobs)
            ]
            with code.block(f"if not ({' is '.join(f'z{index}' for index in range(len(knobs)))} is None)"):
                listed, sites = (
                    "".join(f"{value}, " for value in values),
                    "".join(f"zy{i}, " for i in range(len(knobs))),
                )
                code.line(f"out.append((n, ({listed}), ({sites})))")


def _write_each(
    context: Context, each: IrEach, outer: str, decided: dict[KnobRef, Decided], knobs: tuple[KnobRef, ...]
) -> None:
    code = context.code
    start = len(code.lines)
    flags = Flags()
    assert context.tenant_lets is not None
    write_lets(context, each.lets, context.tenant_lets, "p")
    write_operators(context, [each.body])
    write_rules(context, each.body.rules, flags)
    early = len(code.lines)
    for index, knob in enumerate(knobs):
        if knob not in context.sets(each.body):
            continue
        target = Target(
            knob=knob,
            combine=combine_of(knob.name, context.plugins),
            value=code.name("k"),
            site=code.name("y"),
            paused=paused(decided, knob),
        )
        if write_body(context, each.body, target, flags) is Sets.NEVER:
            continue
        with code.block(f"if {target.value} is not None"):
            evolve(target, value=f"z{index}", site=f"zy{index}").meet(
                context, target.value, target.site, [f"z{index} is None"]
            )
    code.lines[early:early] = ["    " * code.depth + line for line in context.early]
    fields = "".join(f"{slot.name}, " for slot in context.slots)
    initial = code.use(code.name("fresh"), tuple(slot.initial for slot in context.slots))
    if context.slots:
        code.lines.insert(start, "    " * code.depth + f"({fields}) = {outer}_was.get(n, {initial})")
    code.line(f"{outer}[n] = ({fields})")


def _finish(context: Context, inner: Context, outer: str) -> None:
    """Its slots and timers become those of the policy."""
    index = next(index for index, slot in enumerate(context.slots) if slot.name == outer)
    context.slots[index] = evolve(context.slots[index], inner=tuple(inner.slots))
    if inner.timers:
        fields = "".join(f"{slot.name}, " for slot in inner.slots)
        lines = [f"({fields}) = kept", *inner.timers]
        context.timers += [f"for kept in {outer}.values():", *("    " + line for line in lines)]


def _write_meets(context: Context, decided: dict[KnobRef, Decided], knobs: tuple[KnobRef, ...]) -> None:
    for index, knob in enumerate(knobs):
        found = decided[knob]
        own = Target(knob=knob, combine=combine_of(knob.name, context.plugins), value=f"z{index}", site=f"zy{index}")
        for other in (found.rules, found.guards):
            if other is not None:
                with context.code.block(f"if z{index} is not None and {other.value} is not None"):
                    own.meet(context, other.value, other.site)


def _places(context: Context, knob: KnobRef) -> bool:
    return combine_of(knob.name, context.plugins) == "furthest"


__all__ = ["Slot", "write_eaches"]
