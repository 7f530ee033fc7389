"""A policy with all names resolved, all types known and all constants folded: what the checks look at and the compiler
reads. `resolve.py` makes it from the syntax tree and the arguments of an `apply`.

Spans refer to `IrPolicy.source`. Everything is in text order.
"""

from typing import Any

from attrs import define, frozen

from gpud.policies.nodes import Node
from gpud.policies.source import NOWHERE, Source, Span
from gpud.policies.types import Type

# ------------------------------------------------------------------------------------------------------- expressions


class Const(Node):
    """A value as types.py says; parameters and arithmetic on constants have become this."""

    value: Any
    """None: unknown. In a policy: what could not be resolved, which has been reported (such a policy is never run); in
    a test: `missing`."""
    type: Type
    span: Span = NOWHERE


@frozen
class SignalRef:
    """What a signal is read from. Two reads of the same are equal."""

    scope: str
    """`class`, `gpu`, `host`."""
    job_class: str
    """Of a class signal; "" otherwise."""
    name: str
    """`busy`, `vllm.queue_depth`."""
    type: Type
    tenant: bool = False
    """Read of one tenant, inside `each`."""

    @property
    def text(self) -> str:
        """As the user writes it, but with the class where `each` has an alias."""
        return f"{self.job_class or self.scope}.{self.name}"


class Read(Node):
    """A signal's value in the snapshot."""

    signal: SignalRef
    span: Span = NOWHERE

    @property
    def type(self) -> Type:
        return self.signal.type


class LetRead(Node):
    """A `let`'s value of this tick."""

    index: int
    """Into IrPolicy.lets; of a let inside `each`: into that IrEach.lets, with `tenant` true."""
    name: str
    type: Type
    tenant: bool = False
    span: Span = NOWHERE


class HoursRead(Node):
    """An `hours` name in a condition."""

    index: int
    """Into IrPolicy.hours."""
    span: Span = NOWHERE
    type: Type = Type.BOOL


class TenantRead(Node):
    """In `match`: `label("tier")`, `cgroup`, `exe`, `user`, `group`, `namespace`, `pod`; and labels as amounts."""

    field: str
    """`label`, `label_bytes`, `label_percent`, or what stands above."""
    key: str = ""
    """Of a label."""
    span: Span = NOWHERE
    type: Type = Type.TEXT
    default: Any = None
    """Of `label_bytes` and `label_percent`: the value without that label; None: unknown then."""


class Any_(Node):
    """`match any`"""

    span: Span = NOWHERE
    type: Type = Type.BOOL


class Op(Node):
    """`+ - * /`, `== != < <= > >= ~`, `in` (right operands are args[1:]), `and`, `or`, `not`."""

    op: str
    args: tuple["IrExpr", ...]
    type: Type
    span: Span = NOWHERE


class PureCall(Node):
    """`min`, `max`, or a plugin's function without state. (Share constructors have become constants.)"""

    function: str
    args: tuple["IrExpr", ...]
    type: Type
    span: Span = NOWHERE


class OperatorCall(Node):
    """A stateful operator, built in or of a plugin."""

    operator: str
    """`ewma`, `aimd`, `vllm.smooth`."""
    identity: str
    """`let-or-knob-name/operator#n`, unique in the policy: state is carried over a reload by it."""
    args: tuple[tuple[str, "IrExpr"], ...]
    """By parameter, in the order of the schema, defaults filled in."""
    type: Type
    span: Span = NOWHERE


class Observed(Node):
    """In tests only: what no rule may read."""

    kind: str
    """`knob`: `low.max_inflight` (of a class, or of a tenant attached by name); `world`: `world.high_demand`; `gate`:
    `low.held`, `low.passed`; `class`: `a.class`."""
    of: str
    """Class or tenant; "" of the world."""
    name: str
    type: Type
    span: Span = NOWHERE


IrExpr = Const | Read | LetRead | HoursRead | TenantRead | Any_ | Op | PureCall | OperatorCall | Observed


# ------------------------------------------------------------------------------------------------------------- rules


@frozen
class KnobRef:
    """What a binding writes."""

    job_class: str
    name: str

    @property
    def text(self) -> str:
        return f"{self.job_class}.{self.name}"


