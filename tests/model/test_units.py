import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.model.errors import UsageError
from gpud.model.units import FOREVER_NS, format_duration, parse_bytes, parse_duration, parse_ratio


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.5ms", 2_500_000),
        ("2s", 2_000_000_000),
        ("300us", 300_000),
        ("1min", 60_000_000_000),
        ("0s", 0),
        (" 7 ns ", 7),
    ],
)
def test_durations(text: str, expected: int) -> None:
    assert parse_duration(text, "--x") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("5", "no unit"),
        ("", "not a duration"),
        ("ms", "not a duration"),
        ("-1ms", "not a duration"),
        ("1e3ms", "not a duration"),
        ("nan s", "not a duration"),
        ("5 parsecs", "unknown unit 'parsecs'"),
        ("0.1ns", "finer than a nanosecond"),
        ("99999999999999999999h", "longer than 70 years"),
        ("1" * 5000 + "s", "not a duration"),
        ("٣ms", "not a duration"),
    ],
)
def test_bad_durations_name_the_flag(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=r"^--resume-after: ") as caught:
        parse_duration(text, "--resume-after")
    assert says in str(caught.value)


@pytest.mark.parametrize(("text", "expected"), [("4GiB", 4 << 30), ("1.5MiB", 3 << 19), ("2GB", 2 * 10**9)])
def test_bytes(text: str, expected: int) -> None:
    assert parse_bytes(text, "--mem") == expected


@pytest.mark.parametrize("text", ["4", "0.3B", "4 gib", "9999999999TiB"])
def test_bad_bytes(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--mem: "):
        parse_bytes(text, "--mem")


def test_ratios() -> None:
    assert parse_ratio("30%", "--compute") == 0.3
    assert parse_ratio("100%", "--compute") == 1.0
    for bad in ("101%", "30", "%", "-1%"):
        with pytest.raises(UsageError, match=r"^--compute: "):
            parse_ratio(bad, "--compute")


def test_format_duration() -> None:
    assert [format_duration(n) for n in (0, 12, 2_500_000, 41_000_000_000, FOREVER_NS)] == [
        "0s",
        "12ns",
        "2.5ms",
        "41s",
        "unlimited",
    ]


@given(st.integers(min_value=0, max_value=9999), st.sampled_from(["ns", "us", "ms", "s", "min", "h"]))
def test_what_is_formatted_can_be_read(number: int, unit: str) -> None:
    duration = parse_duration(f"{number}{unit}", "x")
    again = parse_duration(format_duration(duration), "x")
    assert abs(again - duration) <= duration / 1000


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (parse_duration, parse_bytes, parse_ratio):
        with contextlib.suppress(UsageError):
            assert parse(text, "x") >= 0  # type: ignore[operator]
