"""Mistakes in the structure: loops and `if`, order of parts, things in the wrong block, braces that are missing."""

from collections.abc import Callable

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.syntax.place import Place
from gpud.policies.syntax.say import say, shown
from gpud.policies.syntax.tokens import BAD

_LOOP_WORDS = frozenset(("while", "if", "unless", "loop", "foreach", "repeat", "do"))
_LOOP_HELP = "gpol has no loops and no `if`: write `when <condition> { … }`; a rule is looked at again on every tick"
_ELSE_IF = frozenset(("elif", "elsif", "elseif"))
_COMMANDS = {
    "set": "a binding has no word before it: `low.pause = true`",
    "var": "a name for a value is made with `let`: `let x = …`",
    "const": "a name for a value is made with `let`, one that `apply` may change with `param`",
    "def": "there are no functions of your own: give an expression a name with `let`",
    "function": "there are no functions of your own: give an expression a name with `let`",
    "return": "there is nothing to return from: a rule binds knobs, `low.pause = true`",
    "import": "all files of the directory are read together; a plugin is named with `use`, below the version line",
    "include": "all files of the directory are read together; nothing is included",
    "rule": "a rule begins with `when`, `during` or `guard`",
    "on": "a rule begins with `when`: `when <condition> { … }`",
}
_TO_POLICY = {
    "CLASS": "`class`", "PARAM": "`param`", "HOURS": "`hours`", "GUARD": "`guard`", "EACH": "`each`", "DOC": "`doc`",
    "TIMEZONE": "`timezone`", "WHEN": "`when`", "DURING": "`during`", "LET": "`let`",
}  # fmt: skip


def loop(place: Place) -> Diagnostic | None:
    """`while a.active { … }` reads as a block called `while`, so the error comes behind it."""
    index = place.at
    words = place.words_before(index)[-4:] + place.block[:1]
    if place.kind() == "FOR" or _LOOP_WORDS & set(words) or (place.text() in _LOOP_WORDS and place.kind(-1) != "DOT"):
        if place.kind(-1) == "ELSE" or _ELSE_IF & set(words):
            return None
        if place.kind() == "FOR" and (place.kind(-1) == "DOT" or "WHEN" not in place.accepted):
            return None
        return say(place, _LOOP_HELP)
    return None


def else_if(place: Place) -> Diagnostic | None:
    words = set(place.words_before(place.at)[-3:]) | set(place.block[:1]) | {place.text()}
    if (place.kind(-1) == "ELSE" and place.text() in ("if", "when", "during")) or _ELSE_IF & words:
        return say(place, "write `else { when <condition> { … } }`")
    if place.kind() == "ELSE":
        return say(
            place,
            "`else` belongs directly behind the `}` of a `when` or `during`; a guard has none",
            label="belongs to no rule",
        )
    return None


def command(place: Place) -> Diagnostic | None:
    """`set low.pause = true`; the word reads as a block's, so the error comes behind it."""
    for near in (0, -1, -2):
        word = place.text(near)
        if word in _COMMANDS and place.kind(near) == "NAME" and place.kind(near + 1) != "DOT":
            before = place.kind(near - 1)
            if before in ("LBRACE", "RBRACE", "") or not place.same_line(near):
                return say(place, _COMMANDS[word], span=place.span(near))
    return None


def order_of_parts(place: Place) -> Diagnostic | None:
    """`because` before `until`, `match` not first, `use` and `gpol` not at the top."""
    kind = place.kind()
    if kind == "UNTIL" and place.kind(-1) == "STRING":
        return say(place, "`until` stands before `because`")
    if kind == "FOR" and place.kind(-1) == "STRING":
        return say(place, "`for` stands behind its condition, before `because`")
    if kind == "MATCH" and place.accepted != {"LBRACE"}:
        inside = place.block[:1] == ["class"]
        return say(place, "`match` stands once and first in a class" if inside else "`match` stands in a class")
    if place.accepted == {"MATCH"}:
        return say(place, "a class begins with `match`: `match any` takes every job", label="expected `match`")
    if kind == "USE":
        return say(place, "`use` lines stand directly below the version line")
    if kind == "GPOL":
        return say(place, "the version stands once, as the first line of a file", code="GP105")
    if kind == "EXPECT" and "AT" in place.accepted:
        return say(place, "say when: `at 1s expect …`, `by 10s expect …`, `from 1s to 10s expect …`")
    return None


