"""What cannot be read: one sentence that says what to write, for each of the usual mistakes; and texts of all kinds."""

import re
import time
import tracemalloc

import pytest

from gpud.policies.diagnostics import Diagnostic
from gpud.policies.parse import parse
from gpud.policies.schema import RESERVED
from gpud.policies.source import Source


def found_in(text: str) -> list[Diagnostic]:
    return parse(Source("t.gpol", text))[1]


def only(text: str) -> Diagnostic:
    (diagnostic,) = found_in(text)
    return diagnostic


def marked(diagnostic: Diagnostic) -> str:
    return diagnostic.primary.source.text[slice(*diagnostic.primary.span)]


POLICY = 'gpol 1\npolicy "p" {{\n  class a {{ match any }}\n  arbitrate open {{}}\n  {}\n}}\n'
CLASS = 'gpol 1\npolicy "p" {{\n  class a {{ {} }}\n}}\n'
TEST = 'gpol 1\ntest "t" {{\n  policy "p"\n  {}\n}}\n'
FILE = "{}"


# (where, what is written, code, what is marked, what the help says)
MISTAKES = [
    # loops, `if`, other languages' words
    (POLICY, "while a.active { a.pause = true }", "GP101", ".", "write `when <condition> { … }`"),
    (POLICY, "if a.busy > 3% { a.pause = true }", "GP101", ".", "write `when <condition> { … }`"),
    (POLICY, "if night { a.pause = true }", "GP101", ".", "write `when <condition> { … }`"),
    (POLICY, "for x in a { a.pause = true }", "GP101", "for", "write `when <condition> { … }`"),
    (POLICY, "when a.x { a.y = 1 } else if a.z { a.y = 2 }", "GP101", "if", "write `else { when <condition> { … } }`"),
    (POLICY, "when a.x { a.y = 1 } else when a.z { a.y = 2 }", "GP101", "when", "write `else { when"),
    (POLICY, "when a.x { a.y = 1 } elif a.z { a.y = 2 }", "GP101", ".", "write `else { when"),
    (POLICY, "guard a.x { a.y = 1 } else { a.y = 2 }", "GP101", "else", "a guard has none"),
    (POLICY, "when a.x then { a.y = 1 }", "GP101", "then", "delete `then`"),
    (POLICY, "when a.x is true { a.y = 1 }", "GP101", "is", "compare with `==`"),
    (POLICY, "set a.pause = true", "GP101", "set", "a binding has no word before it"),
    (POLICY, "var x = 3", "GP101", "var", "made with `let`"),
    (POLICY, "import a.b", "GP101", "import", "read together"),
    # operators
    (POLICY, "when a.x = 3 { a.y = 1 }", "GP101", "=", "to compare, write `==`"),
    (POLICY, "a.pause == true", "GP101", "==", "to set something, write `=`"),
    (POLICY, "a.max_inflight += 1", "GP101", "+=", "write `=` and the value"),
    (POLICY, "when a.x && a.y { a.z = 1 }", "GP101", "&&", "write `and`"),
    (POLICY, "when a.x || a.y { a.z = 1 }", "GP101", "||", "write `or`"),
    (POLICY, "when !a.x { a.z = 1 }", "GP101", "!", "write `not`"),
    (POLICY, "when a.x AND a.y { a.z = 1 }", "GP101", "AND", "write `and`"),
    (POLICY, "when a.x <> 3 { a.z = 1 }", "GP101", "<>", "write `!=`"),
    (POLICY, "when a.x === 3 { a.z = 1 }", "GP101", "===", "write `==`"),
    (POLICY, "when a.x => 3 { a.z = 1 }", "GP101", "=>", "write `>=`"),
    (POLICY, "when a.x ≥ 3 { a.z = 1 }", "GP101", "≥", "write `>=`"),
    (POLICY, "when 1 < a.x < 3 { a.z = 1 }", "GP101", "<", "`a < b and b < c`"),
    (POLICY, "when a.x not in [3] { a.z = 1 }", "GP101", "not in", "write `not x in [ … ]`"),
    (POLICY, "when a.x in 3 { a.z = 1 }", "GP101", "3", "write a list in brackets"),
    (POLICY, "admit { memory =\n compute = 3 }", "GP101", "=", "write a value"),
    (POLICY, "admit { memory = 3 = 4 }", "GP101", "=", "write what is set before it"),
    (POLICY, "when a.x 2s { a.y = 1 }", "GP101", "2s", "write `for 2s`"),
    # signs between things
    (POLICY, "a.pause = true;", "GP101", ";", "delete it"),
    (POLICY, "when a.x:\n    a.pause = true", "GP101", ":", "stands in `{ … }`"),
    (CLASS, "match any limit { memory: 3GiB }", "GP101", ":", "write `=`"),
    (POLICY, "admit { memory = 3, compute = 3 }", "GP101", ",", "delete it"),
    (POLICY, "let x = f(a, b,)", "GP101", ")", "delete the comma"),
    (CLASS, "match any limit = { memory = 3GiB }", "GP101", "{", "delete the `=`: `limit { … }`"),
    (POLICY, "let x = 3 }", "GP101", "}", "closed too early"),
    (POLICY, "when a.x, a.y { a.z = 1 }", "GP101", ",", "joined by `and` or `or`"),
    (CLASS, 'match user == "a", user == "b" share = equal', "GP101", ",", "joined by `and` or `or`"),
    (CLASS, "match any, share = equal", "GP101", ",", "delete it"),
    (POLICY, "swap { order = high, low keep = 3 }", "GP101", ",", "`[high, low]`"),
    (POLICY, "class b, c { match any }", "GP101", ",", "a block of its own"),
    (POLICY, "when a.x a.y = 3", "GP101", "a", "stands in braces"),
    (POLICY, "when a.x { a.y = 3 } else a.y = 4", "GP101", "a", "stands in braces"),
    (POLICY, "let x = a.b ? 1 : 2", "GP101", "?", "`when <condition> { … }`"),
    (POLICY, "let x = label[3]", "GP101", "[", "`label(…)`"),
    (POLICY, "a.share = fixed 30%", "GP101", "30%", "`fixed(30%)`"),
    # comments
    (POLICY, "// why", "GP101", "//", "begins with `#`"),
    (POLICY, "a.x = 3 // why", "GP101", "//", "begins with `#`"),
    (POLICY, "/* why */", "GP101", "/*", "begins with `#`"),
    (POLICY, "-- why", "GP101", "--", "begins with `#`"),
    # numbers, units, times
    (CLASS, "match any limit { memory = 20 GB }", "GP103", "20 GB", "write `20GiB`"),
    (POLICY, "param turn = 20 min\n  class job { match any }", "GP103", "20 min", "write `20min`"),
    (POLICY, "let x = 5 %", "GP103", "5 %", "write `5%`"),
    (POLICY, "hours d = mon..fri 22h00..23:00", "GP101", "22h00", "`22:00`"),
    (POLICY, "hours d = mon..fri 8:5..23:00", "GP101", "8:5", "`08:05`"),
    (POLICY, "hours d = mon-fri 08:00..22:00", "GP101", "-", "`mon..fri`"),
    (POLICY, "hours d = mon..fri 08:00-22:00", "GP101", "-", "`08:00..22:00`"),
    (POLICY, "hours d = mon..fri 08:00 to 22:00", "GP101", "to", "`08:00..22:00`"),
    (POLICY, "let x = -5ms", "GP101", "-", "no value is below zero"),
    (POLICY, "let x = .5", "GP101", ".5", "write `0.5`"),
    (POLICY, "let x = 1,000", "GP101", "1,000", "write `1_000`"),
    (POLICY, "let x = 1e5", "GP101", "1e5", "`100_000`"),
    (POLICY, "let x = 0x10", "GP101", "0x10", "decimal digits"),
    (POLICY, "let x = 1h30m", "GP101", "1h30m", "`90s`"),
    (POLICY, "let x = 1.2.3", "GP101", "1.2.3", "one unit"),
    (POLICY, "let x = 5min 30s", "GP101", "5min 30s", "write `330s`"),
    (POLICY, "when gpu.temperature > 80°C { a.y = 1 }", "GP101", "°", "a plain number"),
    (POLICY, "when time > 22:00 { a.y = 1 }", "GP101", "22:00", "`hours night = daily 22:00..06:00`"),
    (POLICY, "hours d = 08:00..22:00", "GP101", "08:00", "`daily 08:00..…`"),
    (POLICY, "hours d = mon 08:00..12:00, 13:00..17:00", "GP101", "13:00", "`daily 13:00..…`"),
    (POLICY, "hours d = mon..fri 8..22", "GP101", "8", "`08:00`"),
    (POLICY, "hours d = mon..fri 8am..10pm", "GP101", "8am", "`08:00`"),
    (POLICY, "hours d = mon..fri 08:00..10pm", "GP101", "10pm", "`22:00`"),
    (POLICY, "during mon..fri 08:00..12:00 { a.y = 1 }", "GP101", "..", "`during` takes a name"),
    (POLICY, "during day and a.x { a.y = 1 }", "GP101", "and", "write `when day and …`"),
    (POLICY, "during not day { a.y = 1 }", "GP101", "not", "write `when not …`"),
    (POLICY, "during day for 5min { a.y = 1 }", "GP101", "for", "write `when day for …`"),
    # names and texts
    (POLICY, "class team-a { match any }", "GP101", "-", "write `team_a`"),
    (POLICY, "class Team { match any }", "GP101", "Team", "write `team`"),
    (POLICY, "class teamA { match any }", "GP101", "teamA", "write `team_a`"),
    (POLICY, 'class "b" { match any }', "GP101", '"b"', "write `b`"),
    (POLICY, "class größe { match any }", "GP101", "größe", "the letters a to z"),
    (POLICY, "let x = True", "GP101", "True", "write `true`"),
    (POLICY, "let in = 3", "GP104", "in", "`in_`"),
    (POLICY, "let test = 3", "GP104", "test", "`test_`"),
    (POLICY, "low.for = 3", "GP104", "for", "`for_`"),
    (POLICY, "class class { match any }", "GP104", "class", "`class_`"),
    (POLICY, "class my-class { match any }", "GP101", "-", "write `my_class`"),
    (POLICY, "timezone Europe/Berlin", "GP101", "Europe", '`"Europe/Berlin"`'),
    (POLICY, 'doc "say "no" to it"', "GP101", '" to it"', "no `\"` inside"),
    (CLASS, 'match exe like "*python*"', "GP101", "like", "compare with `~`"),
    (CLASS, "match exe ~ /python/", "GP101", "/", "a pattern is a text in quotes"),
    (CLASS, "match *", "GP101", "*", "`match any`"),
    (CLASS, "match label('tier') == \"x\"", "GP101", "'tier'", '`"tier"`'),
    (CLASS, "match label(“tier”) == \"x\"", "GP101", "“tier”", '`"tier"`'),
    (POLICY, "doc hello", "GP101", "hello", '`"hello"`'),
    (POLICY, 'doc "hello', "GP107", '"hello', 'end it with `"`'),
    (POLICY, "let x\u00a0= 3", "GP101", "\u00a0", "no-break space"),
    # things in the wrong place
    (CLASS, "share = equal match any", "GP101", "share", "begins with `match`"),
    (CLASS, "match any share = equal match any", "GP101", "match", "once and first"),
    (CLASS, "match any a.pause = true", "GP101", "a.pause", "belongs beside it"),
    (CLASS, "match any when a.x { a.y = 1 }", "GP101", "when", "write it in the policy"),
    (POLICY, "when a.x { guard a.y { a.z = 1 } }", "GP101", "guard", "write it in the policy, not in a rule"),
    (POLICY, "when a.x { class b { match any } }", "GP101", "class", "write it in the policy"),
    (POLICY, 'when a.x because "w" until a.y { a.z = 1 }', "GP101", "until", "stands before `because`"),
    (POLICY, 'when a.x because "w" for 2s { a.z = 1 }', "GP101", "for", "before `because`"),
    (POLICY, 'apply "q" to gpu 0', "GP101", "apply", "behind the `}` of the block"),
    (POLICY, "gpol 1", "GP105", "gpol", "stands once"),
    (TEST, "expect a.b", "GP101", "expect", "say when"),
    (TEST, "at 1s a.b == 3", "GP101", "==", "write `=`"),
    # files
    (FILE, 'policy "p" {}', "GP105", "policy", "write `gpol 1`"),
    (FILE, 'gpol\npolicy "p" {}', "GP105", "policy", "write `gpol 1`"),
    (FILE, 'gpol 2\npolicy "p" {}', "GP105", "2", "write `gpol 1`"),
    (FILE, "", "GP105", "", "write `gpol 1`"),
    (FILE, "# nothing\n", "GP105", "", "write `gpol 1`"),
    (FILE, "gpol 1\n# nothing\n", "GP101", "", "or delete the file"),
    (FILE, "gpol 1\npolicy my-p {}\n", "GP101", "my", '`"my-p"`'),
    (FILE, 'gpol 1\npolicy "p" {}\nuse v\n', "GP101", "use", "directly below the version line"),
    (FILE, 'gpol 1\npolicy "p" {}}\n', "GP101", "}", "delete it"),
    (FILE, 'gpol 1\napply p to gpu 0\n', "GP101", "p", '`"p"`'),
    (FILE, 'gpol 1\napply "p" to 0\n', "GP101", "0", "write `to gpu 0`"),
    (FILE, 'gpol 1\napply "p" to gpu all\n', "GP101", "all", "`*` for every GPU"),
    (FILE, 'gpol 1\napply "p" to all\n', "GP101", "all", "write `to gpu 0`"),
    (FILE, 'gpol 1\napply "p" to gpu 0 1\n', "GP101", "1", "write a comma"),
    (FILE, 'gpol 1\napply "p" to gpu 0, 1 and 2\n', "GP101", "and", "write a comma"),
    (FILE, 'gpol 1\npolicy "p" {}\nlet x = 3\n', "GP101", "let", "stands in a policy"),
    (FILE, 'gpol 1\napply "p" to gpu 0-3\n', "GP101", "-", "`0..3`"),
    (FILE, 'gpol 1\npolicy "p" { let x = 1\0 }', "GP106", "\ufffd", "damaged"),
    (FILE, 'gpol 1\npolicy "\ud800" {}', "GP106", "?", "damaged"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "text", "code", "mark", "help_"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_gives_one_message_that_says_what_to_write(
    where: str, text: str, code: str, mark: str, help_: str
) -> None:
    diagnostic = only(where.format(text))
    assert (diagnostic.code, marked(diagnostic)) == (code, mark)
    assert any(help_ in line for line in diagnostic.helps), diagnostic.helps


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (POLICY.format("a.pause true"), "expected `=`"),
        (POLICY.format("let x ="), "expected a value"),
        (POLICY.format("when { a.y = 3 }"), "expected a value"),
        (POLICY.format("when a.x 3"), "expected `{`, `because`, `for`, `until` or an operator"),
        (POLICY.format("let x = (a + b"), "expected `)` or an operator"),
        (POLICY.format("each a { a.b = 1 }"), "expected `as`"),
        (POLICY.format('let x = "a" "b"'), "expected a line of a policy, an operator or `}`"),
        (POLICY.format("arbitrate preempt { 3 }"), "expected a setting or `}`"),
        (POLICY.format("when a.b { 3 }"), "expected a binding, a rule or `}`"),
        (TEST.format("3"), "expected a step such as `at 1s expect …` or `}`"),
        ('gpol 1\nuse v\n3', "expected `apply`, `policy`, `test`, `use` or the end of the file"),
        ('gpol 1\npolicy "p" {} 3', "expected `apply`, `policy`, `test` or the end of the file"),
    ],
)  # fmt: skip
def test_where_nothing_better_is_known_it_says_what_could_stand_there(text: str, label: str) -> None:
    diagnostic = only(text)
    assert diagnostic.code == "GP101"
    assert diagnostic.primary.text == label


