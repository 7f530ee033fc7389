"""GP301: what may be set twice at a time, and what is proved not to be; GP502, which asks the same."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.check import truth
from tests.policies.checking import codes, found_in, policy_text, quoted

HEAD = """
  timezone "Europe/Berlin"
  hours day     = mon..fri 08:00..22:00
  hours night   = daily 22:00..08:00
  hours evening = daily 21:00..23:00
  hours weekend = sat..sun
"""


def conflicts(body: str, head: str = "") -> bool:
    text = policy_text(head + body)
    found = {code for code in codes(text) if not code.startswith("GP9")}
    assert found <= {"GP301"}, found_in(text)
    return bool(found)


def test_the_message_shows_both_places() -> None:
    body = (
        "when high.busy < 20% for 5min { low.share = equal }\n  when gpu.memory_free > 30GiB { low.share = weight(2) }"
    )
    (one,) = found_in(policy_text(body))
    assert one.message == "two rules may set `low.share` at the same time"
    assert quoted(one.primary) == "low.share"
    assert [(quoted(label), label.text) for label in one.labels] == [("low.share", "set here")]
    assert one.primary.span.start > one.labels[0].span.start
    assert len(one.helps) == 2


def test_each_later_writer_is_named_once() -> None:
    body = "\n".join(f"when {name}.active {{ low.share = equal }}" for name in ("high", "mid", "low"))
    assert codes(policy_text(body)) == ["GP301", "GP301"]


@pytest.mark.parametrize(
    "body",
    [
        # a rule overrides what encloses it
        "low.share = equal  when high.active { low.share = weight(2) }",
        "when high.active { low.share = equal  when high.busy > 20% { low.share = weight(2) } }",
        "during day { low.share = equal  when high.active { low.share = weight(2) } }",
        # else
        "when high.active for 3s until high.busy < 3% for 1s { low.share = equal } else { low.share = weight(2) }",
        "when high.active { when mid.active { low.share = equal } } else { when low.active { low.share = weight(2) } }",
        # hours
        "during day { low.share = equal }  during night { low.share = weight(2) }",
        "during day { low.share = equal }  during weekend { low.share = weight(2) }",
        "during day { when high.active { low.share = equal } }"
        "  during night { when mid.active { low.share = weight(2) } }",
        "during evening { low.share = equal } else { during weekend {} }  "
        "during weekend { when not evening { low.share = weight(2) } }",
        "when day and high.active { low.share = equal }  when night { low.share = weight(2) }",
        "during night { low.share = equal }  during night {} else { low.share = weight(2) }",
        "during night { low.share = equal }  during weekend { during night {} else { low.share = weight(2) } }",
        # one signal
        "when high.busy > 50% { low.share = equal }  when high.busy < 30% { low.share = weight(2) }",
        "when high.busy >= 50% { low.share = equal }  when high.busy < 50% { low.share = weight(2) }",
        "when high.busy > 50% for 1s { low.share = equal }  when high.busy < 30% for 9s { low.share = weight(2) }",
        "when high.active { low.share = equal }  when not high.active { low.share = weight(2) }",
        "when high.busy > 50% and mid.active { low.share = equal }"
        "  when high.busy < 30% or not mid.active { low.share = weight(2) }",
        "when high.busy > mid.busy { low.share = equal }  when mid.busy > high.busy { low.share = weight(2) }",
        "when 50% < high.busy { low.share = equal }  when 50% >= high.busy { low.share = weight(2) }",
        "when high.busy + mid.busy > 50% { low.share = equal }"
        "  when high.busy + mid.busy < 9% { low.share = weight(2) }",
        "when high.tenants == 1 { low.share = equal }  when high.tenants > 1 { low.share = weight(2) }",
        "when high.tenants in [1, 2] { low.share = equal }  when high.tenants in [3, 4] { low.share = weight(2) }",
        # with hysteresis: what ends one is what begins the other, and the other way round
        "when high.busy > 50% until high.busy < 30% { low.share = equal }"
        "  when high.busy < 30% { low.share = weight(2) }",
        "when high.busy > 50% until high.busy <= 50% { low.share = equal }"
        "  when high.busy < 30% until high.busy > 40% { low.share = weight(2) }",
        # a sibling's else
        "when high.active { low.share = equal }  when high.active {} else { low.share = weight(2) }",
        # through lets
        "let calm = high.busy < 20%  when calm { low.share = equal }  when high.busy > 30% { low.share = weight(2) }",
        "let x = high.busy  when x < 20% { low.share = equal }  when high.busy > 30% { low.share = weight(2) }",
        "let mean = ewma(high.busy, half_life = 1s)"
        "  when mean < 20% { low.share = equal }  when mean > 30% { low.share = weight(2) }",
        # different knobs, different classes, knobs that combine
        "when high.active { low.share = equal }  when mid.active { mid.share = weight(2) }",
        "when high.active { low.max_inflight = 1 }  when mid.active { low.max_inflight = 2 }",
    ],
)  # fmt: skip
def test_no_conflict(body: str) -> None:
    assert not conflicts(body, HEAD)


@pytest.mark.parametrize(
    "body",
    [
        "when high.active { low.share = equal }  when mid.active { low.share = weight(2) }",
        "during day { low.share = equal }  when high.active { low.share = weight(2) }",
        "during day { low.share = equal }  during evening { low.share = weight(2) }",
        "during day { low.share = equal }  during evening {} else { low.share = weight(2) }",
        "during day early 10h { low.share = equal }  during night { low.share = weight(2) }",
        # an hour earlier or later by the clock on the wall, when clocks change
        "hours late = daily 03:30..05:00  hours small = daily 00:00..01:30"
        "  during late early 1h { low.share = equal }  during small { low.share = weight(2) }",
        "when high.busy > 50% { low.share = equal }  when high.busy < 60% { low.share = weight(2) }",
        "when high.busy >= 50% { low.share = equal }  when high.busy <= 50% { low.share = weight(2) }",
        "when high.busy > 50% { low.share = equal }  when mid.busy < 30% { low.share = weight(2) }",
        "when high.busy > 50% or mid.active { low.share = equal }  when high.busy < 30% { low.share = weight(2) }",
        # stays on below 50 % until 30 %, for a second more, or for ever
        "when high.busy > 50% until high.busy < 30% { low.share = equal }"
        "  when high.busy < 40% { low.share = weight(2) }",
        "when high.busy > 50% until high.busy < 30% for 1s { low.share = equal }"
        "  when high.busy < 30% { low.share = weight(2) }",
        "when high.busy > 50% until mid.active { low.share = equal }  when high.busy < 30% { low.share = weight(2) }",
        # begins on another signal, while this one is not known and the other goes on
        "when mid.active until high.busy < 30% { low.share = equal }  when high.busy < 30% { low.share = weight(2) }",
        # not on yet, so its else holds
        "when high.active for 1s {} else { low.share = equal }  when high.active { low.share = weight(2) }",
        "when high.active {} else { low.share = equal }  when mid.active { low.share = weight(2) }",
        # nested in different rules, an else begins without knowing the condition
        "when mid.active { when high.active {} else { low.share = equal } }"
        "  when high.active { low.share = weight(2) }",
        "let mean = ewma(high.busy, half_life = 1s)  let slow = ewma(high.busy, half_life = 9s)"
        "  when mean < 20% { low.share = equal }  when slow > 30% { low.share = weight(2) }",
    ],
)  # fmt: skip
def test_conflict(body: str) -> None:
    assert conflicts(body, HEAD)


@pytest.mark.parametrize(
    "wrong", ["when hihg.active", "when high.busy > 3", "during dya", "when high.active until mid.x"]
)
def test_nothing_is_said_of_rules_that_could_not_be_made_out(wrong: str) -> None:
    found = codes(policy_text(f"{wrong} {{ low.share = equal }}  when mid.active {{ low.share = weight(2) }}"))
    assert len(found) == 1
    assert "GP301" not in found


def test_what_cannot_be_tried_within_bounds_is_not_proved() -> None:
    many = " or ".join(f"(high.busy > {n}% and mid.busy > {n}% and low.busy > {n}%)" for n in range(40))
    rules = [f"when ({many}) and {word} high.active {{ low.share = equal }}" for word in ("", "not")]
    begin = time.process_time()
    assert conflicts("\n".join(rules))
    assert time.process_time() - begin < 20


def test_time_is_bounded_with_many_writers_and_long_chains_of_lets() -> None:
    lets = "let b0 = high.active\n" + "\n".join(f"let b{n} = b{n - 1} and b{n - 1}" for n in range(1, 300))
    rules = "\n".join(f"when b299 and high.busy > {n}% {{ low.share = equal }}" for n in range(60))
    begin = time.process_time()
    assert conflicts(f"{lets}\n{rules}")
    assert time.process_time() - begin < 30


# ------------------------------------------------------------------------------------------- against a simulation

SIGNAL = ("x", "y")
ATOMS = st.tuples(st.sampled_from(SIGNAL), st.sampled_from(["<", "<=", ">", ">="]), st.integers(1, 4))
CONDITION = st.recursive(
    ATOMS.map(lambda atom: ("atom", *atom)),
    lambda inner: st.one_of(
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
        st.tuples(st.just("not"), inner),
    ),
    max_leaves=3,
)
RULE = st.tuples(CONDITION, st.none() | CONDITION)
VALUES = st.none() | st.integers(0, 5)
TRACE = st.lists(st.tuples(VALUES, VALUES), max_size=12)
CLASS = {"x": "high.tenants", "y": "mid.tenants"}


def written(condition: tuple) -> str:
    match condition:
        case ("atom", name, op, value):
            return f"{CLASS[name]} {op} {value}"
        case ("not", inner):
            return f"not ({written(inner)})"
        case (op, left, right):
            return f"({written(left)} {op} {written(right)})"


def worth(condition: tuple, values: dict[str, int | None]) -> bool | None:
    match condition:
        case ("atom", name, op, value):
            at = values[name]
            return None if at is None else {"<": at < value, "<=": at <= value, ">": at > value, ">=": at >= value}[op]
        case ("not", inner):
            found = worth(inner, values)
            return None if found is None else not found
        case ("and", left, right):
            both = (worth(left, values), worth(right, values))
            return False if False in both else None if None in both else True
        case ("or", left, right):
            both = (worth(left, values), worth(right, values))
            return True if True in both else None if None in both else False


def step(rule: tuple, on: bool, values: dict[str, int | None]) -> bool:
    condition, until = rule
    held = worth(condition, values)
    if until is None:
        return on if held is None else held
    over = worth(until, values)
    return over is not True if on else held is True and over is not True


@given(RULE, RULE, TRACE)
def test_what_is_proved_never_happens(one: tuple, other: tuple, trace: list[tuple[int | None, int | None]]) -> None:
    texts = [
        f"when {written(condition)}{f' until {written(until)}' if until else ''} {{ low.share = equal }}"
        for condition, until in (one, other)
    ]
    if "GP301" in codes(policy_text("\n".join(texts))):
        return
    states = [False, False]
    for x, y in trace:
        states = [step(rule, on, {"x": x, "y": y}) for rule, on in zip((one, other), states, strict=True)]
        assert states != [True, True]


@given(st.integers(1, 7), st.integers(1, 7))
def test_sets_of_truths(left: int, right: int) -> None:
    kleene = {truth.TRUE: True, truth.FALSE: False, truth.UNKNOWN: None}
    back = {value: bit for bit, value in kleene.items()}
    both = truth.and_([truth.Formula((), 1, lambda _: left), truth.Formula((), 1, lambda _: right)]).truth({})
    expected = 0
    for one, other in itertools.product(kleene, kleene):
        if left & one and right & other:
            values = (kleene[one], kleene[other])
            expected |= back[False if False in values else None if None in values else True]
    assert both == expected


# ------------------------------------------------------------------------------------------------- fixed shares

TWO = """
  class gold  { match label("plan") == "gold"  share = fixed(60%) }
  class low   { match any                      share = LOW }
