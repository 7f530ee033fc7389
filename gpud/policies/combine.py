"""How two values of a knob meet: the tighter one wins, whatever the order.

`any`: true · `all`: false · `min`: the smaller · `furthest`: the place further away · `max` (of a plugin's knob):
the greater · `none`: never two at once, the first stays.
"""

from typing import Any

from gpud.policies.plugins.declare import Plugins
from gpud.policies.schema import KNOBS
from gpud.policies.values import RESIDENCIES

RANKS = {place: rank for rank, place in enumerate(RESIDENCIES)}


def meet(combine: str, left: Any, right: Any) -> Any:
    """Commutative and associative, but for `none`."""
    return right if is_tighter(combine, right, left) else left


def is_tighter(combine: str, value: Any, than: Any) -> bool:
    """Would `value` change something where `than` holds?"""
    match combine:
        case "any":
            return bool(value) and not than
        case "all":
            return not value and bool(than)
        case "min":
            return bool(value < than)
        case "max":
            return bool(value > than)
        case "furthest":
            return RANKS[value] > RANKS[than]
        case _:
            return False


def tighter_code(combine: str, value: str, than: str) -> str | None:
    """The same as Python text, with places as their ranks; None: never."""
    return {
        "any": f"{value} and not {than}",
        "all": f"{than} and not {value}",
        "min": f"{value} < {than}",
        "max": f"{value} > {than}",
        "furthest": f"{value} > {than}",
    }.get(combine)


def combine_of(knob: str, plugins: Plugins) -> str:
    """Of a knob of ours, or `plugin.name` of an actuator."""
    if knob in KNOBS:
        return KNOBS[knob].combine
    plugin, _, name = knob.partition(".")
    return next(found.combine for found in plugins[plugin].actuators if found.name == name)
