"""Expressions in tests: the same values as in rules, in the units that the language says."""

import math

import pytest

from gpud.policies.ir import Const, Op, Read, SignalRef
from gpud.policies.library import from_texts
from gpud.policies.render import human
from gpud.policies.simulate.evaluate import evaluate
from gpud.policies.simulate.runner import run_test
from gpud.policies.types import Type

SIGNALS = """
  at 0s c.launch_rate = 1000/s  at 0s c.copy_rate = 2GiB/s  at 0s c.wait_p99 = 20ms  at 0s c.memory_used = 3GiB
  at 0s c.queued = 4  at 0s c.busy = 25%
"""


def outcome(value: str, expected: str, signals: str = SIGNALS) -> tuple[str, str]:
    """Of a test that asks for it directly, and through a `let`."""
    text = f"""gpol 1
policy "p" {{
  class c {{ match any }}
  let x = {value}
  when x == {expected} {{ c.pause = true }}
}}
test "direct" {{ policy "p" {signals} at 1s expect {value} == {expected} }}
test "let"    {{ policy "p" {signals} at 1s expect x == {expected} and c.pause }}
"""
    library = from_texts({"p.gpol": text})
    assert not library.diagnostics, human(list(library.diagnostics))
    direct, let = (run_test(test, file, library, {}) for test, file in library.tests)
    return direct.outcome, let.outcome


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("c.launch_rate * 10ms", "10"),
        ("2s * c.launch_rate", "2000"),
        ("c.copy_rate * 500ms", "1GiB"),
        ("c.wait_p99 * c.launch_rate", "20"),
        ("c.memory_used / 2s", "1.5GiB/s"),
        ("c.memory_used / c.copy_rate", "1.5s"),
        ("c.queued / c.wait_p99", "200/s"),
        ("c.queued / c.launch_rate", "4ms"),
        ("c.queued * c.busy", "100%"),
        ("c.queued * c.queued", "16"),
        ("c.queued / c.busy", "16"),
        ("c.wait_p99 / 5ms", "4"),
        ("c.wait_p99 / c.queued + 1ms", "6ms"),
        ("c.memory_used * c.busy - 256MiB", "512MiB"),
        ("c.launch_rate / 200/s", "5"),
    ],
)
def test_units_meet(value: str, expected: str) -> None:
    assert outcome(value, expected) == ("passed", "passed")


def test_what_has_no_value_is_not_known() -> None:
    """By nothing, and unlimited less unlimited: a class that never was active is idle for ever."""
    for value in (
        "c.queued / c.tenants",
        "c.idle_for - c.idle_for",
        "c.idle_for / c.idle_for",
        "c.idle_for * c.tenants",
    ):
        assert outcome(value, value, "") == ("failed", "failed"), value
    assert outcome("c.idle_for - 5s", "unlimited", "") == ("passed", "passed")


def test_products_of_whole_numbers_are_bounded() -> None:
    total = Op("+", (Const(0.5, Type.NUMBER), product(40)), Type.NUMBER)
    assert evaluate(total, lambda _: 2**62) == math.inf


def product(count: int) -> Op:
    queued = Read(SignalRef("class", "c", "queued", Type.NUMBER))
    found = Op("*", (queued, queued), Type.NUMBER)
    for _ in range(count):
        found = Op("*", (found, queued), Type.NUMBER)
    return found
