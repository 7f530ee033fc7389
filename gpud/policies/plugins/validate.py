"""Is a plugin's declaration one that policies can rely on?"""

import re

from gpud.policies.plugins.declare import Plugin
from gpud.policies.schema import KNOBS, NOT_NAMES, RESERVED
from gpud.policies.types import Type

NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
MEASURED = (Type.BOOL, Type.NUMBER, Type.RATIO, Type.DURATION, Type.BYTES, Type.RATE, Type.BANDWIDTH)
"""What a plugin may publish, take and return."""
COMBINES = {"any": (Type.BOOL,), "all": (Type.BOOL,), "min": MEASURED[1:], "max": MEASURED[1:]}


def problems(plugin: Plugin, entry: str) -> list[str]:
    """Sentences; empty when all is right. `entry`: the name it was found under."""
    found: list[str] = []
    if plugin.name != entry:
        found.append(f"it calls itself `{plugin.name}`, its entry point `{entry}`")
    if not NAME.match(entry) or entry in RESERVED or entry in NOT_NAMES:
        found.append(f"`{entry}` cannot be the name of a plugin: a to z, digits and _, no word of the language")
    seen: set[str] = set()
    for kind, rows in (("signal", plugin.signals), ("function", plugin.functions), ("actuator", plugin.actuators)):
        for row in rows:
            if not isinstance(row.name, str) or not NAME.match(row.name):
                found.append(f"its {kind} {row.name!r} is no name: a to z, digits and _")
            elif row.name in seen:
                found.append(f"it declares `{row.name}` twice")
            seen.add(str(row.name))
    for signal in plugin.signals:
        if signal.type not in MEASURED or signal.scope not in ("class", "gpu"):
            found.append(f"its signal `{signal.name}` has a type or a scope that no signal can have")
        if not 0 < signal.every <= signal.stale_after:
            found.append(f"its signal `{signal.name}` needs 0 < every <= stale_after")
    if plugin.signals and plugin.open is None:
        found.append("it has signals and no `open` to publish them")
    for function in plugin.functions:
        wrong = [p.name for p in function.parameters if p.type not in MEASURED]
        if wrong or function.result not in MEASURED:
            found.append(f"its function `{function.name}` takes or gives a type that the language has not")
        if not 1 <= function.cost <= 200:
            found.append(f"its function `{function.name}` needs a cost from 1 to 200 steps")
    for actuator in plugin.actuators:
        if actuator.name in KNOBS:
            found.append(f"its actuator `{actuator.name}` is called like a knob of gpud")
        if actuator.type not in COMBINES.get(actuator.combine, ()):
            found.append(f"its actuator `{actuator.name}` cannot combine by `{actuator.combine}`")
    return found
