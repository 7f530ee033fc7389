"""What a change of the set does on each device, said per policy, knob and rule. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from attrs import frozen

from gpud.engine.board import Applied, Board, Stack
from gpud.model.policy_views import ChangeView, DevicePlanView
from gpud.policies.ir import IrBody, IrPolicy, IrRule
from gpud.policies.quantities import show_value
from gpud.policies.source import Span

MOST = 100
"""Differences of one policy that are said; more are counted."""
LONGEST = 160
"""Characters of a text of the policy."""
_COMMENT = re.compile(r'("[^"\n]*")|#[^\n]*')


@frozen
class _Fact:
    """One thing that a policy says."""

    label: str
    text: str
    line: int
    whole: str
    """What is shown of it where only one of two policies says it."""
    parent: str = ""
    """Key of the rule that it is in: when that comes or goes as a whole, this is not said apart."""


def plan(
    before: Board, after: Board, devices: Iterable[tuple[int, bytes, int]], out: Mapping[int, Set[int]] | None = None
) -> tuple[DevicePlanView, ...]:
    """`devices`: (slot, uuid, index in PCI order). `out`: jobs with memory in host memory, by slot. One entry for all
    devices that get the same; devices where nothing changes are left out."""
    groups: dict[tuple[tuple[str, ...], ...], tuple[Stack, Stack, list[int | None]]] = {}
    for slot, old, new in [
        *((slot, before.stack(uuid, index), after.stack(uuid, index)) for slot, uuid, index in devices),
        (None, before.others, after.others),
    ]:
        groups.setdefault((_digests(old), _digests(new)), (old, new, []))[2].append(slot)
    return tuple(
        DevicePlanView(
            devices=tuple(slot for slot in slots if slot is not None),
            others=None in slots,
            before=stack_text(old),
            after=stack_text(new),
            changes=(
                *_stacks(old, new),
                *_out(old, new, {job for slot in slots if slot is not None for job in (out or {}).get(slot, ())}),
            ),
        )
        for old, new, slots in groups.values()
        if _digests(old) != _digests(new)
    )


def _out(before: Stack, after: Stack, jobs: Set[int]) -> Iterator[ChangeView]:
    """Memory was swapped, and is not any more: who has some of it out waits until there is room."""
    name = next((applied.name for applied in before if _swaps(applied)), "")
    if not name or not jobs or any(map(_swaps, after)):
        return
    who, them = ("1 job has", "it waits") if len(jobs) == 1 else (f"{len(jobs)} jobs have", "they wait")
    text = f"memory is not swapped any more: {who} memory out of the device, and {them} until there is room for it"
    yield ChangeView(sign="!", policy=name, line=0, text=text)


def _swaps(applied: Applied) -> bool:
    return applied.program.ir.swap is not None


def stack_text(stack: Stack) -> str:
    """As `apply` writes it, without quotes: `preempt-mix(quiet = 5ms), quotas`."""
    return ", ".join(map(applied_text, stack))


def applied_text(applied: Applied) -> str:
    """`preempt-mix(quiet = 5ms)`"""
    arguments = ", ".join(f"{name} = {value}" for name, value in arguments_of(applied))
    return f"{applied.name}({arguments})" if arguments else applied.name


def arguments_of(applied: Applied) -> tuple[tuple[str, str], ...]:
    """(parameter, value as the language writes it), those that `apply` gives."""
    types = {param.name: param.type for param in applied.program.ir.params}
    return tuple((name, show_value(value, types[name])) for name, value in applied.program.arguments)


def _digests(stack: Stack) -> tuple[str, ...]:
    return tuple(applied.program.digest for applied in stack)


def _stacks(before: Stack, after: Stack) -> Iterator[ChangeView]:
    old, new = ({applied.name: applied for applied in stack} for stack in (before, after))
    for name, applied in new.items():
        if name not in old:
            yield ChangeView(sign="+", policy=name, line=_line(applied), text=applied_text(applied))
        elif old[name].program.digest != applied.program.digest:
            yield from _policies(old[name], applied)
    for name, applied in old.items():
        if name not in new:
            yield ChangeView(sign="-", policy=name, line=_line(applied), text=applied_text(applied))


def _line(applied: Applied) -> int:
    ir = applied.program.ir
    return ir.source.position(ir.name_span.start)[0]


def _policies(before: Applied, after: Applied) -> Iterator[ChangeView]:
    changes = list(_changes(before, after))
    yield from changes[:MOST]
    if len(changes) > MOST:
        yield ChangeView(sign="!", policy=after.name, line=0, text=f"and {len(changes) - MOST} more")


def _changes(before: Applied, after: Applied) -> Iterator[ChangeView]:
    old, new = _facts(before.program.ir), _facts(after.program.ir)
    name, count = after.name, 0
    for key, fact in new.items():
        if key in old and old[key].text != fact.text:
            text = f"{fact.label} = {old[key].text} → {fact.text}" if fact.label else f"{old[key].text} → {fact.text}"
            yield ChangeView(sign="~", policy=name, line=fact.line, text=text)
        elif key not in old and (fact.parent not in new or fact.parent in old):
            yield ChangeView(sign="+", policy=name, line=fact.line, text=fact.whole)
        else:
            continue
        count += 1
    for key, fact in old.items():
        if key not in new and (fact.parent not in old or fact.parent in new):
            yield ChangeView(sign="-", policy=name, line=fact.line, text=fact.whole)
            count += 1
    if [key for key in old if key in new] != [key for key in new if key in old]:
        yield ChangeView(sign="~", policy=name, line=0, text="in another order")
    elif not count:
        yield ChangeView(sign="!", policy=name, line=0, text="its words change, what it does stays")
    for identity in _anew(before, after):
        yield ChangeView(sign="!", policy=name, line=0, text=f"`{identity}` starts anew")


def _anew(before: Applied, after: Applied) -> Sequence[str]:
    """Operators and rules whose state cannot be carried over."""
    _, anew = after.program.carry(before.program.initial, before.program, after.program.initial)
    return anew


def _facts(ir: IrPolicy) -> dict[str, _Fact]:
    """By a key that stays when values and places change."""
    found: dict[str, _Fact] = {}

    def say(key: str, label: str, text: str, at: Span, whole: str = "", parent: str = "") -> None:
        line = ir.source.position(at.start)[0]
        whole = whole or (f"{label} = {text}" if label else text)
        found.setdefault(key, _Fact(_cut(label), _cut(text), line, _cut(whole), parent))

    def text(span: Span) -> str:
        raw = _COMMENT.sub(lambda match: match.group(1) or "", ir.source.text[span.start : span.end])
        return " ".join(raw.split())

    def body(part: IrBody, parent: str, where: str, branch: str = "") -> None:
        for binding in part.bindings:
            knob, key = binding.knob.text, f"{parent}{branch}/{binding.knob.text}"
            label = f"{knob} in `{where}`" if where else knob
            say(key, label, text(binding.span).partition("=")[2].strip(), binding.span, parent=parent)
        for inner in part.rules:
            rule(inner, parent, branch)

    def rule(one: IrRule, parent: str, branch: str = "") -> None:
        key, head = f"{parent}{branch}/{one.identity}", text(one.head)
        says = text(Span(one.span.start, one.body.span.start))  # with `until` and `because`
        say(key, "", says, one.head, whole=text(one.span), parent=parent)
        body(one.body, key, head)
        if one.otherwise is not None:
            body(one.otherwise, key, f"{head} … else", "/else")

    for param in ir.params:
        shown = show_value(param.value, param.type)
        say(f"param {param.name}", param.name, shown, param.span, whole=f"param {param.name} = {shown}")
    if ir.timezone is not None:
        say("timezone", "timezone", ir.timezone, ir.span)
    for hours in ir.hours:
        say(f"hours {hours.name}", f"hours {hours.name}", text(hours.span).partition("=")[2].strip(), hours.span)
    for job_class in ir.classes:
        name = f"class {job_class.name}"
        say(name, name, text(job_class.match.span), job_class.span, whole=text(job_class.span))
        for setting, value in job_class.settings.items():
            say(f"{name}/{setting}", f"{job_class.name}.{setting}", text(value.value_span), value.span, parent=name)
        for setting, value in (job_class.limit.settings if job_class.limit else {}).items():
            label = f"{job_class.name} limit {setting}"
            say(f"{name}/limit {setting}", label, text(value.value_span), value.span, parent=name)
    for block in (ir.arbiter, ir.swap, ir.admit, ir.failsafe):
        if block is not None:
            say(block.kind, block.kind, block.mode or "…", block.span, whole=text(block.span))
            for setting, value in block.settings.items():
                key = f"{block.kind}/{setting}"
                say(key, f"{block.kind} {setting}", text(value.value_span), value.span, parent=block.kind)
    for let in ir.lets:
        say(f"let {let.name}", f"let {let.name}", text(let.span).partition("=")[2].strip(), let.span)
    body(ir.body, "", "")
    for guard in ir.guards:
        rule(guard, "")
    for each in ir.eaches:
        key = f"each {each.job_class}"
        say(key, "", f"each {each.job_class}", each.span, whole=text(each.span))
        body(each.body, key, f"each {each.job_class}")
    return found


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
