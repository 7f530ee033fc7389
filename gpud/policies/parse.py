"""Text → syntax tree. Never raises, whatever the text: what is wrong comes back as diagnostics.

lark makes the tables of the grammar (syntax/make_tables.py); this drives them.
"""

from functools import cache
from typing import Any

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.source import Source, Span
from gpud.policies.syntax.errors import describe, empty, refusal, unreadable, wrong_version
from gpud.policies.syntax.place import Place, Stuck, fits
from gpud.policies.syntax.tables import tables
from gpud.policies.syntax.tokens import END, Tokens, scan
from gpud.policies.syntax.tree import ACTIONS, LEAVES, Refused, Tree

_ENOUGH = 100
"""Mistakes of one file; nobody reads on after them."""


def parse(source: Source) -> tuple[ast.File | None, list[Diagnostic]]:
    """The tree, and what is wrong. With errors it has the items that could be read; None if nothing could be."""
    problem = unreadable(source)
    if problem is not None:
        return None, [problem]
    tokens = scan(source.text)
    tree = Tree(source.text)
    found: list[Diagnostic] = []
    try:
        parts = _drive(tokens, tree)
    except (Stuck, Refused) as first:
        parts, found = _piecewise(source, tokens, tree, first)
    version = next((part for part in parts if type(part) is ast.Quantity), None)
    if version is not None and version.number != "1":
        found.insert(0, wrong_version(source, version))
    uses = tuple(part for part in parts if type(part) is ast.Use)
    items = tuple(part for part in parts if isinstance(part, ast.Item))
    if not items and not found:
        found.append(empty(source))
    number = version.number if version is not None else ""
    return ast.File(number, uses, items, Span(0, len(source.text)), source), found


def policy_names(source: Source) -> list[str]:
    """Names of all policies whose first line can be made out, in the order of the text."""
    kinds, starts, ends, _ = scan(source.text)
    return [source.text[starts[at + 1] + 1 : ends[at + 1] - 1] for at in range(len(kinds)) if _begins_policy(kinds, at)]


def _begins_policy(kinds: list[str], at: int) -> bool:
    """In a test, a line `policy "x"` says what is tested."""
    return kinds[at] == "POLICY" and kinds[at + 1 : at + 3] == ["STRING", "LBRACE"]


def _begins_item(kinds: list[str], at: int) -> bool:
    """Not where a keyword stands in place of a name: `let test = 3`."""
    if kinds[at] not in ("APPLY", "TEST"):
        return _begins_policy(kinds, at)
    before = kinds[at - 1] if at else ""
    return before not in ("LET", "PARAM", "CLASS", "HOURS", "DOT", "COMMA", "EACH", "AS") and kinds[at + 1] not in (
        "EQUAL",
        "DOT",
    )


# ---------------------------------------------------------------------------------------------------------- tables


@cache
def _machine() -> tuple[list[dict[str, int]], list[dict[str, int]], list[tuple[str, Any, int, list[int]]], int]:
    table = tables()
    rules = [
        (origin, call if call in ("", "+first", "+more") else ACTIONS[call], length, helpers)
        for origin, call, length, helpers in table["rules"]
    ]
    return table["rows"], table["gotos"], rules, table["start"]


def _drive(tokens: Tokens, tree: Tree) -> list[Any]:
    """What `start` is made of. Raises Stuck at a token that cannot stand where it is, Refused for what cannot be."""
    rows, gotos, rules, start = _machine()
    states, values = [start], list[Any]()
    state = start
    push, push_value = states.append, values.append
    for at, kind in enumerate(tokens.kinds):
        while True:
            action = rows[state].get(kind)
            if action is None:
                raise Stuck(at)
            if action >= 0:
                break
            origin, call, length, helpers = rules[~action]
            if call == "":
                del states[-1]
            else:
                children = values[-length:]
                del states[-length:], values[-length:]
                if call == "+more":
                    children[0].extend(children[1:])
                    push_value(children[0])
                elif call == "+first":
                    push_value(children)
                else:
                    for helper in reversed(helpers):
                        children[helper : helper + 1] = children[helper]
                    push_value(call(children, tree))
            state = gotos[states[-1]][origin]
            push(state)
        state = action
        push(action)
        leaf = LEAVES.get(kind)
        if leaf is None:
            push_value((tokens.starts[at], tokens.ends[at]))
        else:
            push_value(leaf(tree, tokens.starts[at], tokens.ends[at]))
    return values[0]  # type: ignore[no-any-return]


def _states(kinds: list[str]) -> tuple[int, ...]:
    """The parser's states before it looks at what comes next: that alone may already have led it astray."""
    rows, gotos, rules, start = _machine()
    states = [start]
    for kind in kinds:
        while (action := rows[states[-1]][kind]) < 0:
            origin, _, length, _ = rules[~action]
            del states[-length:]
            states.append(gotos[states[-1]][origin])
        states.append(action)
    return tuple(states)


# --------------------------------------------------------------------------------------------------- after an error


def _piecewise(
    source: Source, tokens: Tokens, tree: Tree, first: Stuck | Refused
) -> tuple[list[Any], list[Diagnostic]]:
    """Each item for itself, so that a mistake in one does not hide those in others. `first`: what the whole gave."""
    kinds = tokens.kinds
    last = len(kinds) - 1
    begins = [at for at in range(last) if _begins_item(kinds, at)]
    parts: list[Any] = []
    found: list[Diagnostic] = []
    open_before = False
    for number, (begin, stop) in enumerate(zip([0, *begins], [*begins, last], strict=True)):
        piece, shift = _piece(tokens, begin, stop, headed=number == 0)
        try:
            if isinstance(first, Stuck) and begin < first.at < stop:
                at = first.at - shift
                if not fits(_states(piece.kinds[:at]), piece.kinds[at]):
                    raise Stuck(at)  # as known; what led there need not be read again
            parts += _drive(piece, tree)[0 if number == 0 else 1 :]  # without the version that it was given
            open_before = False
        except Refused as refused:
            found.append(refusal(source, refused))
            open_before = False
        except Stuck as stuck:
            at = stuck.at + shift
            # The end of a block that was broken off by an item inside it has been reported there.
            if not (open_before and kinds[at] == "RBRACE"):
                states = _states(piece.kinds[: stuck.at])
                place = Place(source, tokens, at, states, begin)
                found.append(describe(place, cut=begin < at == stop < last))
            open_before = at == stop
        if len(found) >= _ENOUGH:
            break
    return parts, found


def _piece(tokens: Tokens, begin: int, stop: int, headed: bool) -> tuple[Tokens, int]:
    """Tokens `begin` … `stop` as a file of its own, and what to add to an index in it."""
    head = [] if headed else [("GPOL", 0, 0), ("NUMBER", 0, 0)]
    kinds = [kind for kind, _, _ in head] + tokens.kinds[begin:stop] + [END]
    starts = [start for _, start, _ in head] + tokens.starts[begin : stop + 1]
    ends = [end for _, _, end in head] + tokens.ends[begin : stop + 1]
    return Tokens(kinds, starts, ends, []), begin - len(head)
