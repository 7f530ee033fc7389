"""Findings as text: gutter, carets, cuts, other files, colour, and how many are shown."""

import io
from unicodedata import east_asian_width

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.diagnostics import MOST, Diagnostic, Label
from gpud.policies.excerpt import WIDTH, columns
from gpud.policies.render import colour_wanted, human, summary
from gpud.policies.source import Source, Span

TYPE = Source(
    "bad/type.gpol",
    "gpol 1\npolicy {\n  class high { match any }\n\n\n\n  when high.wait_p99 > 5 { low.max_inflight = 1 }\n}\n",
)


def at(source: Source, word: str, text: str = "") -> Label:
    start = source.text.index(word)
    return Label(source, Span(start, start + len(word)), text)


def wrong(source: Source, word: str, text: str = "", *labels: Label, code: str = "GP202") -> Diagnostic:
    return Diagnostic(code, "wrong", at(source, word, text), labels)


def test_two_labels_on_one_line() -> None:
    found = Diagnostic(
        "GP202",
        "cannot compare a duration with a plain number",
        at(TYPE, "5", "a plain number"),
        (at(TYPE, "high.wait_p99", "a duration"),),
        ("write a duration such as 250ms",),
    )
    assert (
        human([found])
        == """\
error[GP202]: cannot compare a duration with a plain number
 --> bad/type.gpol:7:24
  |
7 |   when high.wait_p99 > 5 { low.max_inflight = 1 }
  |                        ^ a plain number
  |        ------------- a duration
  = help: write a duration such as 250ms
"""
    )


def test_skipped_lines_and_gutters_of_two_digits() -> None:
    source = Source("a.gpol", "one\ntwo\nthree\n" + "x\n" * 7 + "eleven\n")
    assert (
        human([wrong(source, "eleven", "", at(source, "one"), at(source, "two", "second"), code="GP901")])
        == """\
warning[GP901]: wrong
  --> a.gpol:11:1
   |
 1 | one
   | ---
 2 | two
   | --- second
   :
11 | eleven
   | ^^^^^^
"""
    )


def test_label_in_another_file() -> None:
    one, two = Source("one.gpol", 'policy "p" {\n'), Source("two.gpol", '\n\npolicy "p" {\n')
    assert (
        human([wrong(two, '"p"', "again", at(one, '"p"', "first"))])
        == """\
error[GP202]: wrong
 --> two.gpol:3:8
  |
3 | policy "p" {
  |        ^^^ again
 ::: one.gpol:1:8
  |
1 | policy "p" {
  |        --- first
"""
    )


def test_tabs_wide_and_combining_characters_are_aligned() -> None:
    source = Source("a.gpol", '\tdoc "漢字 e\u0301" wrong\n')
    line, carets = human([wrong(source, "wrong")]).splitlines()[3:5]
    assert line == '1 |     doc "漢字 e\u0301" wrong'
    shown = columns(line[: line.index("wrong")])
    assert shown == sum(2 if east_asian_width(char) in "WF" else 1 for char in line[: line.index("wrong")]) - 1
    assert carets == "  |" + " " * (shown - 3) + "^^^^^"


def test_nothing_in_a_file_or_name_reaches_the_terminal_as_a_command() -> None:
    source = Source("a\x1b[2J.gpol", 'doc "\x1b[31m\u202e\x07" wrong\n')
    text = human([Diagnostic("GP202", "no `\x1b]0;title\x07`", at(source, "wrong", "\x1b[1m"), (), ("\x9b1m\nx",))])
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(text)
    assert len(text.splitlines()) == 6


def test_a_long_line_is_cut_around_the_span() -> None:
    source = Source("a.gpol", "x" * 500 + " wrong " + "y" * 1_000_000 + " other\n")
    lines = human([wrong(source, "wrong", "here", at(source, "other", "there"))]).splitlines()
    texts = [line for line in lines if line.startswith("1 | ")]
    assert len(texts) == 2, "both places are shown"
    for text in texts:
        assert columns(text) <= 4 + WIDTH
    for word, mark in (("wrong", "^^^^^ here"), ("other", "----- there")):
        (place,) = (number for number, line in enumerate(lines) if word in line and line.startswith("1 | "))
        assert lines[place + 1].index(mark) == lines[place].index(word)


def test_spans_that_are_empty_or_longer_than_their_line() -> None:
    source = Source("a.gpol", "policy {\n  x   \n}")
    end = len(source.text)
    (last,) = human([Diagnostic("GP102", "m", Label(source, Span(end, end), "expected `}`"))]).splitlines()[4:]
    assert last == "  |  ^ expected `}`"
    (block,) = human([Diagnostic("GP305", "m", Label(source, Span(7, end)))]).splitlines()[4:]
    assert block == "  |        ^"
    (blank,) = human([Diagnostic("GP305", "m", Label(source, Span(14, end)))]).splitlines()[4:]
    assert blank == "  |      ^"


def test_what_has_no_text_shows_its_name_only() -> None:
    found = Diagnostic("GP106", "cannot be read", Label(Source("a.gpol", ""), Span(0, 0)), (), ("chmod",))
    assert human([found]) == "error[GP106]: cannot be read\n --> a.gpol\n  = help: chmod\n"


def test_most_errors_are_shown_and_the_rest_is_counted() -> None:
    source = Source("a.gpol", "wrong\n")
    errors = [wrong(source, "wrong")] * (MOST + 7)
    lints = [wrong(source, "wrong", code="GP905")] * 3
    text = human([*lints, *errors])
    assert text.count("error[") == MOST
    assert "warning[" not in text, "errors go first"
    assert text.endswith("\n\n… and 10 more\n")
    assert human([*lints, *errors[:18]]).count("warning[") == 2
    assert "more" not in human(errors[:MOST])


def test_summary() -> None:
    one, two = Source("one.gpol", "wrong"), Source("two.gpol", "wrong")
    assert summary([]) == "no findings"
    assert summary([wrong(one, "wrong")]) == "1 error in 1 file"
    assert summary([wrong(one, "wrong", code="GP905")] * 2) == "2 warnings in 1 file"
    both = [wrong(one, "wrong"), wrong(two, "wrong"), wrong(two, "wrong", code="GP905")]
    assert summary(both) == "2 errors, 1 warning in 2 files"
    assert summary(both, strict=True) == "3 errors in 2 files"
    assert human(both, strict=True).count("error[") == 3


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert colour_wanted(_Terminal())
    assert not colour_wanted(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour_wanted(_Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not colour_wanted(_Terminal())


def test_colour_changes_nothing_but_colour() -> None:
    found = [wrong(TYPE, "5", "a", at(TYPE, "high", "b"))]
    coloured = human(found, colour=True)
    assert coloured.startswith("\x1b[1;31merror[GP202]\x1b[0m")
    plain = coloured
    for sequence in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[1m", "\x1b[0m"):
        plain = plain.replace(sequence, "")
    assert plain == human(found)


@given(st.text(max_size=400), st.data())
def test_any_text_with_any_span_is_drawn(text: str, data: st.DataObject) -> None:
    source = Source("a.gpol", text)
    spans = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(lambda ends: Span(*sorted(ends)))
    first, second = data.draw(spans), data.draw(spans)
    drawn = human([Diagnostic("GP101", text, Label(source, first, "here"), (Label(source, second, text),))])
    assert all(char == "\n" or char.isprintable() for char in drawn)
    if text:
        assert drawn.count("^ here") == 1
    for line in drawn.split("\n"):
        if line[:1].isdigit():
            assert columns(line) <= len(f"{text.count(chr(10)) + 1} | ") + WIDTH
