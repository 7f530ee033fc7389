"""Numbers with units, exactly: what they are worth, what to write instead of a wrong one, and how values are shown."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from gpud.policies.types import Type

DURATIONS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
RATES: dict[str, int | Fraction] = {
    "/us": 10**6,
    "/ms": 10**3,
    "/s": 1,
    "/min": Fraction(1, 60),
    "/h": Fraction(1, 3600),
}
UNITS: dict[str, tuple[Type, int | Fraction]] = {
    "": (Type.NUMBER, 1),
    "%": (Type.RATIO, Fraction(1, 100)),
    **{unit: (Type.DURATION, scale) for unit, scale in DURATIONS.items()},
    **{unit: (Type.BYTES, scale) for unit, scale in BYTES.items()},
    **{unit: (Type.RATE, scale) for unit, scale in RATES.items()},
    **{f"{unit}/s": (Type.BANDWIDTH, scale) for unit, scale in BYTES.items()},
}
"""Unit → type and scale."""
LARGEST = 2**63 - 1
"""Of any quantity, in ns, bytes, per second: what pages can hold."""
_MOST_DIGITS = 40
"""A longer number is a mistake, and would cost time to read."""
_KNOWN = "units are ns us ms s min h, B KiB MiB GiB TiB, %, /s (or /us /ms /min /h), GiB/s"


class Wrong(NamedTuple):
    """Why a quantity has no value, and what to write."""

    code: str
    message: str
    help: str
    unit_only: bool = False
    """The unit is the cause, not the number."""


def read_quantity(number: str, unit: str) -> tuple[Type, Fraction] | None:
    """Type and exact value, in ns, bytes, per second, or 1 = 100 %; None for what `wrong_quantity` explains."""
    known = UNITS.get(unit)
    if known is None or len(number) > _MOST_DIGITS:
        return None
    value = Fraction(number.replace("_", "")) * known[1]
    return None if value > LARGEST else (known[0], value)


def wrong_quantity(number: str, unit: str) -> Wrong:
    """What is wrong with a quantity that `read_quantity` refuses."""
    if unit not in UNITS:
        message, helped = f"unknown unit `{unit}`", instead_of(unit, number)
        return Wrong("GP103", message, helped, True)
    if len(number) > _MOST_DIGITS:
        return Wrong("GP206", f"a number has at most {_MOST_DIGITS} digits", "write it shorter")
    return Wrong("GP206", f"`{number}{unit}` is more than gpud can keep", "write `unlimited` where that is meant")


# --------------------------------------------------------------------------------------------- what to write instead

_TIMES = {
    "ns": ("nsec", "nanos", "nanosecond", "nanoseconds"),
    "us": ("µs", "μs", "usec", "micros", "microsecond", "microseconds"),
    "ms": ("msec", "msecs", "millis", "millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "min": ("mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
}
_WORDS = {word: unit for unit, words in _TIMES.items() for word in words}
TIME_WORDS = frozenset({*DURATIONS, *_WORDS, "m"})
"""What could be meant for a time."""
_WORDS |= {"percent": "%", "pct": "%", "byte": "B", "bytes": "B"}
_LONG = {"d": 1, "day": 1, "days": 1, "w": 7, "week": 7, "weeks": 7}
_SIZES = {letter: f"{letter.upper()}iB" for letter in "kmgt"}
_PREFIXES = {"k": 10**3, "m": 10**6, "g": 10**9}


def unit_meant(word: str) -> str | None:
    """The unit that a word behind a number stands for: `ms` for `msec`, `GiB` for `gb`; None if that is not sure."""
    low = word.casefold()
    if not low or low in ("k", "m", "mi"):
        return None
    spelt = next((known for known in UNITS if known and known.casefold() == low), None)
    return spelt or _WORDS.get(low) or _size(low)


def instead_of(unit: str, number: str = "1") -> str:
    """What to write instead of an unknown unit."""
    low = unit.casefold()
    over, slash, per = low.partition("/")
    if slash:
        return _instead_of_rate(over, per, number)
    if low in ("m", "mi"):
        return "write min for minutes, ms for milliseconds, MiB for memory"
    if low in ("hz", "khz", "mhz", "ghz"):
        return f"write {_with_zeros(number, low.removesuffix('hz'), '/s')}"
    if low in ("rps", "qps", "ops"):
        return f"write {number}/s"
    if low == "rpm":
        return f"write {number}/min"
    if unit in ("C", "°C", "W"):
        return f"a {'power in watt' if unit == 'W' else 'temperature in °C'} is a plain number: write {number}"
    if low in _LONG:
        return f"the longest unit is h: write {_scaled(number, 24 * _LONG[low])}h"
    if low.endswith("bps"):
        bytes_ = _size(low.removesuffix("bps") or "g") or "GiB"
        return f"a bandwidth is in bytes a second, of 8 bits: write {bytes_}/s"
    if unit == "k":
        return f"write the zeros: {_with_zeros(number, 'k', '')}"
    if size := _size(low):
        return f"sizes are powers of two here: write {size} ({_power(size)} bytes)"
    if meant := unit_meant(unit):
        return f"write {meant}" if low in _WORDS else f"units have one spelling: write {meant}"
    if low in ("x", "times"):
        return f"a factor is a plain number: write {number}"
    return _KNOWN


def _instead_of_rate(over: str, per: str, number: str) -> str:
    if per in _LONG:
        return f"the longest unit is h: write {_divided(number, 24 * _LONG[per])}/h"
    per = _WORDS.get(per, per)
    time = per if per in DURATIONS else "min" if per == "m" else "s"
    if not over:
        return f"write {number}/{time}"
    if over in _PREFIXES:
        return f"write the zeros: {_with_zeros(number, over, '')}/{time}"
    size = _size(over) or next((known for known in BYTES if known.casefold() == over), None)
    if size:
        return f"a bandwidth is in powers of two a second: write {size}/s"
    return _KNOWN


def _size(low: str) -> str | None:
    """`GiB` for `gb`, `g`, `gi`; None for what is no decimal size. `low` is lower case."""
    return _SIZES.get(low[:1]) if low[1:] in ("", "b", "i", "ib", "byte", "bytes") else None


def _power(size: str) -> str:
    power = "KMGT".index(size[0]) + 1
    return "1024" + ("", "²", "³", "⁴")[power - 1]


def _scaled(number: str, factor: int | Fraction) -> str:
    if len(number) > _MOST_DIGITS:
        return number
    return _plain(Fraction(number.replace("_", "")) * factor) or number


def _divided(number: str, by: int) -> str:
    return _scaled(number, Fraction(1, by))


def _with_zeros(number: str, prefix: str, unit: str) -> str:
    return _scaled(number, _PREFIXES.get(prefix, 1)) + unit


# -------------------------------------------------------------------------------------------------- how values are kept


def kept(value: Fraction | float, type: Type) -> Any:
    """An exact value as programs keep it (types.py): whole ns and bytes, floats else. Infinite stays."""
    if isinstance(value, float):
        return value
    if type in (Type.DURATION, Type.BYTES):
        return round(value)
    if type is Type.NUMBER and value.denominator == 1:
        return int(value)
    return float(value)


def exact(value: Any) -> Any:
    """A kept number as a fraction, the way it was written: 0.62 is 62/100. Infinite, and no number, stay."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return value
    return Fraction(repr(value))