"""


@pytest.mark.parametrize(
    ("low", "body", "promised"),
    [
        ("fixed(40%)", "", None),
        ("fixed(41%)", "", "101%"),
        ("equal", "when gold.active { low.share = fixed(50%) }", "110%"),
        ("fixed(10%)", "during night { low.share = fixed(30%) } else { low.share = fixed(50%) }", "110%"),
        ("fixed(10%)", "when gold.active { low.share = fixed(40%) }", None),
        ("weight(2)", "during day { gold.share = fixed(30%) }  during night { low.share = fixed(40%) }", None),
        ("weight(2)", "during day { low.share = fixed(70%) }  during day { gold.share = fixed(30%) }", "130%"),
    ],
)
def test_fixed_shares_that_may_be_in_force_together(low: str, body: str, promised: str | None) -> None:
    text = policy_text(HEAD + body, classes=TWO.replace("LOW", low))
    found = [one.message for one in found_in(text) if one.code == "GP502"]
    assert found == ([f"fixed shares promise {promised} of the GPU"] if promised else [])


def test_hours_that_exclude_each_other_do_not_add_up() -> None:
    classes = "\n".join(f'class c{n} {{ match label("n") == "{n}" }}' for n in range(2)) + "\n class low { match any }"
    body = "during day { c0.share = fixed(60%) }  during night { c1.share = fixed(60%) }"
    assert "GP502" not in codes(policy_text(HEAD + body, classes=classes))
    assert "GP502" in codes(policy_text(HEAD + body.replace("night", "evening"), classes=classes))


def test_under_preempt_each_rank_is_divided() -> None:
    classes = """
  class a { match label("t") == "a"  share = fixed(60%) }
  class b { match label("t") == "b"  share = fixed(60%) }
  class c { match any                share = fixed(50%) }
"""
    apart = policy_text("", classes=classes, mode="preempt { order = [a, b, c]  resume_after = 3ms }")
    assert codes(apart) == []
    together = policy_text("", classes=classes, mode="preempt { order = [a, [c, b]]  resume_after = 3ms }")
    (one,) = found_in(together)
    assert one.message == "fixed shares promise 110% of the GPU within one rank"
    assert quoted(one.primary) == "fixed(50%)"
    assert [(quoted(label), label.text) for label in one.labels] == [("fixed(60%)", "60%")]


def test_many_fixed_shares_take_little_time() -> None:
    classes = "\n".join(f'class c{n} {{ match label("n") == "{n}" }}' for n in range(32))
    body = "\n".join(f"when c{n}.busy > {n}% {{ c{n}.share = fixed(3%) }}" for n in range(32))
    body += "\n".join(f"when c{n}.busy <= {n}% {{ c{n}.share = fixed({3 + n % 2}%) }}" for n in range(32))
    begin = time.process_time()
    assert "GP502" in codes(policy_text(body, classes=classes))
    assert time.process_time() - begin < 20
