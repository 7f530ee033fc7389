"""Durations, bytes and ratios as users write them. Standard library only."""

from typing import NewType

from gpud.model.errors import UsageError

Nanoseconds = NewType("Nanoseconds", int)
Bytes = NewType("Bytes", int)
Ratio = NewType("Ratio", float)
"""1.0 is 100 %."""

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
FOREVER_NS = 2**64 - 1
"""In pages: no limit."""

_DURATIONS = {"ns": 1, "us": MICROSECOND, "µs": MICROSECOND, "ms": MILLISECOND, "s": SECOND, "min": 60 * SECOND}
_DURATIONS |= {"h": 3600 * SECOND}
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_BYTES |= {"TB": 10**12}
_LONGEST = 32
"""Characters: a longer number is a mistake (and would cost time to read)."""


def parse_duration(text: str, where: str) -> Nanoseconds:
    """`2.5ms`, `2s`, `1min` → nanoseconds. `where` names the flag or variable. Raises UsageError."""
    whole, rest = _scaled(text, _DURATIONS, where, "a duration", "2.5ms, 300us or 2s")
    if rest:
        raise UsageError(f"{where}: {text!r} is finer than a nanosecond; write e.g. 2.5ms")
    if whole > 2**61:
        raise UsageError(
            f"{where}: {text!r} is longer than 70 years; write e.g. 2s, or `unlimited` where that is allowed"
        )
    return Nanoseconds(whole)


def parse_bytes(text: str, where: str) -> Bytes:
    """`4GiB`, `512MiB`, `2GB` → bytes, which must come out whole. Raises UsageError."""
    whole, rest = _scaled(text, _BYTES, where, "an amount of memory", "4GiB or 512MiB")
    if rest or whole > 2**61:
        raise UsageError(f"{where}: {text!r} is not a whole number of bytes below 2 EiB; write e.g. 4GiB")
    return Bytes(whole)


def parse_ratio(text: str, where: str) -> Ratio:
    """`30%` → 0.3; from 0 % to 100 %. Raises UsageError."""
    millionths, _ = _scaled(text, {"%": 10_000}, where, "a percentage", "30%")
    if millionths > 1_000_000:
        raise UsageError(f"{where}: {text!r} is more than 100%")
    return Ratio(millionths / 1_000_000)


def format_duration(nanoseconds: int, to: int = 1) -> str:
    """The shortest of what `parse_duration` reads, rounded to four digits: `2.5ms`, `41s`. `to`: without what is less
    than this."""
    if nanoseconds >= FOREVER_NS:
        return "unlimited"
    nanoseconds = nanoseconds // to * to
    for unit, scale in (
        ("h", 3600 * SECOND),
        ("min", 60 * SECOND),
        ("s", SECOND),
        ("ms", MILLISECOND),
        ("us", MICROSECOND),
    ):
        if nanoseconds >= scale:
            return f"{nanoseconds / scale:.4g}{unit}"
    return f"{nanoseconds}ns" if nanoseconds else "0s"


def sooner(one: int | None, other: int | None) -> int | None:
    """Of two moments that may never come (None)."""
    if one is None or (other is not None and other < one):
        return other
    return one


def _scaled(text: str, units: dict[str, int], where: str, what: str, example: str) -> tuple[int, bool]:
    """The number times its unit: the whole part, and whether something was left over."""
    stripped = text.strip()
    number = stripped.rstrip("%µ" + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = stripped[len(number) :]
    before, _, after = number.strip().partition(".")
    digits = before + after
    if not (digits.isascii() and digits.isdigit() and len(stripped) <= _LONGEST):
        raise UsageError(f"{where}: {text!r} is not {what}; write e.g. {example}")
    if not unit:
        raise UsageError(f"{where}: {text!r} has no unit; write {what} such as {example}")
    if unit not in units:
        raise UsageError(f"{where}: unknown unit {unit!r} in {text!r}; known are {', '.join(units)}")
    whole, rest = divmod(int(digits) * units[unit], 10 ** len(after))
    return whole, rest != 0
