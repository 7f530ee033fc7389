"""Blocks of a policy and of a class: which there are, which settings they have, which go together."""

from collections.abc import Iterable, Sequence

from gpud.policies import ast
from gpud.policies.ir import IrBlock, IrSetting
from gpud.policies.quantities import show_value
from gpud.policies.resolve.arguments import report_lacking
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.resolve.reading import PolicyScope
from gpud.policies.resolve.settings import read_setting
from gpud.policies.schema import BLOCKS, CLASS_SETTINGS, KNOBS, MODES, Row
from gpud.policies.source import Span
from gpud.policies.types import Type

POLICY_BLOCKS = ("arbitrate", "swap", "admit", "failsafe")


def title(kind: str, mode: str) -> str:
    """`arbitrate preempt`, `swap`."""
    return f"{kind} {mode}".strip()


def mode_of(block: ast.Block, findings: Findings) -> str | None:
    """The second word of a block, if it is right; None: reported."""
    kind, mode = block.kind.text, block.mode
    if kind != "arbitrate":
        if mode is not None:
            findings.add("GP204", mode.span, f"there is no `{kind} {mode.text}`", helps=(f"write `{kind} {{ … }}`",))
            return None
        return ""
    if mode is None:
        helps: tuple[str, ...] = (f"write {alternatives(f'arbitrate {word}' for word in MODES)}",)
        findings.add("GP203", block.kind.span, "`arbitrate` also needs a mode", helps=helps)
        return None
    if mode.text not in MODES:
        helps = findings.did_you_mean(mode.text, MODES) or (f"write {alternatives(MODES)}",)
        findings.add("GP204", mode.span, f"there is no `arbitrate {mode.text}`", helps=helps)
        return None
    return mode.text


def unknown_block(block: ast.Block, in_class: bool, findings: Findings) -> None:
    """No block of that kind stands here."""
    kind, span = block.kind.text, block.kind.span
    if in_class and kind in POLICY_BLOCKS:
        findings.add("GP204", span, f"`{kind}` does not stand in a class", helps=("put it into the policy",))
    elif not in_class and kind == "limit":
        findings.add("GP204", span, "`limit` stands in a class", helps=("write `class … { match … limit { … } }`",))
    else:
        helps = findings.did_you_mean(kind, ("limit",) if in_class else (*POLICY_BLOCKS, "class"))
        here = "`limit`" if in_class else alternatives(POLICY_BLOCKS, "and")
        findings.add("GP204", span, f"there is no block `{kind}`", helps=helps or (f"there are {here}",))


def read_block(block: ast.Block, mode: str, scope: PolicyScope) -> IrBlock:
    """A block whose kind and mode are right."""
    kind = block.kind.text
    name = title(kind, mode)
    found = read_settings(block.settings, BLOCKS[kind, mode], name, scope, kind)
    written = {setting.name.text for setting in block.settings}
    lacking = [row.name for row in BLOCKS[kind, mode] if row.required and row.name not in written]
    if lacking:
        report_lacking(scope.findings, block.kind.span, name, lacking)
    return IrBlock(kind, mode, found, block.span)


def read_settings(
    settings: Iterable[ast.Setting], rows: Sequence[Row], owner: str, scope: PolicyScope, kind: str
) -> dict[str, IrSetting]:
    """Settings that are right, in text order."""
    by_name = {row.name: row for row in rows}
    seen: dict[str, Span] = {}
    found: dict[str, IrSetting] = {}
    for setting in settings:
        name = setting.name
        if name.text in seen:
            scope.findings.add(
                "GP303", name.span, f"`{name.text}` is set twice in one block", "set again",
                also=((seen[name.text], "first set here"),), helps=("leave one of them out",),
            )  # fmt: skip
            continue
        seen[name.text] = name.span
        row = by_name.get(name.text)
        if row is None:
            helps = _home_of(name.text, kind, owner, scope) or scope.findings.did_you_mean(name.text, by_name)
            helps = helps or ((f"settings here are {alternatives(by_name, 'and')}",) if by_name else ("it has none",))
            scope.findings.add("GP204", name.span, f"`{owner}` has no setting `{name.text}`", helps=helps)
            continue
        value = read_setting(row, setting.value, scope, kind)
        if value is not None:
            found[name.text] = IrSetting(value, setting.span, setting.value.span)
    return found


def _home_of(name: str, kind: str, owner: str, scope: PolicyScope) -> tuple[str, ...]:
    """Where a setting belongs that stands in the wrong block; `owner`: `class low`."""
    if any(row.name == name for row in CLASS_SETTINGS):
        return () if kind == "class" else (f"`{name}` is a setting of a class",)
    homes = [title(*key) for key, rows in BLOCKS.items() if any(row.name == name for row in rows)]
    if kind == "class" and "limit" in homes:
        return (f"put it into `limit {{ {name} = … }}`",)
    of_all = f"`{name}` is a setting of {alternatives(homes, 'and')}" if homes else ""
    if name in KNOBS and (kind == "class" or not homes):
        job_class = owner.removeprefix("class ") if kind == "class" else next(scope.known.visible("class"), "class")
        return f"`{name}` is a knob; bind it in the policy: `{job_class}.{name} = …`", of_all
    return (of_all,) if homes else ()


# ------------------------------------------------------------------------------------------------ what goes together


def check_together(block: IrBlock, mode: str, findings: Findings) -> None:
    """Settings that contradict each other, or have no effect beside each other. `mode`: of the policy's arbiter."""
    at = block.settings
    if block.kind == "arbitrate" and mode == "preempt":
        pause = at.get("max_pause")
        if "pass" in at and pause is not None and pause.value == float("inf"):
            _useless(findings, at["pass"].span, "`pass` has no effect: nobody is held for `max_pause`", pause.span)
    if block.kind == "arbitrate" and mode == "share":
        _ordered(findings, at, "reclaim", "period")
    if block.kind == "arbitrate" and mode == "exclusive":
        _ordered(findings, at, "min_hold", "max_hold")
    if block.kind == "failsafe" and "daemon_lost" in at:
        lost = at["daemon_lost"]
        if lost.value == "open" and mode == "exclusive":
            findings.add(
                "GP206", lost.value_span, "under `arbitrate exclusive` a hook never opens by itself",
                helps=("write `hold` or `closed`",),
            )  # fmt: skip
        elif "after" in at and (lost.value != "hold" or mode == "exclusive"):
            why = "under `arbitrate exclusive`" if lost.value == "hold" else f"with `daemon_lost = {lost.value}`"
            _useless(findings, at["after"].span, f"`after` has no effect {why}", lost.span)


def _useless(findings: Findings, span: Span, message: str, cause: Span) -> None:
    findings.add("GP403", span, message, also=((cause, "because of this"),), helps=("leave it out",))


def _ordered(findings: Findings, at: dict[str, IrSetting], less: str, more: str) -> None:
    if less in at and more in at and at[less].value > at[more].value:
        most = show_value(at[more].value, Type.DURATION)
        findings.add(
            "GP206", at[less].value_span, f"`{less}` lies above `{more}`", also=((at[more].value_span, f"`{more}`"),),
            helps=(f"write {most} or less",),
        )  # fmt: skip
