"""`fmt` changes spaces and breaks, and nothing else; what it made it leaves alone."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies import ast
from gpud.policies.format import format_text
from gpud.policies.parse import parse
from gpud.policies.printer import print_expr, print_file
from gpud.policies.source import Source
from tests.policies.trees import comments_of, exprs, files, respelt

SPEC = sorted((Path(__file__).parent / "spec").glob("*.gpol"))


def fmt(text: str) -> str:
    return format_text(Source("t.gpol", text))


def tree(text: str) -> ast.File:
    file, found = parse(Source("t.gpol", text))
    assert file is not None
    assert found == []
    return file


def words(line: str) -> str:
    return " ".join(line.split())


# ------------------------------------------------------------------------------------------------------- properties


@settings(max_examples=120, deadline=None)
@given(files)
def test_a_printed_tree_parses_to_itself(file: ast.File) -> None:
    assert tree(print_file(file)) == file


@settings(max_examples=120, deadline=None)
@given(exprs)
def test_a_printed_expression_parses_to_itself(expr: ast.Expr) -> None:
    item = tree(f'gpol 1\npolicy "p" {{ let x = {print_expr(expr)} }}').items[0]
    assert isinstance(item, ast.Policy)
    let = item.members[0]
    assert isinstance(let, ast.Let)
    assert let.value == expr


@settings(max_examples=80, deadline=None)
@given(files, st.integers(0, 10**9))
def test_however_it_is_written_meaning_and_comments_stay_and_twice_is_as_good_as_once(
    file: ast.File, seed: int
) -> None:
    text, comments = respelt(print_file(file), seed)
    assert tree(text) == file
    once = fmt(text)
    assert tree(once) == file
    assert comments_of(once) == comments
    assert fmt(once) == once
    assert once == "\n".join(line.rstrip() for line in once.split("\n")), "no space at the end of a line"
    assert "\n\n\n" not in once


@pytest.mark.parametrize("path", SPEC, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", range(4))
def test_the_examples_in_every_spelling(path: Path, seed: int) -> None:
    text, comments = respelt(path.read_text(), seed)
    once = fmt(text)
    assert tree(once) == tree(path.read_text())
    assert comments_of(once) == comments
    assert fmt(once) == once


@pytest.mark.parametrize("path", SPEC, ids=lambda path: path.stem)
def test_the_examples_keep_their_lines(path: Path) -> None:
    text = path.read_text()
    assert [words(line) for line in fmt(text).split("\n")] == [words(line) for line in text.split("\n")]
    assert fmt(fmt(text)) == fmt(text)


# ------------------------------------------------------------------------------------------------------------ style


def check(before: str, after: str) -> None:
    head = 'gpol 1\n\npolicy "p" {\n'
    assert fmt(f"{head}{before}\n}}\n") == f"{head}{after}\n}}\n"


def test_bindings_below_each_other_are_aligned() -> None:
    check(
        "a.pause=true\na.residency   = host\n\na.x = 1",
        "  a.pause     = true\n  a.residency = host\n\n  a.x = 1",
    )


def test_classes_in_one_line_are_aligned() -> None:
    check(
        'class a { match label("x")=="y" share = equal }\nclass long_name {match any per = tenant share=weight( 2 )}',
        '  class a         { match label("x") == "y"  share = equal }\n'
        "  class long_name { match any                per = tenant  share = weight(2) }",
    )


def test_rules_in_one_line_are_aligned() -> None:
    check(
        "when a.x { a.y = 1 }\nwhen b.longer > 3 { a.z = 1 }",
        "  when a.x          { a.y = 1 }\n  when b.longer > 3 { a.z = 1 }",
    )


def test_a_comment_stays_where_it_was() -> None:
    check(
        "  # above\n\n\n  a.x = 1 # behind\n a.yy = 2     #too\n\n  # last",
        "  # above\n\n  a.x  = 1                                # behind\n"
        "  a.yy = 2                                #too\n\n  # last",
    )


def test_a_block_in_several_lines_has_one_line_a_setting() -> None:
    check(
        "arbitrate preempt { order = [a, b]\n resume_after = 3ms max_pause = 2s }",
        "  arbitrate preempt {\n    order        = [a, b]\n    resume_after = 3ms\n    max_pause    = 2s\n  }",
    )


def test_a_rule_that_is_too_long_is_broken_before_its_reason() -> None:
    check(
        "when high.delay_p99 > 2ms for 200ms until high.delay_p99 < 1ms for 2s "
        'because "low\'s kernels delay high" { a.b = 1 }',
        "  when high.delay_p99 > 2ms for 200ms until high.delay_p99 < 1ms for 2s\n"
        '    because "low\'s kernels delay high" {\n    a.b = 1\n  }',
    )


def test_arguments_that_are_too_long_stand_below_each_other() -> None:
    check(
        "low.max_launch_rate = aimd(hurt = serving.vllm.ttft_p99 > 300ms, period = 500ms, start = 500/s, floor = 50/s)",
        "  low.max_launch_rate = aimd(\n    hurt   = serving.vllm.ttft_p99 > 300ms,\n    period = 500ms,\n"
        "    start  = 500/s,\n    floor  = 50/s)",
    )


def test_a_condition_that_is_too_long_is_broken_before_its_operators() -> None:
    long = "serving.vllm.queue_depth > 32"
    check(
        f"when {long} and {long} and {long} and {long} {{ a.b = 1 }}",
        f"  when {long}\n    and {long}\n    and {long}\n    and {long} {{\n    a.b = 1\n  }}",
    )


def test_else_in_one_line_stays_there_and_else_below_goes_below() -> None:
    check("when a.x { a.y = 1 } else { a.y = 2 }", "  when a.x { a.y = 1 } else { a.y = 2 }")
    check("when a.x { a.y = 1 }\nelse { a.y = 2 }", "  when a.x {\n    a.y = 1\n  }\n  else {\n    a.y = 2\n  }")


def test_items_stand_apart_but_apply_lines_need_not() -> None:
    assert fmt('gpol 1 use a apply "p" to gpu 0\napply "longer"  to gpu *\npolicy "p" { } test "t" { }') == (
        'gpol 1\nuse a\n\napply "p"      to gpu 0\napply "longer" to gpu *\n\npolicy "p" {}\n\ntest "t" {}\n'
    )


def test_steps_are_aligned() -> None:
    text = 'gpol 1\ntest "t" {\nat 0s a.b = 1\nby 10min expect a.c\nfrom 1s to 2s expect a.d\n}'
    assert fmt(text) == (
        'gpol 1\n\ntest "t" {\n  at 0s     a.b = 1\n  by 10min  expect a.c\n  from 1s to 2s expect a.d\n}\n'
    )


def test_what_does_not_parse_comes_back_as_it_is() -> None:
    for text in ("", "gpol 1\npolicy {", 'policy "x" {}', "gpol 1\n\0"):
        assert fmt(text) == text