def comparison(place: Place) -> Diagnostic | None:
    if place.kind() == "CMP" and "AND" in place.accepted:
        return say(place, "comparisons do not chain: write `a < b and b < c`", label="the second comparison")
    if place.kind() == "NOT" and place.kind(1) == "IN":
        return say(place, "write `not x in [ … ]`", span=(place.span().start, place.span(1).end))
    if place.accepted == {"LSQB"}:
        return say(place, 'write a list in brackets: `x in ["a", "b"]`', label="expected `[`")
    return None


def comma(place: Place) -> Diagnostic | None:
    if place.kind(-1) == "COMMA" and place.kind() in ("RPAR", "RSQB", "RBRACE"):
        return say(place, "delete the comma before it")
    if place.kind() == "COMMA" and place.block and "COMMA" not in place.accepted:
        return say(place, "delete it: a new line or a space is enough between two settings")
    return None


def surplus_brace(place: Place) -> Diagnostic | None:
    if place.kind() in ("RBRACE", "RPAR", "RSQB") and not place.open:
        return say(place, "delete it, or look for the block that was closed too early", label="closes nothing")
    return None


def block_with_equals(place: Place) -> Diagnostic | None:
    """`limit = { … }`, `class a = {`"""
    if place.kind() == "LBRACE" and place.kind(-1) == "EQUAL":
        return say(place, f"delete the `=`: `{shown(place.text(-2))} {{ … }}`")
    if place.kind() == "EQUAL" and place.kind(1) == "LBRACE" and "LBRACE" in place.accepted:
        return say(place, "delete it: a block follows at once")
    return None


def target(place: Place) -> Diagnostic | None:
    """`apply … to 0`, `to gpu all`"""
    if place.kind(-1) == "TO" and place.accepted == {"NAME"}:
        return say(place, "write `to gpu 0`, `to gpu 0..3` or `to gpu *`")
    if (
        place.kind() == "NAME"
        and "STAR" in place.accepted
        and "NUMBER" in place.accepted
        and "NAME" not in place.accepted
    ):
        return say(place, "write a number, a UUID in quotes, or `*` for every GPU")
    if place.kind() == "TO" and "DOTS" in place.accepted:
        return say(place, f"a range is written with `..`: `{shown(place.text(-1))}..{shown(place.text(1))}`")
    return None


def reserved(place: Place) -> Diagnostic | None:
    """A keyword where a name is due."""
    kind, word = place.kind(), place.text()
    if not word.isalpha() or kind in ("NAME", "TRUE", "FALSE", *BAD) or "NAME" not in place.accepted:
        return None
    before = place.kind(-1)
    if before in ("PARAM", "LET", "HOURS", "CLASS", "DURING", "EACH", "AS", "DOT", "USE", "ATTACH") or (
        place.kind(1) == "EQUAL" and "EQUAL" not in place.accepted
    ):
        return say(
            place,
            f"choose another name, for example `{word}_`",
            code="GP104",
            message=f"`{word}` is a reserved word",
            label="cannot be a name here",
        )
    return None


_PLACES = {
    "class": "a class",
    "when": "a rule",
    "during": "a rule",
    "each": "a rule",
    "else": "a rule",
    "guard": "a guard",
    "test": "a test",
}


def wrong_block(place: Place) -> Diagnostic | None:
    """Something of the policy in a class or a rule; a rule's binding among settings."""
    if not place.block or place.block[0] == "policy":
        return None
    opener, kind = place.block[0], place.kind()
    where = _PLACES.get(opener, f"`{opener}`")
    if kind == "DOT" and "EQUAL" in place.accepted and (opener == "class" or opener not in _PLACES):
        binding = f"{shown(place.text(-1))}.{shown(place.text(1))}"
        return say(
            place,
            f"{where} has settings only; `{binding} = …` belongs beside it, in the policy",
            span=(place.span(-1).start, place.span(1).end),
        )
    if kind in _TO_POLICY and "RBRACE" in place.accepted:
        if kind == "GUARD" and where == "a rule":
            return say(place, "a guard holds whatever else holds: write it in the policy, not in a rule")
        return say(
            place, f"{_TO_POLICY[kind]} does not stand in {where}: write it in the policy, behind the `}}` of {where}"
        )
    return None


MISTAKES: tuple[Callable[[Place], Diagnostic | None], ...] = (
    loop, else_if, order_of_parts, comparison, comma, surplus_brace, block_with_equals, target, reserved, command,
    wrong_block,
)  # fmt: skip
