import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gpud.tui.text import (
    Line,
    Span,
    amount,
    both_ends,
    clean,
    clock,
    fit,
    line_of,
    ordinal,
    rate,
    span_of_time,
    width_of,
    width_of_spans,
    wrap,
)

HOSTILE = [
    "plain",
    "a\nb\tc\x1b[31m\x07",
    "日本語の名前",
    "🚀🔥 training 👩‍🔬",
    "e\u0301" * 5,
    "\u202eevil\u202c",
    "x" * 4096,
    "\ud800",
    "⚠️ warned",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("width", [0, 1, 2, 7, 40])
def test_any_name_fills_exactly_its_cell(text: str, width: int) -> None:
    for align in "<>":
        assert cell_len(fit(clean(text), width, align)) == width


@given(st.text(), st.integers(0, 30))
def test_fit_is_exact_for_all_text(text: str, width: int) -> None:
    assert cell_len(fit(clean(text), width)) == width


@given(st.text())
def test_clean_text_moves_nothing_on_a_screen(text: str) -> None:
    assert clean(text).isprintable()


def test_control_characters_are_written_out() -> None:
    assert clean("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"
    assert clean("\u202eabc") == "\\u202eabc"
    assert clean("⚠️") == "⚠"


def test_a_long_name_is_cut_with_an_ellipsis() -> None:
    assert fit("serving", 5) == "serv…"
    assert fit("日本語", 4) == "日 …"
    assert fit("日本語", 5) == "日本…"
    assert fit("ab", 4, ">") == "  ab"


@given(st.text(alphabet="ab 日é", max_size=60), st.integers(2, 20), st.integers(1, 5))
def test_wrapped_text_keeps_its_words_within_the_width(text: str, width: int, most: int) -> None:
    lines = wrap(text, width, most)
    assert len(lines) <= most
    assert all(width_of(line) <= width for line in lines)
    whole = "".join(lines).replace(" ", "")
    if not lines or not lines[-1].endswith("…"):
        assert whole == text.replace(" ", "")


def test_words_are_not_broken_where_there_is_a_space() -> None:
    assert wrap("launches wait until it rests", 12, 9) == ["launches", "wait until", "it rests"]
    assert wrap("launches wait until", 12, 1) == ["launches wa…"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "–"), (0, "0"), (1023, "1023B"), (512, "512B"), (2**20, "1M"), (40 * 2**30, "40G"), (1023 * 2**20, "1023M"),
     (int(39.44 * 2**30), "39.4G"), (2**40, "1T"), (100 * 2**30, "100G")],
)  # fmt: skip
def test_amounts(count: int | None, text: str) -> None:
    assert amount(count) == text


@given(st.integers(0, 2**52))
def test_an_amount_has_at_most_five_signs(count: int) -> None:
    assert len(amount(count)) <= 5


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(None, "–"), (-5, "0s"), (0, "0s"), (350_000, "350us"), (4_200_000, "4.2ms"), (99_400_000, "99ms"),
     (250_000_000, "250ms"), (1_500_000_000, "1.5s"), (41 * 10**9, "41s"), (312 * 10**9, "5m12"),
     (3 * 3600 * 10**9 + 240 * 10**9, "3h04"), (12 * 86400 * 10**9, "12d")],
)  # fmt: skip
def test_durations(nanoseconds: int | None, text: str) -> None:
    assert span_of_time(nanoseconds) == text


def test_rates_and_places() -> None:
    assert [rate(one) for one in (None, 0.0, 3.14, 42.0, 3400.0, 1.2e6)] == ["–", "0", "3.1", "42", "3.4k", "1.2M"]
    assert [ordinal(one) for one in (0, 1, 2, 3, 4, 11, 22)] == [
        "", "next", "2nd in line", "3rd in line", "4th in line", "11th in line", "22nd in line"
    ]  # fmt: skip


def test_a_clock_that_is_far_off_is_no_error() -> None:
    assert clock(2**90) == "00:00:00"
    assert clock(-(2**90)) == "00:00:00"


def test_a_line_is_cut_at_the_width_and_keeps_its_roles() -> None:
    line = line_of([Span("ab", "x"), Span("日本", "y"), Span("zz", "z")], 5)
    assert line == Line((Span("ab", "x"), Span("日…", "y")))
    assert width_of_spans(line.spans) == 5


def test_the_right_end_gives_way() -> None:
    assert both_ends([Span("left")], [Span("right")], 12).spans[-1].text == "right"
    assert both_ends([Span("left")], [Span("right")], 10) == line_of([Span("left")], 10)
