"""What becomes of each rule of the grammar: `ACTIONS[rule](children, tree)` → a node.

Children are nodes, and a pair (start, end) for each keyword and sign. Callbacks compute spans, and keep trees shallow:
what walks them later may recurse.
"""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from gpud.policies import ast
from gpud.policies.source import Span

DEEPEST = 64
"""Levels of expressions in expressions, and of rules in rules."""
LONGEST_NUMBER, LONGEST_NAME, LONGEST_STRING = 40, 100, 1000
"""Characters. Whoever reads a number or prints a name later relies on it."""


class Refused(Exception):
    """A node that cannot be: (code, message, span, label, help)."""

    def __init__(self, code: str, message: str, span: Span, label: str, *helps: str) -> None:
        super().__init__(message)
        self.code, self.message, self.span, self.label, self.helps = code, message, span, label, helps


class Tree:
    """What is built of one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depths: dict[int, int] = {}
        """id of a node that has others in it → levels. Nodes stay alive as long as this."""
        self.alive: list[Any] = []

    def deep(self, node: Any, parts: Any) -> Any:
        """The node, with its depth noted; refused if it is too deep."""
        depths, depth = self.depths, 0
        for part in parts:
            depth = max(depth, depths.get(id(part), 0))
        if depth >= DEEPEST:
            raise Refused(
                "GP108",
                f"nested more than {DEEPEST} deep",
                node.span,
                "this holds too many levels",
                "give parts of it a name with `let`",
            )
        depths[id(node)] = depth + 1
        self.alive.append(node)
        return node


Action = Callable[[list[Any], Tree], Any]


# ---------------------------------------------------------------------------------------------------------- leaves


def name(tree: Tree, start: int, end: int) -> ast.Name:
    if end - start > LONGEST_NAME:
        raise _long("name", LONGEST_NAME, start, end)
    return ast.Name(tree.text[start:end], Span(start, end))


def string(tree: Tree, start: int, end: int) -> ast.String:
    if end - start - 2 > LONGEST_STRING:
        raise _long("text", LONGEST_STRING, start, end)
    return ast.String(tree.text[start + 1 : end - 1], Span(start, end))


def time(tree: Tree, start: int, end: int) -> ast.Time:
    return ast.Time(tree.text[start:end], Span(start, end))


def number(tree: Tree, start: int, end: int) -> ast.Quantity:
    if end - start > LONGEST_NUMBER:
        raise _long("number", LONGEST_NUMBER, start, end)
    return ast.Quantity(tree.text[start:end], "", Span(start, end))


def quantity(tree: Tree, start: int, end: int) -> ast.Quantity:
    text = tree.text[start:end]
    digits = text.rstrip("%/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    if end - start > LONGEST_NUMBER:
        raise _long("number", LONGEST_NUMBER, start, end)
    return ast.Quantity(digits, text[len(digits) :], Span(start, end))


def _long(what: str, most: int, start: int, end: int) -> Refused:
    return Refused("GP108", f"a {what} of more than {most} characters", Span(start, start + most), "too long")


LEAVES: dict[str, Callable[[Tree, int, int], Any]] = {
    "NAME": name,
    "STRING": string,
    "TIME": time,
    "NUMBER": number,
    "QUANTITY": quantity,
    "RATE": quantity,
}


# ----------------------------------------------------------------------------------------------------- expressions


def _nodes(children: list[Any]) -> tuple[Any, ...]:
    """Without keywords and signs."""
    return tuple(child for child in children if type(child) is not tuple)


def _logic(op: str) -> Action:
    def build(c: list[Any], tree: Tree) -> ast.Logic:
        operands = tuple(c[::2])
        return tree.deep(ast.Logic(op, operands, Span(c[0].span.start, c[-1].span.end)), operands)  # type: ignore[no-any-return]

    return build


def _chain(c: list[Any], tree: Tree) -> Any:
    """`a - b + c`: from the left."""
    left = c[0]
    for at in range(1, len(c), 2):
        op, right = c[at], c[at + 1]
        node = ast.Binary(
            tree.text[op[0] : op[1]], left, right, Span(left.span.start, right.span.end), Span(op[0], op[1])
        )
        left = tree.deep(node, (left, right))
    return left


def _negation(c: list[Any], tree: Tree) -> Any:
    return tree.deep(ast.Not(c[1], Span(c[0][0], c[1].span.end)), c[1:])


def _group(c: list[Any], tree: Tree) -> Any:
    """What is in parentheses, which count as part of it where it is shown."""
    inner = c[1]
    return tree.deep(inner.but(span=Span(c[0][0], c[2][1])), (inner,))


def _listing(c: list[Any], tree: Tree) -> Any:
    items = _nodes(c)
    return tree.deep(ast.Listing(items, Span(c[0][0], c[-1][1])), items)


def _call(c: list[Any], tree: Tree) -> Any:
    function, (args, end) = c
    return tree.deep(ast.Call(function, args, Span(function.span.start, end)), [arg.value for arg in args])


def _args(c: list[Any], tree: Tree) -> list[Any]:
    """A pair too, but a list: the arguments, and where they end."""
    return [_nodes(c), c[-1][1]]


def _arg(c: list[Any], tree: Tree) -> ast.Arg:
    value = c[-1]
    if len(c) == 1:
        return ast.Arg(None, value, value.span)
    return ast.Arg(c[0], value, Span(c[0].span.start, value.span.end))


def _ref(c: list[Any], tree: Tree) -> ast.Ref:
    if len(c) == 1:
        return ast.Ref((c[0],), c[0].span)
    parts = tuple(_word(part, tree) for part in c[::2])
    return ast.Ref(parts, Span(parts[0].span.start, parts[-1].span.end))


def _word(part: Any, tree: Tree) -> ast.Name:
    """A name, or a keyword that may stand for one."""
    if type(part) is tuple:
        return ast.Name(tree.text[part[0] : part[1]], Span(*part))
    return part  # type: ignore[no-any-return]


def _whole(value: ast.Quantity, what: str) -> int:
    digits = value.number.replace("_", "")
    if not digits.isdigit() or len(digits) > 9:
        raise Refused("GP101", f"unexpected `{value.number}`", value.span, f"expected {what}, a whole number")
    return int(digits)


# -------------------------------------------------------------------------------------------------------- policies


def _spanned(c: list[Any]) -> Span:
    first, last = c[0], c[-1]
    return Span(
        first[0] if type(first) is tuple else first.span.start, last[1] if type(last) is tuple else last.span.end
    )


def _hours_span(c: list[Any], tree: Tree) -> ast.HoursSpan:
    first, last = c[0]
    end = c[3].span.end if len(c) > 1 else (last or first).span.end
    begin_at, end_at = (c[1], c[3]) if len(c) > 1 else (None, None)
    return ast.HoursSpan(first, last, begin_at, end_at, Span(first.span.start, end))


def _setting(c: list[Any], tree: Tree) -> ast.Setting:
    key, value = _word(c[0], tree), c[2]
    if type(value) is tuple:  # `per = class`
        word = _word(value, tree)
        value = ast.Ref((word,), word.span)
    return ast.Setting(key, value, Span(key.span.start, value.span.end))


def _block(c: list[Any], tree: Tree) -> ast.Block:
    mode = c[1] if type(c[1]) is ast.Name else None
    settings = tuple(child for child in c if type(child) is ast.Setting)
    return ast.Block(c[0], mode, settings, Span(c[0].span.start, c[-1][1]))


def _body(c: list[Any], tree: Tree) -> Any:
    members = tuple(c[1:-1])
    return tree.deep(ast.Body(members, Span(c[0][0], c[-1][1])), members)


@frozen
class _Else:
    """The other branch, as a child."""

    body: ast.Body


def _rule_parts(c: list[Any]) -> tuple[dict[str, Any], Span]:
    parts: dict[str, Any] = {"until": None, "because": None, "body": None, "otherwise": None}
    for child in c[2:]:
        kind = type(child)
        if kind is ast.Held:
            parts["until"] = child
        elif kind is ast.String:
            parts["because"] = child
        elif kind is ast.Body:
            parts["body"] = child
        elif kind is _Else:
            parts["otherwise"] = child.body
    return parts, Span(c[0][0], (parts["otherwise"] or parts["body"]).span.end)


def _when(c: list[Any], tree: Tree) -> Any:
    parts, span = _rule_parts(c)
    node = ast.When(c[1], span=span, **parts)
    return tree.deep(node, (node.body, node.otherwise))


def _guard(c: list[Any], tree: Tree) -> ast.Guard:
    parts, span = _rule_parts(c)
    del parts["otherwise"]  # the grammar gives a guard none
    return ast.Guard(c[1], span=span, **parts)


def _during(c: list[Any], tree: Tree) -> Any:
    parts, span = _rule_parts(c)
    early = c[3] if type(c[2]) is tuple else None
    node = ast.During(c[1], early, parts["body"], parts["otherwise"], span)
    return tree.deep(node, (node.body, node.otherwise))


def _target(c: list[Any], tree: Tree) -> ast.DeviceRange:
    first = _whole(c[0], "a device")
    return ast.DeviceRange(first, _whole(c[2], "a device") if len(c) > 1 else first, _spanned(c))


def _applied(c: list[Any], tree: Tree) -> ast.Applied:
    args, end = c[1] if len(c) > 1 else ((), c[0].span.end)
    return ast.Applied(c[0], args, Span(c[0].span.start, end))


def _apply(c: list[Any], tree: Tree) -> ast.Apply:
    nodes = _nodes(c)
    policies = tuple(node for node in nodes if type(node) is ast.Applied)
    return ast.Apply(policies, nodes[len(policies)], nodes[len(policies) + 1 :], _spanned(c))


# ----------------------------------------------------------------------------------------------------------- tests


def _run(c: list[Any], tree: Tree) -> ast.Run:
    return ast.Run(c[0], _whole(c[2], "how often") if len(c) > 1 else None, _spanned(c))


def _test_policy(c: list[Any], tree: Tree) -> ast.UsePolicy:
    return ast.UsePolicy(c[1], _spanned(c))


def _simulate(c: list[Any], tree: Tree) -> ast.Simulate:
    args, end = c[2]
    return ast.Simulate(c[1], args, Span(c[0][0], end))


ACTIONS: dict[str, Action] = {
    "start": lambda c, t: c,
    "version": lambda c, t: c[1],
    "use": lambda c, t: ast.Use(c[1], _spanned(c)),
    "policy": lambda c, t: ast.Policy(c[1], tuple(c[3:-1]), _spanned(c)),
    "doc": lambda c, t: ast.Doc(c[1], _spanned(c)),
    "timezone": lambda c, t: ast.Timezone(c[1], _spanned(c)),
    "param": lambda c, t: ast.Param(c[1], c[3], _spanned(c)),
    "let": lambda c, t: ast.Let(c[1], c[3], _spanned(c)),
    "hours": lambda c, t: ast.Hours(c[1], tuple(c[3::2]), _spanned(c)),
    "each": lambda c, t: ast.Each(c[1], c[3], c[4], _spanned(c)),
    "span": _hours_span,
    "days": lambda c, t: [c[0], c[2] if len(c) > 1 else None],
    "class_": lambda c, t: ast.Class(c[1], c[4], tuple(c[5:-1]), _spanned(c)),
    "block": _block,
    "setting": _setting,
    "binding": lambda c, t: ast.Binding(c[0], c[2], _spanned(c)),
    "during": _during,
    "when": _when,
    "guard": _guard,
    "because": lambda c, t: c[1],
    "held": lambda c, t: ast.Held(c[0], c[2] if len(c) > 1 else None, _spanned(c)),
    "else_": lambda c, t: _Else(c[1]),
    "body": _body,
    "apply": _apply,
    "applied": _applied,
    "devices": _target,
    "device_uuid": lambda c, t: ast.DeviceUuid(c[0], c[0].span),
    "every_device": lambda c, t: ast.EveryDevice(Span(*c[0])),
    "or_": _logic("or"),
    "and_": _logic("and"),
    "negation": _negation,
    "comparison": _chain,
    "membership": _chain,
    "sum": _chain,
    "product": _chain,
    "true": lambda c, t: ast.Bool(True, Span(*c[0])),
    "false": lambda c, t: ast.Bool(False, Span(*c[0])),
    "unlimited": lambda c, t: ast.Unlimited(Span(*c[0])),
    "group": _group,
    "list": _listing,
    "call": _call,
    "args": _args,
    "arg": _arg,
    "ref": _ref,
    "test": lambda c, t: ast.Test(c[1], tuple(c[3:-1]), _spanned(c)),
    "use_policy": _test_policy,
    "clock": lambda c, t: ast.Clock(c[1], _spanned(c)),
    "simulate": _simulate,
    "replay": lambda c, t: ast.Replay(c[1], _spanned(c)),
    "attach": lambda c, t: ast.Attach(c[1], tuple(c[3:-1]), _spanned(c)),
    "feed": lambda c, t: ast.Feed(c[1], c[3], tuple(c[5::2]), _spanned(c)),
    "at": lambda c, t: ast.At(c[1], c[2], _spanned(c)),
    "expect": lambda c, t: ast.Expect(c[1], _spanned(c)),
    "poke": lambda c, t: ast.Poke(c[0], c[2], _spanned(c)),
    "always": lambda c, t: ast.Always(c[1], c[3], c[5], _spanned(c)),
    "eventually": lambda c, t: ast.Eventually(c[1], c[3], _spanned(c)),
    "run": _run,
}
