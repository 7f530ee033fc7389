"""Syntax tree → text. Of comments and spaces a tree knows nothing: format.py keeps those of a file."""

from gpud.policies import ast
from gpud.policies.source import Source

_LEVELS = {"or": 1, "and": 2, "not": 3, "compare": 4, "+": 5, "-": 5, "*": 6, "/": 6}
_ATOM = 7
_SHORT = 60
"""Characters of settings that may stand beside each other in one line."""


def print_expr(expr: ast.Expr, numbers: str = "") -> str:
    """In one line, with the parentheses that are needed. `numbers`: what stands for every number, if not itself."""
    match expr:
        case ast.Quantity():
            return numbers or expr.number + expr.unit
        case ast.String():
            return f'"{expr.text}"'
        case ast.Bool():
            return "true" if expr.value else "false"
        case ast.Unlimited():
            return numbers or "unlimited"
        case ast.Ref():
            return expr.text
        case ast.Call():
            return expr.function.text + print_args(expr.args, numbers)
        case ast.Listing():
            return f"[{', '.join(print_expr(item, numbers) for item in expr.items)}]"
        case ast.Not():
            return f"not {_at(expr.operand, _LEVELS['not'], numbers)}"
        case ast.Logic():
            # One within another of its own kind keeps its parentheses: they are two nodes.
            return f" {expr.op} ".join(_at(operand, _LEVELS[expr.op] + 1, numbers) for operand in expr.operands)
        case ast.Binary():
            level = _level(expr)
            # Comparisons do not chain, the others are read from the left.
            left = level + 1 if level == _LEVELS["compare"] else level
            return f"{_at(expr.left, left, numbers)} {expr.op} {_at(expr.right, level + 1, numbers)}"


def print_args(args: tuple[ast.Arg, ...], numbers: str = "") -> str:
    """`(quiet = 5ms)`"""
    names = (f"{arg.name.text} = " if arg.name else "" for arg in args)
    values = (print_expr(arg.value, numbers) for arg in args)
    return f"({', '.join(map(str.__add__, names, values))})"


def _level(expr: ast.Expr) -> int:
    match expr:
        case ast.Logic():
            return _LEVELS[expr.op]
        case ast.Not():
            return _LEVELS["not"]
        case ast.Binary():
            return _LEVELS.get(expr.op, _LEVELS["compare"])
        case _:
            return _ATOM


def _at(expr: ast.Expr, least: int, numbers: str) -> str:
    text = print_expr(expr, numbers)
    return text if _level(expr) >= least else f"({text})"


def print_held(held: ast.Held) -> str:
    """`A for d`"""
    text = print_expr(held.condition)
    return text if held.duration is None else f"{text} for {print_expr(held.duration)}"


# ------------------------------------------------------------------------------------------------------------- files


def print_file(file: ast.File) -> str:
    """The whole file in the style of `gpud policy fmt`."""
    from gpud.policies.format import format_text

    head = [f"gpol {file.version}", *(f"use {use.plugin.text}" for use in file.uses)]
    parts = ["\n".join(head), *(print_item(item) for item in file.items)]
    return format_text(Source("", "\n\n".join(parts) + "\n"))


def print_item(item: ast.Item) -> str:
    """A policy, an `apply` line or a test; indented, not yet aligned."""
    match item:
        case ast.Policy():
            return _braces(f'policy "{item.name.text}"', [_member(member) for member in item.members])
        case ast.Test():
            return _braces(f'test "{item.name.text}"', [_step(step) for step in item.steps])
        case ast.Apply():
            targets = ", ".join(_target(target) for target in item.targets)
            return f"apply {', '.join(_applied(one) for one in item.policies)} to {item.what.text} {targets}"


def _braces(head: str, lines: list[str], *, short: bool = False) -> str:
    """`head { … }`; `short`: in one line if it is not long."""
    if not lines:
        return f"{head} {{}}"
    if short and sum(map(len, lines)) <= _SHORT and not any("\n" in line for line in lines):
        return f"{head} {{ {'  '.join(lines)} }}"
    inner = "".join(f"  {line}\n" for text in lines for line in text.split("\n"))
    return f"{head} {{\n{inner}}}"


