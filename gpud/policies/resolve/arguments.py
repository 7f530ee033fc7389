"""Arguments of a call, laid out by parameter; and whether numbers are in range."""

from collections.abc import Sequence
from typing import Any, Protocol

from gpud.policies import ast
from gpud.policies.ir import Const
from gpud.policies.quantities import kept, show_value
from gpud.policies.resolve.findings import Findings, alternatives
from gpud.policies.schema import Range
from gpud.policies.source import Span
from gpud.policies.types import CAPS, EXAMPLES, Type


class Named(Protocol):
    """A parameter, of gpud or of a plugin."""

    @property
    def name(self) -> str: ...
    @property
    def required(self) -> bool: ...


def lay_out(call: ast.Call, parameters: Sequence[Named], findings: Findings) -> dict[str, ast.Arg] | None:
    """Parameter → argument, in the order of the parameters; None if one is missing. Reports what is missing, unknown,
    given twice, too much."""
    word, found = call.function.text, dict[str, ast.Arg]()
    names = [parameter.name for parameter in parameters]
    position, wrong = 0, False
    for arg in call.args:
        if arg.name is None:
            if position >= len(names):
                most = f"{len(names)} value{'' if len(names) == 1 else 's'}"
                findings.add("GP204", arg.span, f"`{word}` takes {most} at most", helps=("leave this one out",))
                wrong = True
                continue
            name = names[position]
            position += 1
        elif arg.name.text not in names:
            helps = findings.did_you_mean(arg.name.text, names) or (f"it has {alternatives(names, 'and')}",)
            findings.add("GP204", arg.name.span, f"`{word}` has no argument `{arg.name.text}`", helps=helps)
            continue
        else:
            name = arg.name.text
        if name in found:
            findings.add(
                "GP303", arg.span, f"`{name}` of `{word}` is given twice", also=((found[name].span, "first here"),),
                helps=("leave one of them out",),
            )  # fmt: skip
            continue
        found[name] = arg
    lacking = [parameter.name for parameter in parameters if parameter.required and parameter.name not in found]
    if lacking:
        report_lacking(findings, call.function.span, word, lacking)
        return None
    return None if wrong else {name: found[name] for name in names if name in found}


def report_lacking(findings: Findings, span: Span, word: str, lacking: Sequence[str]) -> None:
    """`aimd` also needs `period`."""
    findings.add("GP203", span, f"`{word}` also needs {alternatives(lacking, 'and')}")


def in_range(value: Const, allowed: Range, what: str, span: Span, findings: Findings, also: Sequence[Any] = ()) -> bool:
    """Is a constant number in its range? Reports it otherwise."""
    if value.type not in CAPS or value.value is None or allowed.holds(value.value):
        return True
    if value.value == float("inf"):
        return True  # whether it may stand there was asked before
    least, most = (show_value(kept(bound, value.type), value.type) for bound in (allowed.least, allowed.most))
    if value.value > allowed.most:
        text, helped = f"{what} can be {most} at most", f"write {most} or less"
    elif allowed.above:
        text, helped = f"{what} must be more than 0", f"for example {EXAMPLES.get(value.type, '1')}"
    elif allowed.least:
        text, helped = f"{what} must be at least {least}", f"write {least} or more"
    else:
        text, helped = f"{what} cannot be negative", f"write {least} or more"
    findings.add("GP206", span, text, show_value(kept(value.value, value.type), value.type), also=also, helps=(helped,))
    return False


def whole(value: Const, what: str, span: Span, findings: Findings, least: int = 1) -> Const:
    """A count. Reports a fraction, and goes on with what is below it."""
    if value.value == float("inf") or value.value is None or value.value == int(value.value):
        return value
    near = _neighbours(int(value.value), least, "")
    findings.add("GP501", span, f"{what} is a whole number", helps=(f"write {near}",))
    return Const(max(int(value.value), least), Type.NUMBER, value.span)


def whole_percent(value: Const, span: Span, findings: Findings) -> int:
    """Percent of compute. Reports a fraction, and goes on with what is below it."""
    hundredths = value.value * 100
    if hundredths != int(hundredths):
        near = _neighbours(int(hundredths), 1, "%")
        findings.add("GP501", span, "compute is divided in whole percent", helps=(f"write {near}",))
    return max(int(hundredths), 1)


def whole_mib(value: Const, span: Span, findings: Findings) -> int:
    """Bytes of a memory limit. Reports what is no whole MiB, and goes on with what is below it."""
    count, rest = divmod(value.value, 2**20)
    if rest:
        near = _neighbours(int(count), 1, "MiB")
        findings.add("GP501", span, "memory limits are kept in whole MiB", helps=(f"write {near}",))
    return max(int(count), 1) * 2**20


def _neighbours(below: int, least: int, unit: str) -> str:
    """`1MiB or 2MiB`; only the upper one if the lower makes no sense."""
    return " or ".join(f"{number}{unit}" for number in (below, below + 1) if number >= least)