# ----------------------------------------------------------------------------------------------- braces and the end


def labels(diagnostic: Diagnostic) -> list[tuple[int, str]]:
    return [(label.source.position(label.span.start)[0], label.text) for label in diagnostic.labels]


def test_indentation_tells_which_brace_was_forgotten() -> None:
    diagnostic = only('gpol 1\npolicy "p" {\n  class a { match any\n  arbitrate open {}\n}\n')
    assert (diagnostic.code, diagnostic.message) == ("GP102", "the file ends inside a block")
    assert (diagnostic.primary.text, marked(diagnostic)) == ("expected `}`", "")
    assert labels(diagnostic) == [(3, "this `{` is never closed")]


@pytest.mark.parametrize(
    ("text", "label", "line"),
    [
        ('gpol 1\npolicy "p" {\n  class a { match any }\n', "expected `}`", 2),
        ('gpol 1\npolicy "p" { let x = f(', "expected `)` or a value", 2),
        ('gpol 1\npolicy "p" {\n  when a {\n    b.c = [1,\n', "expected a value", 4),
    ],
)
def test_a_file_that_ends_early_shows_what_is_open(text: str, label: str, line: int) -> None:
    diagnostic = only(text)
    assert diagnostic.code == "GP102"
    assert diagnostic.primary.text == label
    assert [at for at, _ in labels(diagnostic)] == [line]


