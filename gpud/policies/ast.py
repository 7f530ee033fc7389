"""The syntax tree: one class a grammar rule. Equality ignores spans, so `parse(print(tree)) == tree` can be asked."""

from typing import Any

from attrs import field

from gpud.policies.nodes import Node
from gpud.policies.source import NOWHERE, Source, Span


def _span() -> Any:
    return field(default=NOWHERE, eq=False, repr=False)


# ------------------------------------------------------------------------------------------------------------ leaves


class Name(Node):
    """A name where it stands."""

    text: str
    span: Span = _span()


class String(Node):
    """A quoted text, without its quotes. As an expression, a text."""

    text: str
    span: Span = _span()


class Time(Node):
    """A time of day as written: `22:00`. Whether it exists is checked later."""

    text: str
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------- expressions


class Quantity(Node):
    """A number with or without a unit, judged later."""

    number: str
    """Digits as written, with `_` and a decimal point."""
    unit: str
    """`ms`, `%`, `/s`, `GiB/s`, `` for a plain number."""
    span: Span = _span()


class Bool(Node):
    value: bool
    span: Span = _span()


class Unlimited(Node):
    span: Span = _span()


class Ref(Node):
    """`gpu.busy`, `high`, `serving.vllm.ttft_p99`."""

    parts: tuple[Name, ...]
    span: Span = _span()

    @property
    def text(self) -> str:
        return ".".join(part.text for part in self.parts)


class Arg(Node):
    """`name = value`, or a value alone."""

    name: Name | None
    value: "Expr"
    span: Span = _span()


class Call(Node):
    function: Ref
    args: tuple[Arg, ...]
    span: Span = _span()


class Listing(Node):
    """`[a, b]`"""

    items: tuple["Expr", ...]
    span: Span = _span()


class Not(Node):
    operand: "Expr"
    span: Span = _span()


class Logic(Node):
    """`a and b and c`, `a or b`: at least two operands."""

    op: str
    operands: tuple["Expr", ...]
    span: Span = _span()


class Binary(Node):
    """`+ - * /`, `== != < <= > >= ~`, `in`. Parentheses are not kept: the printer puts them where they are needed."""

    op: str
    left: "Expr"
    right: "Expr"
    span: Span = _span()
    op_span: Span = _span()


Expr = Quantity | String | Bool | Unlimited | Ref | Call | Listing | Not | Logic | Binary


# ---------------------------------------------------------------------------------------------------------- policies


class Doc(Node):
    text: String
    span: Span = _span()


class Timezone(Node):
    zone: String
    span: Span = _span()


class Param(Node):
    name: Name
    value: Expr
    span: Span = _span()


class Let(Node):
    name: Name
    value: Expr
    span: Span = _span()


class HoursSpan(Node):
    """`mon..fri 08:00..22:00`; without times the whole day."""

    first: Name
    last: Name | None
    begin: Time | None
    end: Time | None
    span: Span = _span()


class Hours(Node):
    name: Name
    spans: tuple[HoursSpan, ...]
    span: Span = _span()


class Setting(Node):
    name: Name
    value: Expr
    span: Span = _span()


class Block(Node):
    """`arbitrate preempt { … }`, `limit { … }`."""

    kind: Name
    mode: Name | None
    settings: tuple[Setting, ...]
    span: Span = _span()


class Class(Node):
    name: Name
    match: Expr
    members: tuple[Setting | Block, ...]
    span: Span = _span()


class Binding(Node):
    """`low.max_launch_rate = …`"""

    target: Ref
    value: Expr
    span: Span = _span()


class Held(Node):
    """`A for d`"""

    condition: Expr
    duration: Expr | None
    span: Span = _span()


class Body(Node):
    """`{ … }` of a rule."""

    members: tuple["BodyMember", ...]
    span: Span = _span()


class During(Node):
    hours: Name
    early: Expr | None
    body: Body
    otherwise: Body | None
    span: Span = _span()


class When(Node):
    condition: Held
    until: Held | None
    because: String | None
    body: Body
    otherwise: Body | None
    span: Span = _span()


class Guard(Node):
    condition: Held
    until: Held | None
    because: String | None
    body: Body
    span: Span = _span()


class Each(Node):
    """`each nb as n { … }`"""

    job_class: Name
    alias: Name
    body: Body
    span: Span = _span()


BodyMember = Let | Binding | During | When
Member = Doc | Timezone | Param | Let | Hours | Class | Block | Binding | During | When | Guard | Each


class Policy(Node):
    name: String
    members: tuple[Member, ...]
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------------- apply


class Applied(Node):
    """`"preempt-mix"(quiet = 5ms)`"""

    policy: String
    args: tuple[Arg, ...]
    span: Span = _span()


class DeviceRange(Node):
    """`4`, `0..3`: PCI order."""

    first: int
    last: int
    span: Span = _span()


class DeviceUuid(Node):
    """`"GPU-5f3a"`: a prefix."""

    prefix: String
    span: Span = _span()


class EveryDevice(Node):
    """`*`: every device not named elsewhere."""

    span: Span = _span()


Target = DeviceRange | DeviceUuid | EveryDevice


class Apply(Node):
    policies: tuple[Applied, ...]
    what: Name
    """`gpu`"""
    targets: tuple[Target, ...]
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------------- tests


class UsePolicy(Node):
    applied: Applied
    span: Span = _span()


class Clock(Node):
    """`clock "2026-03-02 07:40"`"""

    text: String
    span: Span = _span()


class Simulate(Node):
    world: Name
    args: tuple[Arg, ...]
    span: Span = _span()


class Replay(Node):
    """`replay "trace.jsonl"`: a recording, beside the test's file."""

    path: String
    span: Span = _span()


class Attach(Node):
    """`attach a { labels = ["tier=online"] }`"""

    name: Name
    settings: tuple[Setting, ...]
    span: Span = _span()


class Run(Node):
    """`1000/s times 600`"""

    value: Expr
    times: int | None
    span: Span = _span()


class Feed(Node):
    signal: Ref
    every: Expr
    runs: tuple[Run, ...]
    span: Span = _span()


class Expect(Node):
    condition: Expr
    span: Span = _span()


class Poke(Node):
    """`at 5s high.idle_for = 2s`"""

    target: Ref
    value: Expr
    span: Span = _span()


class At(Node):
    time: Expr
    action: Expect | Poke
    span: Span = _span()


class Always(Node):
    """`from A to B expect c`"""

    begin: Expr
    end: Expr
    condition: Expr
    span: Span = _span()


class Eventually(Node):
    """`by T expect c`"""

    time: Expr
    condition: Expr
    span: Span = _span()


Step = UsePolicy | Clock | Simulate | Replay | Attach | Feed | At | Always | Eventually


class Test(Node):
    name: String
    steps: tuple[Step, ...]
    span: Span = _span()


# -------------------------------------------------------------------------------------------------------------- file


class Use(Node):
    plugin: Name
    span: Span = _span()


Item = Policy | Apply | Test


class File(Node):
    version: str
    uses: tuple[Use, ...]
    items: tuple[Item, ...]
    span: Span = _span()
    source: Source = field(default=None, eq=False, repr=False)

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(item for item in self.items if isinstance(item, Policy))

    @property
    def applies(self) -> tuple[Apply, ...]:
        return tuple(item for item in self.items if isinstance(item, Apply))

    @property
    def tests(self) -> tuple[Test, ...]:
        return tuple(item for item in self.items if isinstance(item, Test))
