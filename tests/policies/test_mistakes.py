"""Typical mistakes of operators: each gives one message that says what to write; who obeys it has a policy that checks.

`obey` does what the help says by rule, not by knowing the case: it reads "did you mean `x`?", "write x", and the like.
"""

import re
from typing import NamedTuple

import pytest

from gpud.policies.check.whole import check_library
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import from_texts
from gpud.policies.render import human

RIGHT = """\
gpol 1

policy "mine" {
  timezone "Europe/Berlin"
  hours day = mon..fri 08:00..22:00

  class serving  { match label("tier") == "online" }
  class training { match any  limit { memory = 20GiB } }

  arbitrate preempt { order = [serving, training]  resume_after = 3ms }

  training.max_inflight = 4

  when serving.wait_p99 > 5ms for 1s until serving.wait_p99 < 2ms for 10s {
    training.max_inflight = 1
  }

  during day {
    training.pause = true
  }
}
"""


class Mistake(NamedTuple):
    """One replacement in RIGHT."""

    name: str
    right: str
    wrong: str
    code: str


MISTAKES = (
    Mistake("missing unit", "resume_after = 3ms", "resume_after = 3", "GP103"),
    Mistake("missing unit in a comparison", "wait_p99 > 5ms", "wait_p99 > 5", "GP202"),
    Mistake("GB", "memory = 20GiB", "memory = 20GB", "GP103"),
    Mistake("wrong class name", "  training.max_inflight = 4", "  trainig.max_inflight = 4", "GP201"),
    Mistake("class name in order", "[serving, training]", "[serving, trainings]", "GP201"),
    Mistake("no effect under the arbiter", "  training.max_inflight = 4", "  training.max_hold = 10s", "GP403"),
    Mistake("= for ==", 'label("tier") == "online"', 'label("tier") = "online"', "GP101"),
    Mistake("= for >", "wait_p99 > 5ms for 1s", "active = true for 1s", "GP101"),
    Mistake("no version line", "gpol 1\n", "", "GP105"),
    Mistake("quoted class name", "class serving ", 'class "serving" ', "GP101"),
    Mistake("quoted class in order", "[serving, training]", '["serving", training]', "GP202"),
    Mistake("label in a rule", "when serving.wait_p99 > 5ms for 1s", 'when label("tier") == "online" for 1s', "GP401"),
    Mistake("unknown signal", "serving.wait_p99 > 5ms", "serving.waitp99 > 5ms", "GP201"),
    Mistake("unknown setting", "resume_after = 3ms", "resume_after = 3ms  max_puase = 1s", "GP204"),
    Mistake("a signal set", "  training.max_inflight = 4", "  training.launch_rate = 2000/s", "GP402"),
    Mistake("a knob read", "serving.wait_p99 > 5ms for", "serving.max_launch_rate > 5/s for", "GP402"),
    Mistake("a wrong day", "mon..fri", "mo..fri", "GP207"),
    Mistake("a wrong zone", '"Europe/Berlin"', '"Europe/Berln"', "GP208"),
    Mistake("forgotten brace", "    training.pause = true\n  }\n", "    training.pause = true\n", "GP102"),
    Mistake("a semicolon", "training.max_inflight = 4", "training.max_inflight = 4;", "GP101"),
    Mistake("a comment of another language", "gpol 1\n", "gpol 1\n// mine\n", "GP101"),
    Mistake("else if", "  during day {", "  else if serving.active { training.pause = true }\n  during day {", "GP101"),
    Mistake("&&", "5ms for 1s", "5ms && serving.active for 1s", "GP101"),
    Mistake("two rules on one share", "", "", "GP301"),
)


def text_of(mistake: Mistake) -> str:
    if mistake.code == "GP301":
        shared = RIGHT.replace("  training.max_inflight = 4\n", "")
        for right, wrong in (
            ("preempt { order = [serving, training]  resume_after = 3ms }", "share { period = 20ms }"),
            ("training.max_inflight = 1", "training.share = fixed(10%)"),
            ("training.pause = true", "training.share = fixed(20%)"),
        ):
            shared = shared.replace(right, wrong)
        return shared
    assert RIGHT.count(mistake.right) == 1
    return RIGHT.replace(mistake.right, mistake.wrong)


def found_in(text: str) -> list[Diagnostic]:
    return check_library(from_texts({"mine.gpol": text}), {})


def test_the_right_one_has_no_findings() -> None:
    assert found_in(RIGHT) == []


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_one_mistake_one_message(mistake: Mistake) -> None:
    found = found_in(text_of(mistake))
    assert [diagnostic.code for diagnostic in found] == [mistake.code], human(found)
    assert found[0].helps or "expected" in found[0].primary.text, human(found)


INSTEAD = (
    r"did you mean `(.+?)`\?",
    r"write (?:for example )?(\S+) or \S+",
    r"write a duration such as (\S+)",
    r"sizes are powers of two here: write (\S+) \(.*\)",
    r"to compare, write `(.+?)`",
    r"a name stands without quotes: write `(.+?)`",
    r"the knob is `(.+?)`",
    r"the signal is `(.+?)`",
    r"write `(and)`",
    r"()delete it: .*",
)
"""Helps that say what stands in place of what is marked."""


def obeyed(text: str, found: Diagnostic) -> str:
    """The text after doing what the last help says, or the label where there is none."""
    span, wanted = found.primary.span, found.helps[-1] if found.helps else found.primary.text
    before, marked, after = text[: span.start], text[span.start : span.end], text[span.end :]
    for pattern in INSTEAD:
        if match := re.fullmatch(pattern, wanted):
            quote = '"' if marked.startswith('"') and "without quotes" not in wanted else ""
            return f"{before}{quote}{match[1]}{quote}{after}"
    if match := re.fullmatch(r"write `(.+)` as the first line", wanted):
        return f"{match[1]}\n{text}"
    if match := re.fullmatch(r"to hold it here, set `(.+)`", wanted):
        return f"{before}{match[1]} = true{after[after.index(chr(10)) :]}"
    if wanted == "a comment begins with `#` and goes to the end of the line":
        return f"{before}#{after}"
    if wanted == "write `else { when <condition> { … } }`":
        return f"{before}{{ when{after.replace(' }', ' } }', 1)}"
    if wanted == "expected `}`":
        (opened,) = found.labels
        line_end = text.index("\n", text.index("\n", opened.span.start) + 1)
        return f"{text[:line_end]}\n}}{text[line_end:]}"
    if wanted == "put it in a class's `match` or `limit`":  # it stands in one already: the rule asks that class
        condition = marked + ' == "online"'
        return f"{before}serving.active{(marked + after).removeprefix(condition)}"
    if wanted == "put one rule inside the other (the inner one wins), or use `else`":
        outer, inner = text[: text.index("\n  during")], text[text.index("during") : text.rindex("}")]
        return f"{outer.rstrip()}\n  else {{\n  {inner}}}\n}}\n"
    raise AssertionError(f"nobody can obey: {wanted}")


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_who_obeys_is_right(mistake: Mistake) -> None:
    text = text_of(mistake)
    (found,) = found_in(text)
    after = obeyed(text, found)
    assert found_in(after) == [], human(found_in(after)) + after
