"""A plugin's function that does not return is interrupted, and costs its value and nothing else."""

import signal
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from gpud.engine.plugin_guard import GuardedPlugins, TookTooLong, guarded
from gpud.policies.plugins.declare import Argument, Function, Number, Plugin
from tests.policies.programs import TICK, Run, body


def forever(state: Any, arguments: Mapping[str, Any], now: int) -> tuple[Any, Any]:
    while arguments["x"] > 0:
        pass
    return state, 7


def stubborn(state: Any, arguments: Mapping[str, Any], now: int) -> tuple[Any, Any]:
    while True:
        try:
            forever(state, arguments, now)
        except TookTooLong:
            if state[0] == 3:
                raise
            state[0] += 1


def function(step: Any) -> Function:
    return Function("f", (Argument("x", Number),), Number, lambda: [0], step)


def test_one_that_spins_is_interrupted_and_one_that_does_not_is_not() -> None:
    step = guarded(function(forever))
    with pytest.raises(TookTooLong, match=r"f took more than 0\.05 s"):
        step(None, {"x": 1}, 0)
    assert step(None, {"x": 0}, 0) == (None, 7)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is signal.SIG_DFL


def test_one_that_catches_it_is_interrupted_again() -> None:
    with pytest.raises(TookTooLong):
        guarded(function(stubborn))([0], {"x": 1}, 0)


def test_on_another_thread_it_is_called_plainly() -> None:
    found: list[Any] = []
    step = guarded(function(forever))
    thread = threading.Thread(target=lambda: found.append(step(None, {"x": 0}, 0)))
    thread.start()
    thread.join()
    assert found == [(None, 7)]


def test_in_a_policy_its_value_is_unknown_and_the_rest_goes_on() -> None:
    plugins = GuardedPlugins({"toy": Plugin(name="toy", functions=(function(forever),))})
    assert plugins["toy"] is plugins["toy"]
    text = "let found = toy.f(high.queued) when found > 5 { low.pause = true } low.max_inflight = 3"
    run = Run(body(text, plugins, "use toy"))
    run.tick(0, high__queued=1)
    assert run["found"] is None
    assert run["low.max_inflight"] == 3
    run.tick(TICK, high__queued=0)
    assert run["found"] == 7
    assert run["low.pause"]
