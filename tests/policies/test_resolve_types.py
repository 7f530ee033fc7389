"""Types, arithmetic, constants, functions: what comes out, and what cannot be mixed."""

import math

import pytest

from gpud.policies.ir import Const, Op, OperatorCall, PureCall, Read
from gpud.policies.types import ARITHMETIC, CAPS, Type
from gpud.policies.values import EQUAL, Share
from tests.policies.resolving import found_in, let_value, resolved, said

OF = {
    Type.NUMBER: ("gpu.power", "4"),
    Type.RATIO: ("high.busy", "30%"),
    Type.DURATION: ("high.wait_p99", "250ms"),
    Type.BYTES: ("high.memory_used", "4GiB"),
    Type.RATE: ("high.launch_rate", "2000/s"),
    Type.BANDWIDTH: ("high.copy_rate", "2GiB/s"),
}
"""A signal and a constant of each type."""


@pytest.mark.parametrize(
    ("text", "value", "type"),
    [
        ("3ms + 2us", 3_002_000, Type.DURATION),
        ("100% - 3%", 0.97, Type.RATIO),
        ("0.1 + 0.2", 0.3, Type.NUMBER),  # exact until it is kept
        ("1 / 3 * 3", 1, Type.NUMBER),
        ("7 / 2", 3.5, Type.NUMBER),
        ("50% * 4GiB", 2 * 2**30, Type.BYTES),
        ("2000/s * 250ms", 500, Type.NUMBER),
        ("500 / 250ms", 2000.0, Type.RATE),
        ("500 / (2000/s)", 250_000_000, Type.DURATION),
        ("2GiB/s * 500ms", 2**30, Type.BYTES),
        ("1GiB / 500ms", float(2 * 2**30), Type.BANDWIDTH),
        ("1GiB / (2GiB/s)", 500_000_000, Type.DURATION),
        ("90% / 30%", 3, Type.NUMBER),
        ("30% * 30%", 0.09, Type.RATIO),
        ("10ms / 3", 3_333_333, Type.DURATION),
        ("min(3ms, 2ms, unlimited)", 2_000_000, Type.DURATION),
        ("max(1GiB, unlimited)", math.inf, Type.BYTES),
        ("3ms < 4ms", True, Type.BOOL),
        ("3 >= 4", False, Type.BOOL),
        ("3ms == 3000us", True, Type.BOOL),
        ('"abc" == "abd"', False, Type.BOOL),
        ('"abc" ~ "a*"', True, Type.BOOL),
        ("3 in [1, 2, 3]", True, Type.BOOL),
        ("unlimited > 3ms", True, Type.BOOL),
        ("true == (not false)", True, Type.BOOL),
        ("not (3 < 4) or 2 < 1", False, Type.BOOL),
        ("weight(2)", Share("weight", weight=2), Type.SHARE),
        ("equal", EQUAL, Type.SHARE),
        ("fixed(20% + 10%)", Share("fixed", percent=30), Type.SHARE),
        ("burst(weight = 1.5, max = 50%)", Share("burst", weight=1.5, max_percent=50), Type.SHARE),
        ("burst(4)", Share("burst", weight=4), Type.SHARE),
        ("host", "host", Type.RESIDENCY),
        ("weight(2) == weight(2)", True, Type.BOOL),
    ],
)
def test_constants_are_folded_exactly(text: str, value: object, type: Type) -> None:
    found = let_value(text)
    assert isinstance(found, Const)
    assert (found.value, found.type) == (value, type)
    assert isinstance(found.value, bool) == isinstance(value, bool)


@pytest.mark.parametrize("left", OF)
@pytest.mark.parametrize("right", OF)
@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_arithmetic_is_the_table_for_signals_and_constants(left: Type, right: Type, op: str) -> None:
    expected = ARITHMETIC.get((op, left, right))
    for one, other in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        text = f"({OF[left][one]}) {op} ({OF[right][other]})"
        if expected is None:
            (found,) = found_in(f"let x = {text}")
            assert found.code == "GP202", text
            assert found.labels, text
        else:
            value = let_value(text)
            assert value.type is expected, text
            assert isinstance(value, Const) == (one == other == 1)


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("left", OF)
@pytest.mark.parametrize("right", OF)
def test_comparison_needs_equal_types(op: str, left: Type, right: Type) -> None:
    found = found_in(f"let x = {OF[left][0]} {op} ({OF[right][1]})")
    assert [diagnostic.code for diagnostic in found] == ([] if left is right else ["GP202"])


