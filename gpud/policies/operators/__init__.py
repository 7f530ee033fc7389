"""Stateful operators of the language, one a file.

Each has `INITIAL`, `step(state, now_ns, *arguments) -> (state, value)` with the arguments in the order of the schema,
and `due(state, now_ns) -> int | None`: the earliest time at which a step with the same arguments could give another
value (now + 1: at the next tick). States are immutable, comparable and of bounded size.

An argument keeps its value from one step to the next, and takes its new value at the step that brings it. So a step
that is left out because nothing changed makes no difference at all, and nothing depends on how often steps come.
An unknown argument is None: the state is kept and the value is unknown (of a controller: the last one).

A controller steers a knob and must not run while another rule has it: it has
`resume(state, since_ns, now_ns, *arguments)` besides, which makes the state that it goes on with after it was beaten
since then.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpud.policies.operators import aimd, ewma, level, peak, shifted, tgs


class Built(NamedTuple):
    """An operator as the compiler uses it."""

    initial: Any
    step: Callable[..., tuple[Any, Any]]
    due: Callable[[Any, int], int | None]
    resume: Callable[..., Any] | None = None
    """Of a controller."""
    never_unknown: bool = False
    """It has a value whatever its arguments are."""


BUILT_IN = {
    "ewma": Built(ewma.INITIAL, ewma.step, ewma.due),
    "peak": Built(peak.INITIAL, peak.step, peak.due),
    "level": Built(level.INITIAL, level.step, level.due),
    "shifted": Built(shifted.INITIAL, shifted.step, shifted.due),
    "aimd": Built(aimd.INITIAL, aimd.step, aimd.due, aimd.resume, True),
    "tgs": Built(tgs.INITIAL, tgs.step, tgs.due, tgs.resume, True),
}
