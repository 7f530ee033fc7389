"""What the parts of the compiler share while they write one tick."""

from typing import Any, NamedTuple

from attrs import define, field

from gpud.policies.compile.code import Code
from gpud.policies.ir import IrBinding, IrBody, IrPolicy, KnobRef, SignalRef
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import Slot


class Value(NamedTuple):
    """An expression as Python text."""

    code: str
    maybe_unknown: bool = False
    """It can be None."""
    is_name: bool = False
    """A name or a literal: cheap to repeat."""


@define(kw_only=True)
class Context:
    """Of the policy; a copy for each `each`, whose slots and timers are per tenant."""

    ir: IrPolicy
    plugins: Plugins
    code: Code
    prefix: str = ""
    slots: list[Slot] = field(factory=list)
    """What is remembered from tick to tick; a slot's name is the local variable it is in during a tick."""
    timers: list[str] = field(factory=list)
    """Lines of `next_change`; `t` is now, `due` the earliest so far."""
    signals: dict[SignalRef, str]
    """Signal → local variable."""
    lets: list[Value] = field(factory=list)
    tenant_lets: list[Value] | None = None
    """Of the `each` it is in."""
    hours: dict[tuple[int, int], str] = field(factory=dict)
    """(hours, early_ns) → local variable."""
    operators: dict[int, Value] = field(factory=dict)
    """By id: values of calls that were made before the rules."""
    sites: dict[int, int]
    """By id of a binding: its place among the sites."""
    written: "dict[int, frozenset[KnobRef]]" = field(factory=dict)
    """By id of a body: knobs that it and the rules inside may set."""

    places: dict[int, tuple[str, ...]]
    """By id of a binding: the identity of the rule whose body it stands in, and which body."""
    early: list[str] = field(factory=list)
    """Lines that must come before the knobs are looked at."""

    def slot(self, prefix: str, initial: Any, *key: str, signature: tuple[str, ...] = (), label: str = "") -> str:
        """A new one, by its variable."""
        name = f"{self.prefix}{prefix}{len(self.slots)}"
        self.slots.append(Slot(name=name, initial=initial, key=key, signature=signature, label=label))
        return name

    def sets(self, body: IrBody) -> "frozenset[KnobRef]":
        """Knobs that a body may set, rules inside it included."""
        found = self.written.get(id(body))
        if found is None:
            names = {binding.knob for binding in body.bindings}
            for rule in body.rules:
                names |= self.sets(rule.body)
                if rule.otherwise is not None:
                    names |= self.sets(rule.otherwise)
            found = self.written[id(body)] = frozenset(names)
        return found

    def own(self, body: IrBody, knob: KnobRef) -> IrBinding | None:
        """The body's own binding of a knob."""
        return next((binding for binding in body.bindings if binding.knob == knob), None)

    def timer(self, expression: str, *, unless_past: bool = True) -> list[str]:
        """Lines that take a moment into account, if it is still to come (or, if it is past: at the next tick)."""
        if unless_past:
            return [f"x = {expression}", "if t < x < due: due = x"]
        return [f"x = {expression}", "if x < due: due = x if x > t else t + 1"]
