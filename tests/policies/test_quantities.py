"""Numbers with units: exact, and shown as they would be written."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies.quantities import (
    LARGEST,
    UNITS,
    exact,
    instead_of,
    kept,
    read_quantity,
    show_measured,
    show_value,
    wrong_quantity,
)
from gpud.policies.types import Type
from gpud.policies.values import EQUAL, Share


@pytest.mark.parametrize(
    ("number", "unit", "type", "value"),
    [
        ("250", "ms", Type.DURATION, 250_000_000),
        ("2.5", "ms", Type.DURATION, 2_500_000),
        ("1", "ns", Type.DURATION, 1),
        ("7", "us", Type.DURATION, 7_000),
        ("1.5", "min", Type.DURATION, 90_000_000_000),
        ("2", "h", Type.DURATION, 7_200_000_000_000),
        ("24_576", "MiB", Type.BYTES, 24 * 2**30),
        ("0.5", "KiB", Type.BYTES, 512),
        ("3", "TiB", Type.BYTES, 3 * 2**40),
        ("9", "B", Type.BYTES, 9),
        ("62.5", "%", Type.RATIO, Fraction(5, 8)),
        ("0.1", "%", Type.RATIO, Fraction(1, 1000)),
        ("50_000", "/s", Type.RATE, 50_000),
        ("5", "/ms", Type.RATE, 5_000),
        ("1", "/us", Type.RATE, 1_000_000),
        ("1", "/min", Type.RATE, Fraction(1, 60)),
        ("1", "/h", Type.RATE, Fraction(1, 3600)),
        ("2", "GiB/s", Type.BANDWIDTH, 2 * 2**30),
        ("2", "B/s", Type.BANDWIDTH, 2),
        ("4", "", Type.NUMBER, 4),
        ("1_000.25", "", Type.NUMBER, Fraction(4001, 4)),
    ],
)
def test_quantities_are_exact(number: str, unit: str, type: Type, value: Fraction) -> None:
    assert read_quantity(number, unit) == (type, value)


@pytest.mark.parametrize(
    ("number", "unit", "helped"),
    [
        ("20", "GB", "sizes are powers of two here: write GiB (1024³ bytes)"),
        ("20", "Kb", "sizes are powers of two here: write KiB (1024 bytes)"),
        ("20", "MB", "sizes are powers of two here: write MiB (1024² bytes)"),
        ("20", "TB", "sizes are powers of two here: write TiB (1024⁴ bytes)"),
        ("20", "G", "sizes are powers of two here: write GiB (1024³ bytes)"),
        ("20", "gib", "sizes are powers of two here: write GiB (1024³ bytes)"),
        ("20", "MS", "units have one spelling: write ms"),
        ("20", "S", "units have one spelling: write s"),
        ("20", "sec", "write s"),
        ("20", "seconds", "write s"),
        ("20", "m", "write min for minutes, ms for milliseconds, MiB for memory"),
        ("20", "µs", "write us"),
        ("20", "hours", "write h"),
        ("2", "d", "the longest unit is h: write 48h"),
        ("2", "weeks", "the longest unit is h: write 336h"),
        ("20", "percent", "write %"),
        ("20", "/sec", "write 20/s"),
        ("20", "/minute", "write 20/min"),
        ("48", "/day", "the longest unit is h: write 2/h"),
        ("20", "Hz", "write 20/s"),
        ("1.5", "kHz", "write 1500/s"),
        ("20", "rps", "write 20/s"),
        ("2", "k/s", "write the zeros: 2000/s"),
        ("10", "Mbps", "a bandwidth is in bytes a second, of 8 bits: write MiB/s"),
        ("80", "C", "a temperature in °C is a plain number: write 80"),
        ("300", "W", "a power in watt is a plain number: write 300"),
        ("2", "w", "the longest unit is h: write 336h"),
        ("20", "GB/s", "a bandwidth is in powers of two a second: write GiB/s"),
        ("20", "GiB/sec", "a bandwidth is in powers of two a second: write GiB/s"),
        ("50", "k", "write the zeros: 50_000"),
        ("2", "x", "a factor is a plain number: write 2"),
        ("20", "parsec", "units are ns us ms s min h, B KiB MiB GiB TiB, %, /s (or /us /ms /min /h), GiB/s"),
    ],
)
def test_wrong_units_say_what_to_write(number: str, unit: str, helped: str) -> None:
    assert read_quantity(number, unit) is None
    wrong = wrong_quantity(number, unit)
    assert (wrong.code, wrong.message, wrong.help, wrong.unit_only) == ("GP103", f"unknown unit `{unit}`", helped, True)


def test_what_is_too_much_is_no_value() -> None:
    assert read_quantity("9_223_372_036", "s") is not None
    assert read_quantity("9_223_372_037", "s") is None
    assert wrong_quantity("9_223_372_037", "s").code == "GP206"


def test_a_megabyte_of_digits_costs_nothing() -> None:
    digits = "1" * 1_000_000
    assert read_quantity(digits, "") is None
    assert wrong_quantity(digits, "").code == "GP206"
    assert wrong_quantity(digits, "kHz").code == "GP103"


@given(st.text(max_size=8), st.from_regex(r"\d[\d_]{0,50}(\.\d{1,50})?", fullmatch=True))
@settings(max_examples=300, deadline=None)
def test_any_unit_has_a_value_or_a_help(unit: str, number: str) -> None:
    if read_quantity(number, unit) is None:
        assert wrong_quantity(number, unit).help


def test_helps_name_units_that_exist() -> None:
    for wrong in ("GB", "sec", "MS", "hours", "percent", "bytes", "ghz", "usec", "KIB"):
        words = instead_of(wrong, "1").removesuffix(")").split()
        assert any(word in UNITS or word.lstrip("0123456789_") in UNITS for word in words), wrong


# ------------------------------------------------------------------------------------------------- how values are shown


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (2_500_000, Type.DURATION, "2.5ms"),
        (250_000_000, Type.DURATION, "250ms"),
        (90_000_000_000, Type.DURATION, "90s"),
        (60_000_000_000, Type.DURATION, "1min"),
        (5_400_000_000_000, Type.DURATION, "90min"),
        (7_200_000_000_000, Type.DURATION, "2h"),
        (1_234_567, Type.DURATION, "1.234567ms"),
        (1, Type.DURATION, "1ns"),
        (0, Type.DURATION, "0s"),
        (-3_000_000, Type.DURATION, "-3ms"),
        (50_000.0, Type.RATE, "50_000/s"),
        (2_000.0, Type.RATE, "2000/s"),
        (0.5, Type.RATE, "0.5/s"),
        (1 / 60, Type.RATE, "1/min"),
        (1 / 3600, Type.RATE, "1/h"),
        (100 / 60, Type.RATE, "100/min"),
        (0.5 / 3600, Type.RATE, "0.5/h"),
        (913.0929006866, Type.RATE, "913.092901/s"),
        (0.62, Type.RATIO, "62%"),
        (0.07, Type.RATIO, "7%"),
        (0.125, Type.RATIO, "12.5%"),
        (1.5, Type.RATIO, "150%"),
        (1 / 3, Type.RATIO, "33.3333333%"),
        (1_610_612_736, Type.BYTES, "1.5GiB"),
        (24_576 * 2**20, Type.BYTES, "24GiB"),
        (1025 * 2**20, Type.BYTES, "1025MiB"),
        (1, Type.BYTES, "1B"),
        (123_456_789_012, Type.BYTES, "123_456_789_012B"),
        (2.0 * 2**30, Type.BANDWIDTH, "2GiB/s"),
        (4, Type.NUMBER, "4"),
        (1.5, Type.NUMBER, "1.5"),
        (math.inf, Type.RATE, "unlimited"),
        (math.inf, Type.UNLIMITED, "unlimited"),
        (True, Type.BOOL, "true"),
        (None, Type.DURATION, "missing"),
        ("host", Type.RESIDENCY, "host"),
        ("online", Type.TEXT, '"online"'),
        (EQUAL, Type.SHARE, "equal"),
        (Share("burst", weight=4), Type.SHARE, "burst(weight = 4)"),
    ],
)
def test_values_are_shown_as_they_would_be_written(value: object, type: Type, text: str) -> None:
    assert show_value(value, type) == text


@given(st.from_regex(r"\d{1,9}(\.\d{1,3})?", fullmatch=True), st.sampled_from(sorted(UNITS)))
@settings(max_examples=300, deadline=None)
def test_what_is_shown_is_read_as_the_same(number: str, unit: str) -> None:
    found = read_quantity(number, unit)
    if found is None:
        return
    type, value = found
    held = kept(value, type)
    if held != value and type in (Type.DURATION, Type.BYTES):
        return  # finer than is kept: reported where it stands
    text = show_value(held, type)
    digits = text.rstrip("".join(sorted({*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/%"})))
    again = read_quantity(digits, text[len(digits) :])
    assert again is not None, text
    assert (again[0], kept(again[1], type)) == (type, held), text
    assert len(text) <= max(len(f"{number}{unit}") + 12, 24), text


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (913.0929006866, Type.RATE, "913/s"),
        (999.9612, Type.RATE, "1000/s"),
        (12_345.678, Type.RATE, "12_346/s"),
        (0.456789, Type.RATE, "0.457/s"),
        (0.012345678, Type.RATE, "0.741/min"),
        (1.2345678e-5, Type.RATE, "0.0444/h"),
        (411_521_888.6, Type.DURATION, "412ms"),
        (1_234_567_890, Type.DURATION, "1.23s"),
        (130_412_345_678, Type.DURATION, "130s"),
        (5_432_123_456_789, Type.DURATION, "90.5min"),
        (50_000_123_456_789, Type.DURATION, "13.9h"),
        (30_000_000_000, Type.DURATION, "30s"),
        (1_234_500_000, Type.DURATION, "1.2345s"),
        (90_000_000_000, Type.DURATION, "90s"),
        (40_000_000_000, Type.BYTES, "37.3GiB"),
        (24 * 2**30, Type.BYTES, "24GiB"),
        (1.5 * 2**30, Type.BANDWIDTH, "1.5GiB/s"),
        (0.259233, Type.RATIO, "25.9%"),
        (0.271693, Type.NUMBER, "0.272"),
        (123_456, Type.NUMBER, "123_456"),
        (0.00012345678, Type.NUMBER, "0.000123"),
        (-2.5, Type.NUMBER, "-2.5"),
        (0.0, Type.RATE, "0/s"),
        (math.inf, Type.DURATION, "unlimited"),
        (True, Type.BOOL, "true"),
        (None, Type.RATE, "missing"),
        ("host", Type.RESIDENCY, "host"),
    ],
)
def test_what_was_measured_is_rounded_in_its_natural_unit(value: object, type: Type, text: str) -> None:
    assert show_measured(value, type) == text


def test_digits_of_what_was_measured_can_be_asked_for() -> None:
    assert [show_measured(989.971234567, Type.RATE, digits) for digits in (3, 4, 6, 9)] == [
        "990/s", "990/s", "989.971/s", "989.971235/s",
    ]  # fmt: skip


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(list(Type)))
@settings(max_examples=300, deadline=None)
def test_any_number_can_be_shown(value: float, type: Type) -> None:
    assert show_value(value, type)
    assert len(show_measured(value, type)) < 420  # 1e308 has all its digits


@given(st.integers(0, LARGEST), st.sampled_from([Type.DURATION, Type.BYTES, Type.NUMBER]))
@settings(max_examples=200, deadline=None)
def test_whole_numbers_keep_their_value(value: int, type: Type) -> None:
    assert kept(exact(value), type) == value