class IrLet(Node):
    name: str
    value: IrExpr
    span: Span
    name_span: Span
    depth: int = 0
    """0: of the policy body."""


class IrBinding(Node):
    knob: KnobRef
    value: IrExpr
    span: Span
    target_span: Span


class IrHeld(Node):
    """A condition that must hold for a while."""

    condition: IrExpr
    for_ns: int
    span: Span


class IrBody(Node):
    """`{ … }` of a rule, or the rules of a policy. Lets are in IrPolicy.lets."""

    bindings: tuple[IrBinding, ...]
    rules: tuple["IrRule", ...]
    span: Span


class IrRule(Node):
    """`during`, `when` or `guard`."""

    kind: str
    hours: int | None
    """`during`: index into IrPolicy.hours; None also if they could not be resolved."""
    early_ns: int
    """`during … early d`: it begins this much earlier, and ends when the hours do."""
    condition: IrHeld | None
    """`when`, `guard`."""
    until: IrHeld | None
    because: str
    body: IrBody
    otherwise: IrBody | None
    span: Span
    """The whole rule."""
    head: Span
    """From the keyword to the end of its condition with its `for`: what screens quote."""
    identity: str
    """Unique in the policy and stable while the text around changes: kind, condition's text, number."""


class IrEach(Node):
    """Rules about one tenant of a class."""

    job_class: str
    alias: str
    lets: tuple[IrLet, ...]
    body: IrBody
    span: Span


# ------------------------------------------------------------------------------------------------------------ policy


class IrSetting(Node):
    """A setting of a block, read: value as schema.Row.kind says."""

    value: Any
    span: Span
    """Of the whole setting."""
    value_span: Span


class IrBlock(Node):
    kind: str
    mode: str
    settings: dict[str, IrSetting]
    """Those that are written; defaults are in the schema."""
    span: Span


class IrClass(Node):
    name: str
    match: IrExpr
    per: str
    """`class`, `tenant`, `user`, `group`, `namespace`, `label:k`."""
    settings: dict[str, IrSetting]
    """`share`, `rise_after`."""
    limit: IrBlock | None
    span: Span
    name_span: Span


class IrDays(Node):
    """One span of `hours`: on each of `days` (0 = Monday) from `begin_min` to `end_min` minutes after midnight; an end
    at or below the begin lies on the next day."""

    days: tuple[int, ...]
    begin_min: int
    end_min: int
    span: Span


class IrHours(Node):
    name: str
    spans: tuple[IrDays, ...]
    span: Span


class IrParam(Node):
    name: str
    value: Any
    type: Type
    default: Any
    span: Span


NO_RULES = IrBody((), (), NOWHERE)


@define(kw_only=True)
class IrPolicy:
    """A resolved policy. Not changed once made."""

    name: str
    source: Source
    span: Span
    name_span: Span
    doc: str = ""
    timezone: str | None = None
    """IANA name; None: the machine's (lint GP904 when there are hours)."""
    params: tuple[IrParam, ...] = ()
    hours: tuple[IrHours, ...] = ()
    classes: tuple[IrClass, ...] = ()
    arbiter: IrBlock | None = None
    swap: IrBlock | None = None
    admit: IrBlock | None = None
    failsafe: IrBlock | None = None
    lets: tuple[IrLet, ...] = ()
    body: IrBody = NO_RULES
    """Bindings and rules of the policy itself, `guard`s apart."""
    guards: tuple[IrRule, ...] = ()
    eaches: tuple[IrEach, ...] = ()
    uses: tuple[str, ...] = ()
    """Plugins its file uses."""
    used_names: frozenset[str] = frozenset()
    """Classes, lets, params and hours that something reads (for GP905)."""

    def class_named(self, name: str) -> IrClass:
        """Raises KeyError."""
        for found in self.classes:
            if found.name == name:
                return found
        raise KeyError(name)

    @property
    def mode(self) -> str:
        """Of its arbiter: `preempt`, `share`, `exclusive`, `open`; "" for a policy that only tightens."""
        return self.arbiter.mode if self.arbiter else ""