@pytest.mark.parametrize("type", OF)
def test_unlimited_is_compared_as_what_it_stands_beside(type: Type) -> None:
    value = let_value(f"{OF[type][0]} == unlimited")
    assert isinstance(value, Op)
    assert isinstance(value.args[1], Const)
    assert (value.args[1].value, value.args[1].type) == (math.inf, type)


def test_what_decides_alone_is_folded_and_what_does_nothing_goes() -> None:
    assert let_value("high.active and false") == Const(False, Type.BOOL, let_value("high.active and false").span)
    assert isinstance(let_value("high.active and true"), Read)
    value = let_value("high.active or false or low.active")
    assert isinstance(value, Op)
    assert len(value.args) == 2


def test_operators_get_all_arguments_in_order() -> None:
    value = let_value("peak(high.busy, forget = high.active)")
    assert isinstance(value, OperatorCall)
    assert value.type is Type.RATIO
    assert [name for name, _ in value.args] == ["x", "span", "forget"]
    span = dict(value.args)["span"]
    assert isinstance(span, Const)
    assert (span.value, span.type) == (math.inf, Type.DURATION)


def test_aimd_takes_the_type_of_its_knob() -> None:
    call = (
        "aimd(hurt = high.active, period = 100ms, start = {0}, floor = {0}, ceiling = {1}, add = {0}, multiply = 70%)"
    )
    rate = resolved(f"low.max_launch_rate = {call.format('20/s', '90/s')}").body.bindings[0].value
    ratio = resolved(f"low.max_compute = {call.format('10%', '90%')}").body.bindings[0].value
    named = let_value(call.format("10%", "90%"))
    assert [rate.type, ratio.type, named.type] == [Type.RATE, Type.RATIO, Type.RATIO]
    assert isinstance(rate, OperatorCall)
    arguments = {name: value.value for name, value in rate.args if isinstance(value, Const)}
    assert arguments == {
        "probe": False, "settle": 0, "period": 100_000_000, "start": 20.0, "floor": 20.0, "ceiling": 90.0,
        "add": 20.0, "multiply": 0.7, "ramp": 1.0, "used": math.inf,
    }  # fmt: skip


