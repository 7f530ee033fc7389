"""Mistakes in numbers, units and times."""

import re
from collections.abc import Callable
from fractions import Fraction

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.quantities import DURATIONS, read_quantity, show_value, unit_meant
from gpud.policies.syntax.place import Place
from gpud.policies.syntax.say import say, shown
from gpud.policies.syntax.tokens import BAD_NUMBER
from gpud.policies.types import Type


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
        meant = unit_meant(place.text(near)) if place.kind(near) else None
        if meant and place.kind(near - 1) == "NUMBER" and not place.glued(near) and place.same_line(near):
            return say(
                place,
                f"write `{place.text(near - 1)}{meant}`",
                code="GP103",
                message=f"a space between a number and its unit `{place.text(near)}`",
                span=(place.span(near - 1).start, place.span(near).end),
                label="belongs together",
            )
    return None


def two_quantities(place: Place) -> Diagnostic | None:
    """`5min 30s`"""
    if place.kind() != "QUANTITY" or place.kind(-1) != "QUANTITY" or not place.same_line(0):
        return None
    both = [_duration(place.text(near)) for near in (-1, 0)]
    if None in both:
        return None
    total = show_value(sum(int(part) for part in both if part is not None), Type.DURATION)
    span = (place.span(-1).start, place.span().end)
    return say(place, f"one number and one unit: write `{total}`", span=span, label="two durations")


def _duration(text: str) -> Fraction | None:
    number = text.rstrip("".join(sorted({*"".join(DURATIONS)})))
    found = read_quantity(number, text[len(number) :]) if number and number[-1].isdigit() else None
    return found[1] if found is not None and found[0] is Type.DURATION else None


def no_time(place: Place) -> Diagnostic | None:
    """`mon..fri 8..22`, `8am..10pm`; `hours day = 08:00..22:00`; `when time > 22:00`."""
    text = place.text()
    if place.kind() == "TIME":
        if place.words_before(place.at)[:1] == ["hours"] and place.kind(-1) in ("EQUAL", "COMMA"):
            return say(place, f"days come first: write `daily {text}..…`", label="expected days")
        if "QUANTITY" in place.accepted:
            return say(
                place,
                "a time of day stands in `hours`: define `hours night = daily 22:00..06:00`, "
                "then write `during night { … }`, or `night` in a condition",
            )
    if "TIME" in place.accepted and (found := re.match(r"(\d{1,2})(am|pm|h)?\Z", text)):
        hour = int(found[1]) % 12 + 12 if found[2] == "pm" else int(found[1])
        return say(place, f"write a time with its minutes: `{hour:02}:00`")
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


def duration(place: Place) -> Diagnostic | None:
    """`when a 2s`"""
    if place.kind() == "QUANTITY" and "FOR" in place.accepted:
        return say(place, f"write `for {shown(place.text())}`")
    return None


NUMBERS: tuple[Callable[[Place], Diagnostic | None], ...] = (
    bad_number, unit_apart, two_quantities, no_time, digit_first, grouped_digits,
)  # fmt: skip
"""Looked at first."""