def test_a_parenthesis_that_may_be_forgotten_is_shown() -> None:
    diagnostic = only(POLICY.format("let x = max(1, a.b\n  let y = 3"))
    assert (marked(diagnostic), diagnostic.primary.text) == ("let", "expected `)`, `,` or an operator")
    assert [(label.source.text[slice(*label.span)], label.text) for label in diagnostic.labels] == [
        ("(", "is this `(` closed?")
    ]


def test_a_file_that_ends_between_two_words_says_so() -> None:
    diagnostic = only('gpol 1\napply "p" to')
    assert (diagnostic.code, diagnostic.message) == ("GP101", "the file ends too early")


def test_an_item_that_is_not_closed_is_found_at_the_next() -> None:
    (diagnostic,) = found_in(
        'gpol 1\npolicy "a" {\n  class x { match any\n}\npolicy "b" {\n  class x { match any }\n}\n'
    )
    assert diagnostic.message == "`policy` cannot stand inside a block"
    assert labels(diagnostic) == [(3, "this `{` is never closed")]


def test_mistakes_in_several_items_are_all_found_and_the_others_are_read() -> None:
    text = (
        'gpol 1\npolicy "a" { let x = }\npolicy "b" { class c { match any } }\napply "b" to gpu all\n'
        'test "t" {\n  at 1s expect\n}\ntest "u" { policy "b" }\n'
    )
    file, found = parse(Source("t.gpol", text))
    assert [diagnostic.primary.source.position(diagnostic.primary.span.start)[0] for diagnostic in found] == [2, 4, 7]
    assert file is not None
    assert [policy.name.text for policy in file.policies] == ["b"]
    assert [test.name.text for test in file.tests] == ["u"]
    assert file.applies == ()