def test_min_of_signals_stays_a_call() -> None:
    value = let_value("min(high.busy, low.busy, unlimited)")
    assert isinstance(value, PureCall)
    assert (value.function, value.type, len(value.args)) == ("min", Type.RATIO, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "high.wait_p99 > 5",
            "GP202 '5' cannot compare a duration with a plain number = write a duration such as 250ms",
        ),
        (
            "5 < high.wait_p99",
            "GP202 '5' cannot compare a plain number with a duration = write a duration such as 250ms",
        ),
        (
            "high.wait_p99 > high.busy",
            "GP202 'high.busy' cannot compare a duration with a percentage = write a duration such as 250ms",
        ),
        (
            "high.active == 1",
            "GP202 '1' cannot compare a condition with a plain number = a condition is compared with true or "
            "false, or stands alone",
        ),
        ("(1 < 2) < 3", "GP202 '<' comparisons do not chain = write two, joined by `and`"),
        (
            "high.active < low.active",
            "GP202 '<' conditions can only be compared with `==` and `!=` = write `==`, `!=`, or a condition",
        ),
        ('"a" < "b"', "GP202 '<' texts can only be compared with `==` and `!=` = write `==`, `!=`, or a condition"),
        (
            "high.active ~ 3",
            "GP202 'high.active' `~` matches a text against a pattern, but this is a condition = for example "
            'exe ~ "*/python*"',
        ),
        (
            "high.busy in [3%, 4]",
            "GP202 '4' cannot compare a percentage with a plain number = write a percentage such as 4%",
        ),
        ("3 in []", "GP202 '[]' nothing is in an empty list = name at least one value"),
        ("[1, 2]", "GP202 '[1, 2]' a list cannot stand here = write one value"),
        ("high.busy + 5", "GP202 '5' cannot add a percentage and a plain number = write a percentage such as 5%"),
        (
            "5 - high.busy",
            "GP202 '5' cannot subtract a percentage from a plain number = write a percentage such as 5%",
        ),
        (
            "high.active + 1",
            "GP202 '1' cannot add a condition and a plain number = only numbers and quantities can be "
            "calculated with",
        ),
        (
            "high.wait_p99 * 3ms",
            "GP202 '3ms' cannot multiply a duration by a duration = multiply by a plain number, a percentage, a rate "
            "or a bandwidth",
        ),
        (
            "3 / high.memory_used",
            "GP202 '3' cannot divide a plain number by an amount of memory = divide by a plain number, a "
            "percentage, a duration or a rate",
        ),
        ("unlimited - 3s", "GP202 'unlimited' nothing can be calculated with `unlimited` = write a number instead"),
        (
            "fixed(30%) + 10%",
            "GP209 'fixed(30%)' a share is no number: nothing can be calculated with it = calculate inside the "
            "parentheses: fixed(20% + 10%)",
        ),
        (
            "high.active and 3",
            "GP202 '3' `and` needs a condition, but this is a plain number = compare it, for example with `> 4`",
        ),
        (
            "not high.busy",
            "GP202 'high.busy' `not` needs a condition, but this is a percentage = compare it, for example "
            "with `> 30%`",
        ),
        ("1 / 0", "GP206 '1 / 0' this divides by zero"),
        ("high.busy / 0", "GP206 '0' this divides by zero"),
        ("9_000_000_000s * 9_000", "GP206 '9_000_000_000s * 9_000' this comes to more than gpud can keep"),
        (
            "10_000_000_000s",
            "GP206 '10_000_000_000s' `10_000_000_000s` is more than gpud can keep = write `unlimited` where "
            "that is meant",
        ),
        (
            "min(high.busy, 3s)",
            "GP202 '3s' values of `min` must be of one kind, but this is a duration = write a percentage "
            "here",
        ),
        ("max(3)", "GP203 'max' `max` needs two values at least"),
        ("min(a = 3, 4)", "GP204 'a' values of `min` have no names = write min(a, b)"),
        ("ewma(high.busy)", "GP203 'ewma' `ewma` also needs `half_life`"),
        (
            "ewma(high.busy, half_lief = 1s, half_life = 1s)",
            "GP204 'half_lief' `ewma` has no argument `half_lief` = did you mean `half_life`?",
        ),
        ("ewma(high.busy, 1s, 2s)", "GP204 '2s' `ewma` takes 2 values at most = leave this one out"),
        (
            "ewma(high.busy, 1s, half_life = 2s)",
            "GP303 'half_life = 2s' `half_life` of `ewma` is given twice = leave one of them out",
        ),
        ("ewma(high.busy, half_life = 0s)", "GP206 '0s' `half_life` of `ewma` must be more than 0 = for example 250ms"),
        (
            "ewma(high.busy, half_life = unlimited)",
            "GP206 'unlimited' `half_life` of `ewma` cannot be `unlimited` = for example 250ms",
        ),
        (
            "ewma(high.active, half_life = 1s)",
            "GP202 'high.active' `x` of `ewma` needs a number or a quantity, but this is a condition = for "
            "example the signal of a class: `high.launch_rate`",
        ),
        (
            "peak(high.busy, span = 3)",
            "GP103 '3' `span` of `peak` needs a duration, and `3` has no unit = write for example 3ms or 3s",
        ),
        ("fixed(62.5%)", "GP501 '62.5%' compute is divided in whole percent = write 62% or 63%"),
        ("fixed(0.5%)", "GP501 '0.5%' compute is divided in whole percent = write 1%"),
        ("fixed(0%)", "GP206 '0%' `part` of `fixed` must be more than 0 = for example 30%"),
        ("fixed(101%)", "GP206 '101%' `part` of `fixed` can be 100% at most = write 100% or less"),
        (
            "fixed(0.5)",
            "GP103 '0.5' `part` of `fixed` needs a percentage, and `0.5` has no unit = write for example 50%",
        ),
        ("weight(0)", "GP206 '0' `weight` of `weight` must be more than 0 = for example 4"),
        ("wait(3s)", "GP209 'wait(3s)' `wait(…)` cannot stand here = it belongs in `over_memory` of `limit`"),
        ("0.5ns", "GP501 '0.5ns' a duration is kept in whole nanoseconds = write 1ns"),
        ("20GB", "GP103 'GB' unknown unit `GB` = sizes are powers of two here: write GiB (1024³ bytes)"),
        ("2000 / sec", "GP103 '2000 / sec' unknown unit `/sec` = write 2000/s"),
    ],
)  # fmt: skip
def test_what_cannot_be_mixed(text: str, expected: str) -> None:
    assert said(f"let x = {text}") == [expected]


