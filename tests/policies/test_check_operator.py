"""The harness for plugin functions passes a right one and finds each kind of wrong one."""

import itertools

import pytest

from gpud.policies.plugins.declare import Argument, Function, Number, Ratio
from gpud.testing.check_operator import check_operator

COUNTER = itertools.count()


def function(step, init=lambda: 0.0):
    return Function("smooth", (Argument("x", Number), Argument("part", Ratio)), Number, init, step)


def test_a_right_one_passes():
    check_operator(function(lambda state, args, now: (max(state, args["x"]), max(state, args["x"]))))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (function(lambda state, args, now: (state, next(COUNTER))), "two runs over the same inputs differ"),
        (function(lambda state, args, now: (state, float("inf"))), "inf is not a plain number"),
        (function(lambda state, args, now: (state, True)), "True is not a plain number"),
        (function(lambda state, args, now: (state + "x" * 70_000, 1), lambda: ""), "grows without bound"),
        (function(lambda state, args, now: (state.append(1) or state, 1), list), "changed the state it was given"),
    ],
)
def test_a_wrong_one_is_found(wrong, text):
    with pytest.raises(AssertionError, match=text):
        check_operator(wrong, examples=20)


def test_one_that_raises_is_found():
    with pytest.raises(ZeroDivisionError):
        check_operator(function(lambda state, args, now: (state, 1 / args["x"])))
