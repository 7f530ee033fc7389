"""Text → tree: what each construct becomes, where it stands, and that our tables are lark's."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import UnexpectedInput

from gpud.policies import ast
from gpud.policies.parse import parse, policy_names
from gpud.policies.schema import RESERVED
from gpud.policies.source import Source
from gpud.policies.syntax import tables as tables_module
from gpud.policies.syntax.make_tables import made_of, main, make_tables
from gpud.policies.syntax.tables import GRAMMAR, tables

SPEC = sorted((Path(__file__).parent / "spec").glob("*.gpol"))
LARK = Lark(GRAMMAR.read_text(), parser="lalr", lexer="basic", maybe_placeholders=False, keep_all_tokens=True)


def file_of(text: str) -> ast.File:
    file, found = parse(Source("t.gpol", text))
    assert found == []
    assert file is not None
    return file


def member(text: str) -> ast.Member:
    policy = file_of(f'gpol 1 policy "p" {{ {text} }}').items[0]
    assert isinstance(policy, ast.Policy)
    (only,) = policy.members
    return only


def value(text: str) -> ast.Expr:
    let = member(f"let x = {text}")
    assert isinstance(let, ast.Let)
    return let.value


def step(text: str) -> ast.Step:
    test = file_of(f'gpol 1 test "t" {{ {text} }}').items[0]
    assert isinstance(test, ast.Test)
    (only,) = test.steps
    return only


def name(text: str) -> ast.Name:
    return ast.Name(text)


def ref(text: str) -> ast.Ref:
    return ast.Ref(tuple(ast.Name(part) for part in text.split(".")))


def number(digits: str, unit: str = "") -> ast.Quantity:
    return ast.Quantity(digits, unit)


# ------------------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20_000/s", number("20_000", "/s")),
        ("1.5", number("1.5")),
        ("2GiB/s", number("2", "GiB/s")),
        ("50%", number("50", "%")),
        ("20GB", number("20", "GB")),
        ('"a b"', ast.String("a b")),
        ("true", ast.Bool(True)),
        ("false", ast.Bool(False)),
        ("unlimited", ast.Unlimited()),
        ("gpu.busy", ref("gpu.busy")),
        ("a.class", ref("a.class")),
        ("[a, 2]", ast.Listing((ref("a"), number("2")))),
        ("[]", ast.Listing(())),
        ("f()", ast.Call(ref("f"), ())),
        ("f(1, x = 2)", ast.Call(ref("f"), (ast.Arg(None, number("1")), ast.Arg(name("x"), number("2"))))),
        ("v.f(a)", ast.Call(ref("v.f"), (ast.Arg(None, ref("a")),))),
        ("(a)", ref("a")),
        ("not not a", ast.Not(ast.Not(ref("a")))),
        ("a and b and c", ast.Logic("and", (ref("a"), ref("b"), ref("c")))),
        ("a or b and not c", ast.Logic("or", (ref("a"), ast.Logic("and", (ref("b"), ast.Not(ref("c"))))))),
        ("(a or b) and c", ast.Logic("and", (ast.Logic("or", (ref("a"), ref("b"))), ref("c")))),
        ("a - b + c", ast.Binary("+", ast.Binary("-", ref("a"), ref("b")), ref("c"))),
        ("a - (b + c)", ast.Binary("-", ref("a"), ast.Binary("+", ref("b"), ref("c")))),
        ("a + b * c", ast.Binary("+", ref("a"), ast.Binary("*", ref("b"), ref("c")))),
        ("a / b * c", ast.Binary("*", ast.Binary("/", ref("a"), ref("b")), ref("c"))),
        ("5 / ms", ast.Binary("/", number("5"), ref("ms"))),
        ("a < b + 1", ast.Binary("<", ref("a"), ast.Binary("+", ref("b"), number("1")))),
        ("not a == b", ast.Not(ast.Binary("==", ref("a"), ref("b")))),
        ('a ~ "x*"', ast.Binary("~", ref("a"), ast.String("x*"))),
        ('a in ["x"]', ast.Binary("in", ref("a"), ast.Listing((ast.String("x"),)))),
    ],
)
def test_expressions(text: str, expected: ast.Expr) -> None:
    assert value(text) == expected


# ----------------------------------------------------------------------------------------------------------- members


def test_members_of_a_policy() -> None:
    assert member('doc "d"') == ast.Doc(ast.String("d"))
    assert member('timezone "UTC"') == ast.Timezone(ast.String("UTC"))
    assert member("param q = 3ms") == ast.Param(name("q"), number("3", "ms"))
    assert member("a.pause = true") == ast.Binding(ref("a.pause"), ast.Bool(True))
    assert member("hours d = mon..fri 08:00..22:00, daily") == ast.Hours(
        name("d"),
        (
            ast.HoursSpan(name("mon"), name("fri"), ast.Time("08:00"), ast.Time("22:00")),
            ast.HoursSpan(name("daily"), None, None, None),
        ),
    )
    assert member("arbitrate open {}") == ast.Block(name("arbitrate"), name("open"), ())
    assert member("admit { memory = 1 }") == ast.Block(name("admit"), None, (ast.Setting(name("memory"), number("1")),))
    assert member("class a { match any  per = class  limit { tenants = 2 } }") == ast.Class(
        name("a"),
        ref("any"),
        (
            ast.Setting(name("per"), ref("class")),
            ast.Block(name("limit"), None, (ast.Setting(name("tenants"), number("2")),)),
        ),
    )


def test_rules() -> None:
    body = ast.Body((ast.Binding(ref("a.x"), number("1")),))
    text = "{ a.x = 1 }"
    a, b = ref("a"), ref("b")
    assert member(f"when a {text}") == ast.When(ast.Held(a, None), None, None, body, None)
    assert member(f'when a for 1s until b for 2s because "w" {text} else {text}') == ast.When(
        ast.Held(a, number("1", "s")), ast.Held(b, number("2", "s")), ast.String("w"), body, body
    )
    assert member(f'guard a because "w" {text}') == ast.Guard(ast.Held(a, None), None, ast.String("w"), body)
    assert member(f"guard a until b {text}") == ast.Guard(ast.Held(a, None), ast.Held(b, None), None, body)
    assert member(f"during d {text}") == ast.During(name("d"), None, body, None)
    assert member(f"during d early 15min {text} else {{}}") == ast.During(
        name("d"), number("15", "min"), body, ast.Body(())
    )
    assert member(f"each a as j {{ when a {text} }}") == ast.Each(
        name("a"), name("j"), ast.Body((ast.When(ast.Held(a, None), None, None, body, None),))
    )


def test_apply_lines() -> None:
    assert file_of('gpol 1 apply "p"(q = 5ms), "r" to gpu 4, 0..3, "GPU-5f", *').applies == (
        ast.Apply(
            (
                ast.Applied(ast.String("p"), (ast.Arg(name("q"), number("5", "ms")),)),
                ast.Applied(ast.String("r"), ()),
            ),
            name("gpu"),
            (ast.DeviceRange(4, 4), ast.DeviceRange(0, 3), ast.DeviceUuid(ast.String("GPU-5f")), ast.EveryDevice()),
        ),
    )


def test_steps_of_a_test() -> None:
    assert step('policy "p"(a = 1)') == ast.UsePolicy(ast.Applied(ast.String("p"), (ast.Arg(name("a"), number("1")),)))
    assert step('clock "2026-03-02 07:40"') == ast.Clock(ast.String("2026-03-02 07:40"))
    assert step('replay "t.jsonl"') == ast.Replay(ast.String("t.jsonl"))
    assert step("simulate c(n = 1)") == ast.Simulate(name("c"), (ast.Arg(name("n"), number("1")),))
    assert step("attach t { labels = [] }") == ast.Attach(name("t"), (ast.Setting(name("labels"), ast.Listing(())),))
    assert step("feed a.x every 1s = 1 times 3, 2") == ast.Feed(
        ref("a.x"), number("1", "s"), (ast.Run(number("1"), 3), ast.Run(number("2"), None))
    )
    assert step("at 1s expect a") == ast.At(number("1", "s"), ast.Expect(ref("a")))
    assert step("at 1s a.x = missing") == ast.At(number("1", "s"), ast.Poke(ref("a.x"), ref("missing")))
    assert step("from 1s to 2s expect a") == ast.Always(number("1", "s"), number("2", "s"), ref("a"))
    assert step("by 1s expect a") == ast.Eventually(number("1", "s"), ref("a"))


def test_a_file_has_version_uses_and_items() -> None:
    file = file_of('# c\ngpol 1\nuse a\nuse b policy "p" {} test "t" {} apply "p" to gpu *')
    assert file.version == "1"
    assert file.uses == (ast.Use(name("a")), ast.Use(name("b")))
    assert [type(item) for item in file.items] == [ast.Policy, ast.Test, ast.Apply]
    assert policy_names(file.source) == ["p"]


# ------------------------------------------------------------------------------------------------------------- spans


def test_spans_are_what_stands_there() -> None:
    text = 'gpol 1\nuse v\npolicy "p" {\n  when (a + b) * 2 > f(x = 1) for 2s { a.x = -1 }\n}\n'.replace("-1", "1")
    policy = file_of(text).policies[0]
    rule = policy.members[0]
    assert isinstance(rule, ast.When)
    condition = rule.condition.condition
    assert isinstance(condition, ast.Binary)
    assert isinstance(condition.left, ast.Binary)
    assert isinstance(condition.right, ast.Call)
    shown = {
        'policy "p" {\n  when (a + b) * 2 > f(x = 1) for 2s { a.x = 1 }\n}': policy.span,
        '"p"': policy.name.span,
        "when (a + b) * 2 > f(x = 1) for 2s { a.x = 1 }": rule.span,
        "(a + b) * 2 > f(x = 1) for 2s": rule.condition.span,
        "(a + b) * 2 > f(x = 1)": condition.span,
        ">": condition.op_span,
        "(a + b) * 2": condition.left.span,
        "(a + b)": condition.left.left.span,
        "f(x = 1)": condition.right.span,
        "x = 1": condition.right.args[0].span,
        "{ a.x = 1 }": rule.body.span,
        "a.x = 1": rule.body.members[0].span,
    }
    for expected, span in shown.items():
        assert text[slice(*span)] == expected


def _spans(node: object, within: tuple[int, int]) -> int:
    """Every node lies within the one that holds it. How many there are."""
    if isinstance(node, tuple):
        return sum(_spans(item, within) for item in node)
    if not hasattr(type(node), "__attrs_attrs__") or isinstance(node, Source):
        return 0
    start, end = node.span  # type: ignore[attr-defined]
    assert within[0] <= start < end <= within[1], node
    fields = [
        getattr(node, field.name) for field in type(node).__attrs_attrs__ if field.name not in ("span", "op_span")
    ]
    return 1 + sum(_spans(child, (start, end)) for child in fields)


@pytest.mark.parametrize("path", SPEC, ids=lambda path: path.stem)
def test_every_node_lies_within_its_parent(path: Path) -> None:
    text = path.read_text()
    assert _spans(file_of(text), (0, len(text))) > 20


# ---------------------------------------------------------------------------------------------------- text as it comes


def test_a_byte_order_mark_and_any_newline_are_read() -> None:
    plain = 'gpol 1\npolicy "p" {\n  class a { match any }  # c\n}\n'
    assert file_of("\ufeff" + plain.replace("\n", "\r\n")) == file_of(plain) == file_of(plain.replace("\n", "\r", 1))


# ------------------------------------------------------------------------------------------------------------ tables


def test_the_grammar_has_no_conflicts_and_no_terminals_that_overlap() -> None:
    Lark(GRAMMAR.read_text(), parser="lalr", strict=True)


def test_keywords_are_the_reserved_words() -> None:
    assert {word for word in tables()["words"] if word.isalpha()} == set(RESERVED)


def test_tables_do_not_depend_on_the_run(tmp_path: Path) -> None:
    main(str(GRAMMAR), str(tmp_path / "tables.json"))
    made = json.loads((tmp_path / "tables.json").read_text())
    assert made == json.loads(json.dumps(make_tables(GRAMMAR)))
    assert made["made_of"] == made_of(GRAMMAR)


@pytest.mark.parametrize("built", ["", "[]", '{"made_of": "another grammar", "rows": []}', None])
def test_tables_that_are_broken_old_or_absent_are_made_anew(
    built: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "BUILT", tmp_path / "tables.json")
    if built is not None:
        (tmp_path / "tables.json").write_text(built)
    assert tables_module.tables.__wrapped__() == make_tables(GRAMMAR)


PIECES = sorted(
    {
        *RESERVED,
        *[
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "=",
            ",",
            ".",
            "..",
            "+",
            "-",
            "*",
            "/",
            "==",
            "<",
            "~",
            "in",
            '"t"',
            "1",
            "5ms",
            "2/s",
            "8:00",
            "08:00",
            "a",
            "b.c",
            "gpu",
        ],
    }
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9))
def test_what_lark_reads_we_read_and_nothing_else(seed: int) -> None:
    """Valid texts with a few tokens changed: both must say the same of each."""
    chance = random.Random(seed)
    words = chance.choice(SPEC).read_text()
    lines = [line.split("#")[0] for line in words.split("\n")]
    tokens = " ".join(lines).split()
    start = chance.randrange(len(tokens))
    for _ in range(chance.randrange(4)):
        at = min(start + chance.randrange(12), len(tokens) - 1)
        tokens[at : at + chance.randrange(2)] = [chance.choice(PIECES)] * chance.randrange(2)
    text = " ".join(tokens)
    try:
        LARK.parse(text)
    except UnexpectedInput:
        read = False
    else:
        read = True
    _, found = parse(Source("t.gpol", text))
    syntax = [diagnostic for diagnostic in found if diagnostic.message != "nothing is in this file"]
    assert (syntax == []) == read
