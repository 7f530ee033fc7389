"""Is a plugin's declaration one that policies can rely on?"""

import re
from collections.abc import Iterator
from typing import Any

from gpud.policies.plugins.declare import Plugin
from gpud.policies.schema import KNOBS, NOT_NAMES, RESERVED, SIGNALS
from gpud.policies.types import CAPS, Type

_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_WORDS = frozenset({*RESERVED, *NOT_NAMES, *KNOBS, *(name for _, name in SIGNALS)})
"""`use x` and `C.x` mean something already."""
_TYPES = CAPS | {Type.BOOL}
"""What a plugin may publish, take and return."""
_COMBINES = {"any": {Type.BOOL}, "all": {Type.BOOL}, "min": CAPS, "max": CAPS}
_MOST_STEPS = 200


def wrong_declaration(name: str, plugin: object) -> str:
    """What is wrong with what a plugin found under this name says of itself; "" if nothing is. Whatever it says, this
    does not raise."""
    try:
        problems = list(_wrong(name, plugin))
    except Exception as error:  # a plugin's code is anybody's
        problems = [f"it cannot be read ({type(error).__name__})"]
    return f"its declaration is wrong: {'; '.join(problems)}" if problems else ""


def _wrong(name: str, plugin: Any) -> Iterator[str]:
    if not isinstance(plugin, Plugin):
        yield "it is no Plugin"
        return
    if plugin.name != name:
        yield f"it calls itself `{plugin.name}`, its entry point `{name}`"
    if not _NAME.match(name) or name in _WORDS:
        yield f"no plugin can be called `{name}`"
    seen: set[tuple[str, str]] = set()
    for signal in plugin.signals:
        yield from _named("signal", signal.name, (signal.scope, signal.name), seen)
        if signal.scope not in ("class", "gpu"):
            yield f"signal `{signal.name}` has scope `{signal.scope}`, which is neither class nor gpu"
        if signal.type not in _TYPES:
            yield f"signal `{signal.name}` must be a number, a quantity or a bool"
        if not 0 < signal.every <= signal.stale_after:
            yield f"signal `{signal.name}` must have 0 < every ≤ stale_after"
    if plugin.signals and plugin.open is None:
        yield "it has signals, but no `open` that samples them"
    for function in plugin.functions:
        yield from _named("function", function.name, ("function", function.name), seen)
        if not 1 <= function.cost <= _MOST_STEPS:
            yield f"function `{function.name}` must cost 1 to {_MOST_STEPS} steps"
        for parameter in function.parameters:
            if not isinstance(parameter.name, str) or not _NAME.match(parameter.name) or parameter.name in RESERVED:
                yield f"no parameter of `{function.name}` can be called `{parameter.name}`"
        kinds = [function.result, *(parameter.type for parameter in function.parameters)]
        if not all(kind in _TYPES for kind in kinds):
            yield f"parameters and result of `{function.name}` must be numbers, quantities or bools"
    for actuator in plugin.actuators:
        yield from _named("actuator", actuator.name, ("class", actuator.name), seen)
        if actuator.type not in _COMBINES.get(actuator.combine, ()):
            yield f"actuator `{actuator.name}`: bools combine by any or all, numbers and quantities by min or max"


def _named(what: str, name: Any, key: tuple[str, str], seen: set[tuple[str, str]]) -> Iterator[str]:
    if not isinstance(name, str) or not _NAME.match(name) or name in RESERVED:
        yield f"no {what} can be called `{name}`"
    if key in seen:
        yield f"{what} `{name}` is declared twice"
    seen.add(key)
