"""Mistakes in one token or two: numbers, names, quotes, operators of other languages."""

import re
from collections.abc import Callable

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.syntax.place import Place
from gpud.policies.syntax.say import say, shown
from gpud.policies.syntax.tokens import BAD_CHARACTER, BAD_NUMBER, BAD_WORD, OPEN_STRING

_UNITS = {
    "ns": "ns", "us": "us", "µs": "us", "usec": "us", "ms": "ms", "msec": "ms", "millis": "ms",
    "s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
    "min": "min", "mins": "min", "minute": "min", "minutes": "min", "h": "h", "hr": "h", "hour": "h", "hours": "h",
    "b": "B", "byte": "B", "bytes": "B", "kb": "KiB", "kib": "KiB", "mb": "MiB", "mib": "MiB", "gb": "GiB",
    "gib": "GiB", "tb": "TiB", "tib": "TiB", "percent": "%", "%": "%",
}  # fmt: skip
"""What people write behind a number, in small letters → the unit that is meant."""

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


def bad_number(place: Place) -> Diagnostic | None:
    """`22h00`, `8:5`, `1e5`, `0x10`."""
    span = next((place.span(near - 1, near + 1) for near in (0, 1) if _odd_time(place, near)), place.span())
    if span == place.span() and place.kind() != BAD_NUMBER:
        return None
    text = place.source.text[slice(*span)]
    if found := re.fullmatch(r"(\d{1,2})[hH.:](\d{1,2})(:\d+)?", text):
        hour, minute = found[1], found[2]
        help_ = f"write a time with two digits after the colon: `{hour.zfill(2)}:{minute.zfill(2)}`"
    elif found := re.fullmatch(r"(\d{1,4})[eE](\d{1,2})", text):
        help_ = f"write it out: `{int(found[1]) * 10 ** int(found[2]):_}`" if int(found[2]) < 12 else "write it out"
    elif re.match(r"0[xXbBoO]", text):
        help_ = "write it with decimal digits"
    elif re.match(r"\d+[hms]\w*\d+[ms]", text):
        help_ = "one number and one unit: `90s` for a minute and a half"
    else:
        help_ = "a number may be followed by one unit, such as `20ms`, and then by a space"
    return say(place, help_, span=span, message=f"`{shown(text)}` is no number", label="cannot be read")


def _odd_time(place: Place, near: int) -> bool:
    """`8:5`, seen from its colon."""
    return (
        place.text(near) == ":"
        and place.kind(near - 1) == place.kind(near + 1) == "NUMBER"
        and place.glued(near)
        and place.glued(near + 1)
    )


def unit_apart(place: Place) -> Diagnostic | None:
    """`20 GB`; the error may show one token later."""
    for near in (0, -1):
        word = place.text(near)
        if (
            place.kind(near - 1) == "NUMBER"
            and word.lower() in _UNITS
            and not place.glued(near)
            and place.same_line(near)
        ):
            together = place.text(near - 1) + _UNITS[word.lower()]
            return say(
                place,
                f"write `{together}`",
                code="GP103",
                message=f"a space between a number and its unit `{word}`",
                span=(place.span(near - 1).start, place.span(near).end),
                label="belongs together",
            )
    return None


def digit_first(place: Place) -> Diagnostic | None:
    """`.5`"""
    if place.kind() == "DOT" and place.glued(1) and place.kind(1) in ("NUMBER", "QUANTITY", "RATE"):
        return say(place, f"write `0.{place.text(1)}`", span=(place.span().start, place.span(1).end))
    return None


def grouped_digits(place: Place) -> Diagnostic | None:
    """`1,000`"""
    near = 0 if place.kind() == "COMMA" else -1
    after = place.text(near + 1)
    if (
        place.kind(near) == "COMMA"
        and place.kind(near - 1) == "NUMBER"
        and place.glued(near)
        and place.glued(near + 1)
        and re.match(r"\d{3}(?!\d)", after)
    ):
        return say(
            place,
            f"write `{place.text(near - 1)}_{after}`",
            span=(place.span(near - 1).start, place.span(near + 1).end),
            message="digits are grouped with `_`, not with a comma",
            label="two numbers",
        )
    return None


def negative(place: Place) -> Diagnostic | None:
    if place.text() == "-" and "NUMBER" in place.accepted and "ADD" not in place.accepted:
        return say(place, "no value is below zero: write a difference, such as `a - b`")
    return None


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


def duration(place: Place) -> Diagnostic | None:
    """`when a 2s`"""
    if place.kind() == "QUANTITY" and "FOR" in place.accepted:
        return say(place, f"write `for {shown(place.text())}`")
    return None


def name(place: Place) -> Diagnostic | None:
    """Names with `-`, capitals or quotes; texts without."""
    kind, text, accepted = place.kind(), place.text(), place.accepted
    if text == "-" and place.kind(-1) == "NAME" and place.glued() and place.glued(1) and "ADD" not in accepted:
        run = _run(place, -1)
        return say(place, f"write `{run.replace('-', '_')}`; only names of policies, in quotes, may have a `-`")
    if kind in ("NAME", BAD_WORD) and "STRING" in accepted and "NAME" not in accepted:
        return say(place, f'put it in quotes: `"{_run(place, 0)}"`')
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
    """A token and all that is glued to it, on both sides: `preempt-mix`."""
    first = last = near
    while place.glued(first) and place.kind(first - 1) in ("NAME", "ADD", "NUMBER", BAD_WORD):
        first -= 1
    while place.glued(last + 1) and place.kind(last + 1) in ("NAME", "ADD", "NUMBER", BAD_WORD, "DOT", BAD_NUMBER):
        last += 1
    return shown(place.source.text[slice(*place.span(first, last))])


TOKENS: tuple[Callable[[Place], Diagnostic | None], ...] = (
    open_string, bad_number, unit_apart, digit_first, grouped_digits, comment, operator, negative, duration,
)  # fmt: skip
"""Looked at first."""
WORDS: tuple[Callable[[Place], Diagnostic | None], ...] = (name, small_word, character)
"""Looked at last: structure says more than a word."""
