"""Mistakes in one token or two: names, quotes, operators and words of other languages. numbers.py has numbers."""

import re
from collections.abc import Callable

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.schema import CONSTRUCTORS
from gpud.policies.syntax.numbers import NUMBERS, duration, negative
from gpud.policies.syntax.place import Place
from gpud.policies.syntax.say import say, shown
from gpud.policies.syntax.tokens import BAD_CHARACTER, BAD_WORD, OPEN_STRING

_CHARACTERS = {
    "&": "write `and`",
    "|": "write `or`",
    "!": "write `not`",
    ";": "delete it: a new line or a space is enough between two settings",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "×": "write `*`",
    "÷": "write `/`",
    "−": "write `-`",
    "–": "write `-`",
    "—": "write `-`",
    "…": "write `..`",
    "^": "there are no powers: multiply",
    "\\": "delete it: a line may simply go on in the next",
    "?": "a value has no `if` in it: bind one value, and the other one in a rule `when <condition> { … }`",
    "°": "a temperature is a plain number, in °C",
    "$": "a name stands for itself: write it without `$`",
    "\u00a0": "this is a no-break space: replace it by a plain one",
    "\u200b": "this is a space without width: delete it",
    "\ufeff": "this is a byte order mark: delete it",
}
_QUOTES = "'`´‘’“”„«»"

_WORDS = {
    "AND": "write `and`",
    "OR": "write `or`",
    "NOT": "write `not`",
    "True": "write `true`",
    "TRUE": "write `true`",
    "False": "write `false`",
    "FALSE": "write `false`",
    "None": "there is no empty value: leave the setting out, or write `unlimited`",
    "NULL": "there is no empty value: leave the setting out, or write `unlimited`",
}
_SMALL_WORDS = {
    "then": "delete `then`: `{` follows at once",
    "do": "delete `do`: `{` follows at once",
    "is": "compare with `==`",
    "equals": "compare with `==`",
    "like": "compare with `~`: a text and a pattern",
    "if": "gpol has no `if`: write `when <condition> { … }`",
    "end": "a block ends with `}`",
}


def open_string(place: Place) -> Diagnostic | None:
    if place.kind() != OPEN_STRING:
        return None
    start, end = place.span()
    text = place.source.text[start:end].rstrip()
    return say(
        place,
        'end it with `"`; a text cannot go on in the next line',
        code="GP107",
        message="this text is not closed on its line",
        span=(start, start + min(len(text), 80)),
        label='no `"` at its end',
    )


def comment(place: Place) -> Diagnostic | None:
    """`// …`, `/* … */`, `-- …`"""
    for near in (0, -1):
        pair = place.text(near) + place.text(near + 1)
        if pair in ("//", "/*", "--", "*/") and place.glued(near + 1):
            return say(
                place,
                "a comment begins with `#` and goes to the end of the line",
                message=f"unexpected `{pair}`",
                span=(place.span(near).start, place.span(near + 1).end),
                label="no comment",
            )
    return None


def operator(place: Place) -> Diagnostic | None:
    """`=` for `==` and the other way round; `+=`, `<>`, `===`, `=>`."""
    text, accepted = place.text(), place.accepted
    before, after = (place.text(-1) if place.glued() else ""), (place.text(1) if place.glued(1) else "")
    whole = before + text
    for pair, span in (
        (whole, (place.span(-1).start, place.span().end) if before else place.span()),
        (text + after, (place.span().start, place.span(1).end) if after else place.span()),
    ):
        if pair in ("+=", "-=", "*=", "/="):
            return say(
                place,
                "a binding says what holds, not how it changes: write `=` and the value",
                span=span,
                message=f"unexpected `{pair}`",
            )
        better = {"<>": "!=", "===": "==", "=<": "<=", "=>": ">=", "=~": "~", ":=": "="}.get(pair)
        if better:
            return say(place, f"write `{better}`", span=span, message=f"unexpected `{pair}`")
    if text == "=" and "CMP" in accepted:
        return _second_equals(place)
    if text == "==" and "EQUAL" in accepted and "CMP" not in accepted:
        return say(place, "to set something, write `=`")
    if text == ":" and "EQUAL" in accepted and place.same_line(1):
        return say(place, "write `=`")
    if text == ":" and "LBRACE" in accepted:
        return say(place, "what belongs to it stands in `{ … }`")
    if text in "-:–—" and text and "DOTS" in accepted:
        return say(place, f"a range is written with `..`: `{place.text(-1)}..{place.text(1)}`")
    return None


def _second_equals(place: Place) -> Diagnostic:
    """`when a = 3`; or a value, or a name, was forgotten between two settings."""
    if place.kind(-1) == "NAME" and place.kind(-2) == "EQUAL" and not place.same_line(-1):
        message = f"nothing follows `{shown(place.text(-3))} =`"
        return say(place, "write a value, or delete the line", message=message, span=place.span(-2))
    if place.kind(-1) not in ("NAME", "RPAR") or not place.same_line(0):
        return say(place, "write what is set before it, or `==` to compare", label="a name is missing before this")
    return say(place, "to compare, write `==`")


