"""Mistakes in the structure: loops and `if`, order of parts, things in the wrong block, braces that are missing."""

from collections.abc import Callable

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.schema import BLOCKS
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
    if kind in ("UNTIL", "BECAUSE") and place.kind(-1) == "RBRACE":
        return say(place, f"`{place.text()}` stands before the `{{` of its rule")
    if kind == "FOR" and "for" in _since_until(place):
        return say(place, "one `for` ends a condition: write `A and B for 1s`, or put B into a rule inside this one")
    if kind == "NAME" and place.text() in _FOR_WORDS and "FOR" in place.accepted:
        time = place.text(1) if place.kind(1) == "QUANTITY" else "1s"
        return say(place, f"how long it must be so is said with `for`: write `for {shown(time)}`")
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


_FOR_WORDS = frozenset(("after", "since", "longer"))


def _since_until(place: Place) -> list[str]:
    """The words of a rule's condition so far."""
    words = place.words_before(place.at)
    return words[len(words) - words[::-1].index("until") :] if "until" in words else words


def comparison(place: Place) -> Diagnostic | None:
    if place.kind() == "SLASH" and place.text(-1) == "~":
        return say(place, 'a pattern is a text in quotes: `exe ~ "*/python*"`')
    if place.kind() == "STAR" and place.kind(-1) == "MATCH":
        return say(place, "write `match any`: it takes every job")
    if place.kind() == "CMP" and "AND" in place.accepted:
        return say(place, "comparisons do not chain: write `a < b and b < c`", label="the second comparison")
    if place.kind() == "NOT" and place.kind(1) == "IN":
        return say(place, "write `not x in [ … ]`", span=(place.span().start, place.span(1).end))
    if place.accepted == {"LSQB"}:
        return say(place, 'write a list in brackets: `x in ["a", "b"]`', label="expected `[`")
    return None


_GOES_ON = ("EQUAL", "DOT", "LBRACE")
"""Behind a name: it begins something of its own."""


def comma(place: Place) -> Diagnostic | None:
    if place.kind(-1) == "COMMA" and place.kind() in ("RPAR", "RSQB", "RBRACE"):
        return say(place, "delete the comma before it")
    if place.kind() != "COMMA" or not place.block or "COMMA" in place.accepted:
        return None
    if place.accepted == {"LBRACE"}:
        return say(place, "each has a block of its own: write it twice")
    head, is_setting = place.words_before(place.at)[:1], place.kind(2) in _GOES_ON
    if head in (["when"], ["guard"]) or (head == ["match"] and not is_setting):
        return say(place, "conditions are joined by `and` or `or`")
    if place.kind(-2) == "EQUAL" and place.kind(-1) == place.kind(1) == "NAME" and place.kind(2) not in _GOES_ON:
        return say(place, f"several values stand in brackets: `[{place.text(-1)}, {place.text(1)}]`")
    return say(place, "delete it: a new line or a space is enough between two settings")


def missing_brace(place: Place) -> Diagnostic | None:
    """`when high.active low.pause = true`"""
    rule = place.words_before(place.at)[:1]
    if (
        "LBRACE" in place.accepted
        and place.kind() == "NAME"
        and rule
        and rule[0] in ("when", "guard", "during", "else")
    ):
        run = 1
        while place.kind(run) in ("DOT", "NAME"):
            run += 1
        if run > 1 and place.kind(run) == "EQUAL":
            return say(place, "what a rule sets stands in braces: `{ … }`", label="expected `{`")
    return None


def during_condition(place: Place) -> Diagnostic | None:
    """`during mon..fri 08:00..12:00`, `during day and high.active`, `during not day`, `during day for 5min`"""
    words = place.words_before(place.at)
    if words[:1] != ["during"] or len(words) > 3:
        return None
    if len(words) == 2 and place.kind() in ("DOTS", "TIME"):
        helped = f"`during` takes a name: define `hours x = {words[1]}…` in the policy, and write `during x`"
    elif place.kind() in ("AND", "OR", "NOT", "FOR", "CMP", "DOT"):
        rest = " ".join([*words[1:], place.text(), "…"]).replace(" . ", ".")
        helped = f"`during` takes the name of hours, nothing else; for a condition, write `when {rest}`"
    else:
        return None
    return say(place, helped, label="not expected here")


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


_TARGETS = "write `to gpu 0`, `to gpu 0..3` or `to gpu *`"


def no_target(place: Place) -> Diagnostic | None:
    """`apply … to all`, where the text ends."""
    if place.ended and place.kind(-2) == "TO" and place.kind(-1) == "NAME" and place.text(-1) != "gpu":
        return say(place, _TARGETS, span=place.span(-1))
    return None


def target(place: Place) -> Diagnostic | None:
    """`apply … to 0`, `to gpu all`, `to gpu 0 1`"""
    if place.kind(-1) == "TO" and place.accepted == {"NAME"}:
        return say(place, _TARGETS)
    if (
        place.kind() == "NAME"
        and "STAR" in place.accepted
        and "NUMBER" in place.accepted
        and "NAME" not in place.accepted
    ):
        return say(place, "write a number, a UUID in quotes, or `*` for every GPU")
    targets = ("NUMBER", "STRING", "STAR")
    if (
        place.kind() in (*targets, "AND")
        and place.kind(-1) in targets
        and place.words_before(place.at)[:1] == ["apply"]
    ):
        return say(place, "write a comma between two of them: `to gpu 0, 2..3`")
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
    kind = place.kind()
    if not place.block:
        if kind in _TO_POLICY and "POLICY" in place.accepted:
            return say(place, f"{_TO_POLICY[kind]} stands in a policy: was a `}}` closed above too early?")
        return None
    if place.block[0] == "policy":
        return None
    opener = place.block[0]
    where = _PLACES.get(opener, f"`{opener}`")
    found = _block_in_rule(place, where) if where in ("a rule", "a guard") else None
    if found is not None:
        return found
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


def _block_in_rule(place: Place, where: str) -> Diagnostic | None:
    """`when … { arbitrate share { … } }`, `when … { low { pause = true } }`"""
    if place.kind() not in ("LBRACE", "NAME") or place.kind(-1) != "NAME" or place.kind(-2) not in _BEFORE_A_MEMBER:
        return None
    word, span = place.text(-1), place.span(-1)
    if word == "limit" and place.kind() == "LBRACE":
        return say(place, "`limit` stands in a class: write `class … { match … limit { … } }`", span=span)
    if word == "arbitrate" or (word in _BLOCKS and place.kind() == "LBRACE"):
        help_ = f"`{word}` does not stand in {where}: write it in the policy, behind the `}}` of {where}"
        return say(place, help_, span=span)
    if place.kind() == "LBRACE" and place.kind(1) == "NAME" and place.kind(2) == "EQUAL":
        return say(place, f"knobs are set one by one: `{shown(word)}.{shown(place.text(1))} = …`")
    return None


_BLOCKS = frozenset(kind for kind, _ in BLOCKS)
_BEFORE_A_MEMBER = (
    "LBRACE", "RBRACE", "RPAR", "RSQB", "NAME", "STRING", "NUMBER", "QUANTITY", "RATE", "TRUE", "FALSE", "UNLIMITED",
)  # fmt: skip
"""Ends of what may come before it."""

MISTAKES: tuple[Callable[[Place], Diagnostic | None], ...] = (
    loop, else_if, order_of_parts, comparison, comma, missing_brace, during_condition, surplus_brace, block_with_equals,
    target, reserved, command, wrong_block,
)  # fmt: skip