def test_a_wrong_version_is_found_beside_mistakes() -> None:
    assert [d.code for d in found_in('gpol 3\npolicy "a" { let x = }\n')] == ["GP105", "GP101"]


# ------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "text",
    [
        POLICY.format(f"let x = {'(' * 10_000}1{')' * 10_000}"),
        POLICY.format(f"let x = {'[' * 10_000}"),
        POLICY.format(f"let x = {'not ' * 10_000}a"),
        POLICY.format(f"let x = {'1 + ' * 10_000}1"),
        POLICY.format(f"let x = {'f(' * 10_000}a{')' * 10_000}"),
        POLICY.format("when a { " * 10_000 + "}" * 10_000),
        POLICY.format("when a {} else { " * 10_000 + "}" * 10_000),
        POLICY.format("let x = " + "a" * 200_000),
        POLICY.format(f'doc "{"a" * 200_000}"'),
        POLICY.format("let x = " + "1" * 200_000),
        POLICY.format("let x = " + "a" * 2**20),
        "a" * 2**20,
        "\n" * 2**20,
        '"' * 200_000,
        "&" * 200_000,
        "gpol 1\n" + "policy " * 30_000,
        "gpol 1\n" + 'policy "a" {\n' * 15_000,
        "gpol 1\n" + 'test "a" {\n' * 15_000,
        "gpol 1\n" + "{" * 200_000,
        "gpol 1\n" + "}" * 200_000,
        POLICY.format("a.b = c\n" * 20_000 + ";"),
        POLICY.format("when a.b " * 20_000),
    ],
    ids=range(22),
)
def test_whatever_its_size_a_text_is_judged_soon_and_in_little_memory(text: str) -> None:
    begin = time.process_time()
    _, found = parse(Source("t.gpol", text))
    took = time.process_time() - begin
    assert found
    assert took < 20  # what grows with the square of its size takes minutes
    tracemalloc.start()
    try:
        _, found = parse(Source("t.gpol", text))
        assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    finally:
        tracemalloc.stop()
    for diagnostic in found:
        assert len(diagnostic.message) < 200
        assert all(len(line) < 300 for line in diagnostic.helps)
        assert diagnostic.primary.span.end - diagnostic.primary.span.start <= 100


def test_what_is_just_deep_enough_is_read() -> None:
    assert found_in(POLICY.format(f"let x = {'(' * 60}1{')' * 60}")) == []
    assert only(POLICY.format(f"let x = {'(' * 70}1{')' * 70}")).code == "GP108"
    assert found_in(POLICY.format("when a { " * 30 + "}" * 30)) == []
    assert only(POLICY.format("when a { " * 40 + "}" * 40)).code == "GP108"


# ------------------------------------------------------------------------------------------------------------ wording


def test_no_word_of_the_machinery_shows() -> None:
    for where, text, *_ in MISTAKES:
        for diagnostic in found_in(where.format(text)):
            said = [
                diagnostic.message,
                diagnostic.primary.text,
                *diagnostic.helps,
                *(x.text for x in diagnostic.labels),
            ]
            for line in said:
                plain = re.sub(r"`[^`]*`", "", line)
                assert not re.search(r"\b[A-Z]{4,}\b|\$|Token|lark|None|__", plain.replace("UUID", "")), line
                assert line == "" or not line.endswith(".")
                assert line == "" or line[0].islower() or line[0] in "`" or line.startswith("U+")
            for word in re.findall(r"`([a-z]+)`", diagnostic.primary.text):
                assert word in RESERVED
