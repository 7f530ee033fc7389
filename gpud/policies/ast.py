"""The syntax tree: one class a grammar rule. Equality ignores spans, so `parse(print(tree)) == tree` can be asked."""

from typing import Any

from attrs import field, frozen

from gpud.policies.source import NOWHERE, Source, Span


def _span() -> Any:
    return field(default=NOWHERE, eq=False, repr=False)


# ------------------------------------------------------------------------------------------------------------ leaves


@frozen
class Name:
    """A name where it stands."""

    text: str
    span: Span = _span()


@frozen
class String:
    """A quoted text, without its quotes. As an expression, a text."""

    text: str
    span: Span = _span()


@frozen
class Time:
    """A time of day as written: `22:00`. Whether it exists is checked later."""

    text: str
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------- expressions


@frozen
class Quantity:
    """A number with or without a unit, judged later."""

    number: str
    """Digits as written, with `_` and a decimal point."""
    unit: str
    """`ms`, `%`, `/s`, `GiB/s`, `` for a plain number."""
    span: Span = _span()


@frozen
class Bool:
    value: bool
    span: Span = _span()


@frozen
class Unlimited:
    span: Span = _span()


@frozen
class Ref:
    """`gpu.busy`, `high`, `serving.vllm.ttft_p99`."""

    parts: tuple[Name, ...]
    span: Span = _span()

    @property
    def text(self) -> str:
        return ".".join(part.text for part in self.parts)


@frozen
class Arg:
    """`name = value`, or a value alone."""

    name: Name | None
    value: "Expr"
    span: Span = _span()


@frozen
class Call:
    function: Ref
    args: tuple[Arg, ...]
    span: Span = _span()


@frozen
class Listing:
    """`[a, b]`"""

    items: tuple["Expr", ...]
    span: Span = _span()


@frozen
class Not:
    operand: "Expr"
    span: Span = _span()


@frozen
class Logic:
    """`a and b and c`, `a or b`: at least two operands."""

    op: str
    operands: tuple["Expr", ...]
    span: Span = _span()


@frozen
class Binary:
    """`+ - * /`, `== != < <= > >= ~`, `in`. Parentheses are not kept: the printer puts them where they are needed."""

    op: str
    left: "Expr"
    right: "Expr"
    span: Span = _span()
    op_span: Span = _span()


Expr = Quantity | String | Bool | Unlimited | Ref | Call | Listing | Not | Logic | Binary


# ---------------------------------------------------------------------------------------------------------- policies


@frozen
class Doc:
    text: String
    span: Span = _span()


@frozen
class Timezone:
    zone: String
    span: Span = _span()


@frozen
class Param:
    name: Name
    value: Expr
    span: Span = _span()


@frozen
class Let:
    name: Name
    value: Expr
    span: Span = _span()


@frozen
class HoursSpan:
    """`mon..fri 08:00..22:00`; without times the whole day."""

    first: Name
    last: Name | None
    begin: Time | None
    end: Time | None
    span: Span = _span()


@frozen
class Hours:
    name: Name
    spans: tuple[HoursSpan, ...]
    span: Span = _span()


@frozen
class Setting:
    name: Name
    value: Expr
    span: Span = _span()


@frozen
class Block:
    """`arbitrate preempt { … }`, `limit { … }`."""

    kind: Name
    mode: Name | None
    settings: tuple[Setting, ...]
    span: Span = _span()


@frozen
class Class:
    name: Name
    match: Expr
    members: tuple[Setting | Block, ...]
    span: Span = _span()


@frozen
class Binding:
    """`low.max_launch_rate = …`"""

    target: Ref
    value: Expr
    span: Span = _span()


@frozen
class Held:
    """`A for d`"""

    condition: Expr
    duration: Expr | None
    span: Span = _span()


@frozen
class Body:
    """`{ … }` of a rule."""

    members: tuple["BodyMember", ...]
    span: Span = _span()


@frozen
class During:
    hours: Name
    early: Expr | None
    body: Body
    otherwise: Body | None
    span: Span = _span()


@frozen
class When:
    condition: Held
    until: Held | None
    because: String | None
    body: Body
    otherwise: Body | None
    span: Span = _span()


@frozen
class Guard:
    condition: Held
    until: Held | None
    because: String | None
    body: Body
    span: Span = _span()


@frozen
class Each:
    """`each nb as n { … }`"""

    job_class: Name
    alias: Name
    body: Body
    span: Span = _span()


BodyMember = Let | Binding | During | When
Member = Doc | Timezone | Param | Let | Hours | Class | Block | Binding | During | When | Guard | Each


@frozen
class Policy:
    name: String
    members: tuple[Member, ...]
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------------- apply


@frozen
class Applied:
    """`"preempt-mix"(quiet = 5ms)`"""

    policy: String
    args: tuple[Arg, ...]
    span: Span = _span()


@frozen
class DeviceRange:
    """`4`, `0..3`: PCI order."""

    first: int
    last: int
    span: Span = _span()


@frozen
class DeviceUuid:
    """`"GPU-5f3a"`: a prefix."""

    prefix: String
    span: Span = _span()


@frozen
class EveryDevice:
    """`*`: every device not named elsewhere."""

    span: Span = _span()


Target = DeviceRange | DeviceUuid | EveryDevice


@frozen
class Apply:
    policies: tuple[Applied, ...]
    what: Name
    """`gpu`"""
    targets: tuple[Target, ...]
    span: Span = _span()


# ------------------------------------------------------------------------------------------------------------- tests


@frozen
class UsePolicy:
    applied: Applied
    span: Span = _span()


@frozen
class Clock:
    """`clock "2026-03-02 07:40"`"""

    text: String
    span: Span = _span()


@frozen
class Simulate:
    world: Name
    args: tuple[Arg, ...]
    span: Span = _span()


@frozen
class Replay:
    """`replay "trace.jsonl"`: a recording, beside the test's file."""

    path: String
    span: Span = _span()


@frozen
class Attach:
    """`attach a { labels = ["tier=online"] }`"""

    name: Name
    settings: tuple[Setting, ...]
    span: Span = _span()


@frozen
class Run:
    """`1000/s times 600`"""

    value: Expr
    times: int | None
    span: Span = _span()


@frozen
class Feed:
    signal: Ref
    every: Expr
    runs: tuple[Run, ...]
    span: Span = _span()


@frozen
class Expect:
    condition: Expr
    span: Span = _span()


@frozen
class Poke:
    """`at 5s high.idle_for = 2s`"""

    target: Ref
    value: Expr
    span: Span = _span()


@frozen
class At:
    time: Expr
    action: Expect | Poke
    span: Span = _span()


@frozen
class Always:
    """`from A to B expect c`"""

    begin: Expr
    end: Expr
    condition: Expr
    span: Span = _span()


@frozen
class Eventually:
    """`by T expect c`"""

    time: Expr
    condition: Expr
    span: Span = _span()


Step = UsePolicy | Clock | Simulate | Replay | Attach | Feed | At | Always | Eventually


@frozen
class Test:
    name: String
    steps: tuple[Step, ...]
    span: Span = _span()


# -------------------------------------------------------------------------------------------------------------- file


@frozen
class Use:
    plugin: Name
    span: Span = _span()


Item = Policy | Apply | Test


@frozen
class File:
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