def test_both_parties_are_marked() -> None:
    (found,) = found_in("when high.wait_p99 > 5 { low.pause = true }")
    (other,) = found.labels
    assert (found.primary.text, other.text) == ("a plain number", "a duration")
    assert other.source.text[other.span.start : other.span.end] == "high.wait_p99"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "low.max_launch_rate = 250ms",
            "GP202 '250ms' `low.max_launch_rate` needs a rate, but this is a duration = for example 2000/s",
        ),
        (
            "low.max_launch_rate = 2000",
            "GP103 '2000' `low.max_launch_rate` needs a rate, and `2000` has no unit = write for example 2000/s",
        ),
        (
            "low.max_launch_rate = high.busy",
            "GP202 'high.busy' `low.max_launch_rate` needs a rate, but this is a percentage = for example "
            "2000/s",
        ),
        (
            "low.pause = 1",
            "GP202 '1' `low.pause` needs a condition, but this is a plain number = write true, false or a "
            "condition",
        ),
        (
            "low.pause = unlimited",
            "GP202 'unlimited' `low.pause` needs a condition, but this is unlimited = write true, false or a "
            "condition",
        ),
        (
            "low.pause = high.busy",
            "GP202 'high.busy' `low.pause` needs a condition, but this is a percentage = compare it, for example with "
            "`> 30%`",
        ),
        (
            'low.pause = "true"',
            "GP202 '\"true\"' `low.pause` needs a condition, but this is a text = a word stands without quotes: "
            "write true",
        ),
        (
            'low.residency = "host"',
            "GP202 '\"host\"' `low.residency` needs a place for memory, but this is a text = a word stands without "
            "quotes: write host",
        ),
        ("low.residency = gpu", "GP201 'gpu' nothing is called `gpu` here = write `device`, `host` or `disk`"),
        ("low.max_compute = 0.3", "GP103 '0.3' `low.max_compute` needs a percentage, and `0.3` has no unit = write for "
         "example 30%"),
        ("low.max_compute = 12.5",
         "GP103 '12.5' `low.max_compute` needs a percentage, and `12.5` has no unit = write for "
         "example 12.5%"),
        (
            "low.max_inflight = aimd(hurt = high.active, period = 1s, start = 4, floor = 1, ceiling = 9, add = 1, "
            "multiply = 50%)",
            "GP202 'aimd' `aimd` steers a rate or a percentage, not a plain number = steer `max_launch_rate` or "
            "`max_compute` with it, for example",
        ),
        (
            "low.pause = high.busy > 3% or 4%",
            "GP202 '4%' `or` needs a condition, but this is a percentage = a comparison has two sides: write "
            "high.busy > "
            "4%",
        ),
        ("low.residency = cpu", "GP201 'cpu' nothing is called `cpu` here = write `device`, `host` or `disk`"),
        (
            "low.residency = 3",
            "GP202 '3' `low.residency` needs a place for memory, but this is a plain number = for example host",
        ),
        ("low.max_inflight = 0", "GP206 '0' `low.max_inflight` must be at least 1 = write 1 or more"),
        ("low.max_inflight = 2.5", "GP501 '2.5' `low.max_inflight` is a whole number = write 2 or 3"),
        (
            "low.max_inflight_time = 10ns",
            "GP206 '10ns' `low.max_inflight_time` must be at least 1us = write 1us or more",
        ),
        ("low.max_compute = 12.5%", "GP501 '12.5%' compute is divided in whole percent = write 12% or 13%"),
        ("low.max_compute = 120%", "GP206 '120%' `low.max_compute` can be 100% at most = write 100% or less"),
        (
            "low.max_launch_rate = 3/s - 5/s",
            "GP206 '3/s - 5/s' `low.max_launch_rate` cannot be negative = write 0/s or more",
        ),
        (
            "when high.wait_p99 { low.pause = true }",
            "GP202 'high.wait_p99' `when` needs a condition, but this is a duration = compare it: for example "
            "`high.wait_p99 > 250ms`",
        ),
        (
            "when high.active for 3 { low.pause = true }",
            "GP103 '3' the time after `for` needs a duration, and `3` has no unit = write for example 3ms or 3s",
        ),
        (
            "when high.active for 1s - 2s { low.pause = true }",
            "GP206 '1s - 2s' the time after `for` cannot be negative = write 0s or more",
        ),
        (
            "when ewma(high.busy, half_life = 1s) > 3% { low.pause = true }",
            "GP209 'ewma(high.busy, half_life = 1s)' `ewma` keeps a state from tick to tick; a condition has "
            "no place for it = name it above: `let x = ewma(…)`, and use `x` here",
        ),
    ],
)  # fmt: skip
def test_what_knobs_and_rules_need(body: str, expected: str) -> None:
    assert said(body) == [expected]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"floor": "200/s"}, "GP206 '200/s' `start` lies below `floor`"),
        ({"ceiling": "50/s"}, "GP206 '100/s' `start` lies above `ceiling` = write a value from `floor` to `ceiling`"),
        ({"floor": "2_000_000/s"}, "GP206 '2_000_000/s' `floor` lies above `ceiling` = exchange the two"),
        ({"multiply": "100%"}, "GP206 '100%' with 100% it never goes down = for example 70%"),
        ({"multiply": "0%"}, "GP206 '0%' `multiply` of `aimd` must be more than 0 = for example 30%"),
        ({"period": "0s"}, "GP206 '0s' `period` of `aimd` must be more than 0 = for example 250ms"),
        ({"ramp": "0.5"}, "GP206 '0.5' `ramp` of `aimd` must be at least 1 = write 1 or more"),
        ({"add": "25"}, "GP103 '25' `add` of `aimd` needs a rate, and `25` has no unit = write for example 25/s"),
        ({"start": "30%"}, "GP202 '30%' `start` of `aimd` needs a rate, but this is a percentage = for example 2000/s"),
        ({"ceiling": "unlimited"}, "GP206 'unlimited' `ceiling` of `aimd` cannot be `unlimited` = for example 2000/s"),
        (
            {"hurt": "high.busy"},
            "GP202 'high.busy' `hurt` of `aimd` needs a condition, but this is a percentage = compare it, for "
            "example with `> 30%`",
        ),
        (
            {"floor": "high.launch_rate"},
            "GP401 'high.launch_rate' `high.launch_rate` changes while the policy runs; `floor` of `aimd` is "
            "fixed when it is loaded = write a constant or a `param`",
        ),
    ],
)  # fmt: skip
def test_ranges_of_aimd(change: dict[str, str], expected: str) -> None:
    right = {
        "hurt": "high.active", "period": "100ms", "start": "100/s", "floor": "20/s", "ceiling": "50_000/s",
        "add": "25/s", "multiply": "92%", "ramp": "1.5",
    }  # fmt: skip
    text = ", ".join(f"{name} = {value}" for name, value in (right | change).items())
    (found,) = said(f"low.max_launch_rate = aimd({text})")
    if change == {"floor": "200/s"}:
        assert found.startswith("GP206 '100/s' `start` lies below `floor`")
    else:
        assert found == expected


def test_every_cap_takes_unlimited_and_nothing_else_does() -> None:
    ir = resolved("low.max_launch_rate = unlimited low.max_compute = unlimited low.max_inflight = unlimited")
    assert [(binding.value.value, binding.value.type) for binding in ir.body.bindings] == [  # type: ignore[union-attr]
        (math.inf, Type.RATE),
        (math.inf, Type.RATIO),
        (math.inf, Type.NUMBER),
    ]
    assert {Type.BOOL, Type.SHARE, Type.TEXT} & CAPS == set()