def _member(member: ast.Member | ast.Setting) -> str:
    match member:
        case ast.Doc():
            return f'doc "{member.text.text}"'
        case ast.Timezone():
            return f'timezone "{member.zone.text}"'
        case ast.Param():
            return f"param {member.name.text} = {print_expr(member.value)}"
        case ast.Let():
            return f"let {member.name.text} = {print_expr(member.value)}"
        case ast.Hours():
            return f"hours {member.name.text} = {', '.join(_hours_span(span) for span in member.spans)}"
        case ast.Setting():
            return f"{member.name.text} = {print_expr(member.value)}"
        case ast.Binding():
            return f"{member.target.text} = {print_expr(member.value)}"
        case ast.Class():
            lines = [f"match {print_expr(member.match)}", *(_member(inner) for inner in member.members)]
            return _braces(f"class {member.name.text}", lines, short=True)
        case ast.Block():
            mode = f" {member.mode.text}" if member.mode else ""
            return _braces(member.kind.text + mode, [_member(row) for row in member.settings], short=True)
        case ast.Each():
            return _braces(f"each {member.job_class.text} as {member.alias.text}", _lines(member.body))
        case ast.During():
            early = "" if member.early is None else f" early {print_expr(member.early)}"
            return _braces(f"during {member.hours.text}{early}", _lines(member.body)) + _else(member.otherwise)
        case ast.When():
            return _braces(_rule("when", member), _lines(member.body)) + _else(member.otherwise)
        case ast.Guard():
            return _braces(_rule("guard", member), _lines(member.body))


def _lines(body: ast.Body) -> list[str]:
    return [_member(member) for member in body.members]


def _else(body: ast.Body | None) -> str:
    return "" if body is None else "\n" + _braces("else", _lines(body))


def _rule(word: str, rule: ast.When | ast.Guard) -> str:
    until = "" if rule.until is None else f" until {print_held(rule.until)}"
    because = "" if rule.because is None else f'\n  because "{rule.because.text}"'
    return f"{word} {print_held(rule.condition)}{until}{because}"


def _hours_span(span: ast.HoursSpan) -> str:
    days = span.first.text if span.last is None else f"{span.first.text}..{span.last.text}"
    return days if span.begin is None or span.end is None else f"{days} {span.begin.text}..{span.end.text}"


def _applied(applied: ast.Applied) -> str:
    return f'"{applied.policy.text}"' + (print_args(applied.args) if applied.args else "")


def _target(target: ast.Target) -> str:
    match target:
        case ast.DeviceRange():
            return str(target.first) if target.first == target.last else f"{target.first}..{target.last}"
        case ast.DeviceUuid():
            return f'"{target.prefix.text}"'
        case ast.EveryDevice():
            return "*"


def _step(step: ast.Step) -> str:
    match step:
        case ast.UsePolicy():
            return f"policy {_applied(step.applied)}"
        case ast.Clock():
            return f'clock "{step.text.text}"'
        case ast.Simulate():
            return f"simulate {step.world.text}{print_args(step.args)}"
        case ast.Replay():
            return f'replay "{step.path.text}"'
        case ast.Attach():
            return _braces(f"attach {step.name.text}", [_member(row) for row in step.settings], short=True)
        case ast.Feed():
            runs = ", ".join(
                print_expr(run.value) + ("" if run.times is None else f" times {run.times}") for run in step.runs
            )
            return f"feed {step.signal.text} every {print_expr(step.every)} = {runs}"
        case ast.At():
            return f"at {print_expr(step.time)} {_action(step.action)}"
        case ast.Always():
            span = f"from {print_expr(step.begin)} to {print_expr(step.end)}"
            return f"{span} expect {print_expr(step.condition)}"
        case ast.Eventually():
            return f"by {print_expr(step.time)} expect {print_expr(step.condition)}"


def _action(action: ast.Expect | ast.Poke) -> str:
    if isinstance(action, ast.Expect):
        return f"expect {print_expr(action.condition)}"
    return f"{action.target.text} = {print_expr(action.value)}"
