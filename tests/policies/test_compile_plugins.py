"""Functions of plugins: whatever they do wrong costs their value and nothing else."""

import math
from typing import Any

import pytest

from gpud.policies.plugins.declare import Argument, Bool, Function, Number, Plugin, Ratio
from gpud.policies.program import Program
from tests.policies.programs import TICK, Run, body


def with_function(step, init=lambda: 0.0, result=Ratio, call: str = "toy.f(x = high.busy)") -> Program:
    function = Function("f", (Argument("x", Ratio), Argument("n", Number, False, 2)), result, init, step)
    plugins = {"toy": Plugin(name="toy", functions=(function,))}
    rule = "when found > 50% { low.pause = true }" if result is Ratio else "when found { low.pause = true }"
    return body(f"let found = {call} {rule}", plugins, "use toy")


def test_it_gets_its_arguments_by_name_and_keeps_its_state() -> None:
    seen: list[tuple[Any, dict[str, Any], int]] = []

    def step(state, args, now):
        seen.append((state, dict(args), now))
        return state + args["x"], min(state, 1.0)

    run = Run(with_function(step))
    run.tick(0, high__busy=0.75).tick(TICK, high__busy=0.5)
    assert seen == [(0.0, {"x": 0.75, "n": 2}, 0), (0.75, {"x": 0.5, "n": 2}, TICK)]
    assert run["found"] == 0.75
    assert run["low.pause"]
    assert run.next_change() == TICK + 1  # what it does with time is not known


def test_each_call_has_a_state_of_its_own_and_each_function_its_own_step() -> None:
    def function(name: str, step) -> Function:
        return Function(name, (Argument("x", Ratio),), Ratio, lambda: 0.0, step)

    def add(state, args, now):
        return state + args["x"], state + args["x"]

    def half(state, args, now):
        return state, args["x"] / 2

    plugins = {
        "a": Plugin(name="a", functions=(function("b_c", add),)),
        "a_b": Plugin(name="a_b", functions=(function("c", half),)),
    }
    text = "let one = a.b_c(high.busy) let two = a.b_c(low.busy) let three = a_b.c(high.busy)"
    run = Run(body(f"{text} when one + two + three > 50% {{ low.pause = true }}", plugins, "use a use a_b"))
    run.tick(0, high__busy=0.25, low__busy=0.5).tick(TICK)
    assert (run["one"], run["two"], run["three"]) == (0.5, 1.0, 0.125)


def test_an_unknown_argument_is_not_handed_over() -> None:
    run = Run(with_function(lambda state, args, now: (state + 1, args["x"] / 2)))
    run.tick(0, high__busy=None)
    assert run["found"] is None
    run.tick(TICK, high__busy=1.0)
    assert run["found"] == 0.5


def raises(state, args, now):
    raise RuntimeError("no")


@pytest.mark.parametrize(
    "step",
    [
        raises,
        lambda state, args, now: (state, math.nan),
        lambda state, args, now: (state, math.inf),
        lambda state, args, now: (state, True),
        lambda state, args, now: (state, "1"),
        lambda state, args, now: (state, None),
        lambda state, args, now: None,
        lambda state, args, now: (1, 2, 3),
    ],
)
def test_what_it_does_wrong_is_an_unknown_value(step) -> None:
    run = Run(with_function(step)).tick(0, high__busy=0.9)
    assert run["found"] is None
    assert run["low.pause"] is False


def test_a_condition_must_be_true_or_false() -> None:
    assert Run(with_function(lambda s, a, n: (s, 1), result=Bool)).tick(high__busy=1.0)["found"] is None
    assert Run(with_function(lambda s, a, n: (s, True), result=Bool)).tick(high__busy=1.0)["found"] is True


def test_a_failed_step_keeps_the_state() -> None:
    def step(state, args, now):
        if args["x"] == 0:
            raise ValueError
        return state + 1, state / 10

    run = Run(with_function(step))
    found = []
    for busy in (1.0, 0.0, 1.0):
        found.append(run.tick(run.now + TICK, high__busy=busy)["found"])
    assert found == [0.0, None, 0.1]


def test_an_init_that_fails_is_contained() -> None:
    run = Run(with_function(lambda state, args, now: (state, state + 1), init=lambda: 1 / 0))
    assert run.tick(high__busy=1.0)["found"] is None
