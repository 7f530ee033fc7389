from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Region

from gpud.tui.draw.bars import bar, marked_bar, sparkline
from gpud.tui.text import Line, Span, width_of, width_of_spans
from gpud.tui.widgets.paper import differing

spans = st.lists(
    st.builds(Span, st.text(alphabet="ab日", min_size=1, max_size=4), st.sampled_from(("", "bad"))), max_size=5
)
lines = st.builds(Line, spans.map(tuple), st.sampled_from(("", "cursor")))
WIDTH = 60


def cells(line: Line) -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = []
    for span in line.spans:
        for sign in span.text:
            found += [(sign, span.role, line.over)] + [("", span.role, line.over)] * (width_of(sign) - 1)
    return found + [(" ", "", line.over)] * (WIDTH - len(found))


@given(lines, lines)
def test_whatever_differs_is_drawn_again(old: Line, new: Line) -> None:
    drawn = {x for region in differing(old, new, 3, WIDTH) for x in range(region.x, region.right)}
    wrong = {x for x, (one, other) in enumerate(zip(cells(old), cells(new), strict=True)) if one != other}
    assert wrong <= drawn


def test_a_cell_that_changes_is_drawn_alone_and_neighbours_in_one() -> None:
    old = Line((Span("ab"), Span(" "), Span("12"), Span(" "), Span("xy")))
    assert differing(old, old, 0, WIDTH) == []
    assert differing(old, Line((*old.spans[:2], Span("13"), *old.spans[3:])), 5, WIDTH) == [Region(3, 5, 2, 1)]
    both = Line((Span("ab"), Span("!"), Span("13"), Span(" "), Span("xz")))
    assert differing(old, both, 0, WIDTH) == [Region(2, 0, 3, 1), Region(6, 0, 2, 1)]


def test_a_line_that_is_laid_out_anew_is_drawn_whole() -> None:
    assert differing(Line((Span("ab"),)), Line((Span("a"), Span("b"))), 1, WIDTH) == [Region(0, 1, WIDTH, 1)]
    assert differing(Line((Span("ab"),)), Line((Span("ab"),), "cursor"), 1, WIDTH) == [Region(0, 1, WIDTH, 1)]


@given(st.none() | st.floats(-1, 2), st.integers(0, 40), st.floats(0, 2))
def test_a_bar_fills_exactly_its_width(ratio: float | None, width: int, more: float) -> None:
    assert width_of_spans(bar(ratio, width, more=more)) == width


@given(st.none() | st.floats(0, 1), st.none() | st.floats(0, 1), st.integers(0, 40))
def test_a_marked_bar_too(ratio: float | None, mark: float | None, width: int) -> None:
    spans_ = marked_bar(ratio, mark, width)
    assert width_of_spans(spans_) == width
    assert ("│" in "".join(span.text for span in spans_)) == (mark is not None and width >= 2)


def test_bars_and_sparklines_say_what_they_should() -> None:
    assert "".join(span.text for span in bar(0.5, 8, more=0.75)) == "████▒▒░░"
    assert "".join(span.text for span in bar(0.3, 4)) == "█▏░░"
    assert "".join(span.text for span in marked_bar(0.5, 0.75, 8)) == "████░░│░"
    assert sparkline([None, 0.0, 0.1, 0.5, 1.0, 7.0]) == "·▁▁▄██"