# ------------------------------------------------------------------------------------------------- how values are shown

_SCALES: dict[Type, tuple[tuple[str, int | Fraction], ...]] = {
    Type.NUMBER: (("", 1),),
    Type.RATIO: (("%", Fraction(1, 100)),),
    Type.DURATION: tuple(reversed(DURATIONS.items())),
    Type.BYTES: tuple(reversed(BYTES.items())),
    Type.RATE: (("/s", 1), ("/min", Fraction(1, 60)), ("/h", Fraction(1, 3600))),
    Type.BANDWIDTH: tuple((f"{unit}/s", scale) for unit, scale in reversed(BYTES.items())),
}
"""Units that values are shown in, and scales."""
_DECIMALS = 9
_FEWER = {"h": 0, "min": 0, "/min": 3, "/h": 3}
"""Decimals of units in which more are hard to read: `90min` is easier than `1.5h`, `0.75/s` than `2700/h`."""
_HARDLY = 2
"""Characters."""
_LEAST: dict[str, int | Fraction] = {"h": 10, "min": 10, "/s": Fraction(1, 10), "/min": Fraction(1, 10)}
"""Of what is rounded, so much at least is shown in that unit; else 1."""


def show_value(value: Any, type: Type) -> str:
    """A value in the language's own notation, the shortest that is exact: `2.5ms`, `50_000/s`, `62%`, `1.5GiB`,
    `unlimited`, `weight(2)`; `missing` for None. Of a computed value with no short form, nine digits."""
    if value is None:
        return "missing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(show_value(item, type) for item in value)}]"
    if isinstance(value, str):
        return f'"{value}"' if type is Type.TEXT else value
    if not isinstance(value, int | float | Fraction):
        return str(value)
    if math.isinf(value):
        return "unlimited" if value > 0 else "-unlimited"
    if math.isnan(value):
        return "missing"
    if value < 0:
        return f"-{show_value(-value, type)}"
    if not value:
        return f"0{_zero_unit(type)}"
    number = value if isinstance(value, Fraction) else Fraction(repr(value))
    return min(_notations(number, type, value), key=len, default=None) or _about(number, type, _DECIMALS)


