"""W3C trace context: what is taken, what is passed over, what a job is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.model.traceparent import Context, of_job, parse

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"cc-{TRACE}-{SPAN}-01", True),
        (f"01-{TRACE}-{SPAN}-01-what-comes-later", True),
    ],
)
def test_what_names_a_span(text: str, sampled: bool) -> None:
    assert parse(text) == Context(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"01-{TRACE}-{SPAN}-01-{'x' * 300}",
        f"00-{'４' * 32}-{SPAN}-01",
    ],
)
def test_what_names_none(text: str) -> None:
    assert parse(text) is None


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    parse(text)


def test_what_is_told_is_read_back() -> None:
    for sampled in (True, False):
        assert parse(Context(TRACE, SPAN, sampled).text()) == Context(TRACE, SPAN, sampled)


def test_the_span_of_a_job_is_the_same_for_whoever_asks_and_joins_its_callers_trace() -> None:
    own = of_job("boot", 1, 5, None)
    assert own == of_job("boot", 1, 5, None)
    assert parse(own.text()) == own
    others = {of_job(*words, None) for words in (("boot", 2, 5), ("boot", 1, 6), ("other", 1, 5))}
    assert len({own.trace_id, *(one.trace_id for one in others)}) == 4
    joined = of_job("boot", 1, 5, Context(TRACE, SPAN, False))
    assert (joined.trace_id, joined.sampled) == (TRACE, False)
    assert joined.span_id == own.span_id != SPAN