def name(place: Place) -> Diagnostic | None:
    """Names with `-`, capitals or quotes; texts without."""
    kind, text, accepted = place.kind(), place.text(), place.accepted
    if text == "-" and place.kind(-1) == "NAME" and place.glued() and place.glued(1) and "ADD" not in accepted:
        run = _run(place, -1)
        return say(place, f"write `{run.replace('-', '_')}`; only names of policies, in quotes, may have a `-`")
    if kind in ("NAME", BAD_WORD) and "STRING" in accepted and "NAME" not in accepted:
        return say(place, f'put it in quotes: `"{_run(place, 0)}"`')
    if kind == "STRING" and place.kind(-1) == "NAME" and place.glued() and place.kind(-2) == "STRING":
        return say(
            place, "a text has no `\"` inside it: leave them out, or write `'`", label="this begins another text"
        )
    if kind == "STRING" and "NAME" in accepted and not {"STRING", "ADD"} & accepted:
        bare = re.fullmatch(r'"([a-z_][a-z0-9_]*)"', text)
        return say(place, "a name stands without quotes" + (f": write `{shown(bare[1])}`" if bare else ""))
    if kind != BAD_WORD:
        return None
    if text in _WORDS:
        return say(place, _WORDS[text])
    small = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower()
    if not small.isascii():
        return say(
            place,
            "a name has only the letters a to z, digits and `_`",
            message=f"`{shown(text)}` is no name",
            label="cannot be read",
        )
    return say(
        place,
        f"names have no capital letters: write `{small}`",
        message=f"`{shown(text)}` is no name",
        label="has a capital",
    )


def character(place: Place) -> Diagnostic | None:
    if place.kind() != BAD_CHARACTER:
        return None
    text = place.text()
    if text in _QUOTES:
        start = place.span().start
        line = place.source.text[start : place.source.text.find("\n", start) % (len(place.source.text) + 1)]
        quoted = re.match(rf"[{_QUOTES}]([^{_QUOTES}\"]*)[{_QUOTES}]", line)
        help_ = f'write `"{shown(quoted[1])}"`' if quoted and quoted[1] else 'texts stand in plain quotes: `"`'
        return say(place, help_, span=(start, start + len(quoted[0])) if quoted else None)
    help_ = _CHARACTERS.get(text, "")
    visible = text if text.isprintable() else f"U+{ord(text):04X}"
    double = place.text(1) == text and place.glued(1) and text in "&|"
    return say(
        place,
        *([help_] if help_ else []),
        message=f"unexpected `{visible * (2 if double else 1)}`",
        span=(place.span().start, place.span(1).end) if double else None,
        label="not expected here",
    )


def small_word(place: Place) -> Diagnostic | None:
    """Words of other languages that are plain names here."""
    for near in (0, -1, -2):
        help_ = _SMALL_WORDS.get(place.text(near)) if place.kind(near) == "NAME" else None
        if help_ and (near == 0 or place.kind(near - 1) not in ("DOT", "EQUAL")) and place.kind(near + 1) != "DOT":
            return say(place, help_, span=place.span(near), message=f"unexpected `{place.text(near)}`")
    return None


def _run(place: Place, near: int) -> str:
    """A token and all that is glued to it, on both sides: `preempt-mix`, `Europe/Berlin`."""
    first = last = near
    while place.glued(first) and _is_of_word(place, first - 1):
        first -= 1
    while place.glued(last + 1) and _is_of_word(place, last + 1):
        last += 1
    return shown(place.source.text[slice(*place.span(first, last))])


def _is_of_word(place: Place, near: int) -> bool:
    return bool(re.fullmatch(r"[\w./+-]+", place.text(near)))


def brackets(place: Place) -> Diagnostic | None:
    """`label["tier"]`; `fixed 30%`"""
    if place.kind(-1) != "NAME" or "LPAR" not in place.accepted:
        return None
    word = place.text(-1)
    if place.kind() == "LSQB" and place.glued():
        return say(place, f"arguments stand in parentheses: `{word}(…)`")
    if word in CONSTRUCTORS and place.kind() in ("NUMBER", "QUANTITY", "STRING") and place.same_line(0):
        return say(place, f"arguments stand in parentheses: `{word}({shown(place.text())})`")
    return None


TOKENS: tuple[Callable[[Place], Diagnostic | None], ...] = (
    open_string, *NUMBERS, comment, operator, negative, duration, brackets,
)  # fmt: skip
"""Looked at first."""
WORDS: tuple[Callable[[Place], Diagnostic | None], ...] = (small_word, name, character)
"""Looked at last: structure says more than a word."""