def show_measured(value: Any, type: Type, digits: int = 3) -> str:
    """What was measured or computed, to be read at a glance: so many digits, whole ones all, in the unit that fits
    best: `913/s`, `12_346/s`, `412ms`, `37.3GiB`. Exact where that is hardly longer, as where a test has set it."""
    text = show_value(value, type)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value or not math.isfinite(value):
        return text
    about = f"{'-' if value < 0 else ''}{_about(abs(Fraction(value)), type, digits)}"
    return text if len(text) <= len(about) + _HARDLY else about


def _zero_unit(type: Type) -> str:
    return {Type.RATIO: "%", Type.DURATION: "s", Type.BYTES: "B", Type.RATE: "/s", Type.BANDWIDTH: "B/s"}.get(type, "")


def _notations(value: Fraction, type: Type, as_kept: Any) -> Iterator[str]:
    """Exact ones, those with a greater unit first; only one of whole hours or minutes, and of rates."""
    for unit, scale in _SCALES.get(type, _SCALES[Type.NUMBER]):
        number = value / scale
        if number < 1 and scale > 1:
            continue
        shown = _shortest(number, scale, _FEWER.get(unit, _DECIMALS), type, as_kept)
        if shown:
            yield (_plain(shown) or "0") + unit
            if unit in _FEWER or type is Type.RATE:
                return


def _shortest(number: Fraction, scale: int | Fraction, decimals: int, type: Type, as_kept: Any) -> Fraction | None:
    """The number if it ends within so many decimals; of one kept as a float, the shortest that is kept as the same."""
    shown = Fraction(round(number, decimals))
    if shown == number:
        return shown
    if type in (Type.DURATION, Type.BYTES):
        return None
    rounded = (Fraction(round(number, places)) for places in range(decimals + 1))
    return next((found for found in rounded if kept(found * scale, type) == as_kept), None)


def _about(value: Fraction, type: Type, digits: int) -> str:
    """So many significant digits, and all before the point, in the unit that fits best."""
    scales = _SCALES.get(type, _SCALES[Type.NUMBER])
    unit, scale = next((found for found in scales if value >= found[1] * _LEAST.get(found[0], 1)), scales[-1])
    number = value / scale
    decimals = max(0, digits - len(str(int(number)))) if number >= 1 else digits
    while number < 1 and number * 10**decimals < 10 ** (digits - 1) and decimals < 18:
        decimals += 1
    return (_plain(Fraction(round(number, decimals))) or "0") + unit


def _plain(value: Fraction) -> str | None:
    """Digits without an exponent; thousands grouped from five digits on; None if they do not end."""
    whole, rest = divmod(value.numerator, value.denominator)
    grouped = f"{whole:_}" if whole >= 10_000 else str(whole)
    if not rest:
        return grouped
    digits = ""
    while rest and len(digits) < 20:
        digit, rest = divmod(rest * 10, value.denominator)
        digits += str(digit)
    return None if rest else f"{grouped}.{digits}"
