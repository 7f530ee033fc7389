"""Turns on a device, as `gpud ps` and `gpud why` print them."""

from gpud.model.units import SECOND, format_duration
from gpud.model.views import LockView


def brief(view: LockView) -> str:
    """`has ("validation"), 12s left`, `2nd, in 40s`, `overruns`"""
    if view.state == "waits":
        when = "" if view.starts_ns is None else f", in {_rough(view.starts_ns)}"
        return f"{_ordinal(view.place)}{when}"
    left = f", {_rough(view.left_ns)} left" if view.left_ns is not None else ""
    why = f' ("{view.reason}")' if view.reason else ""
    return "" if view.state == "none" else f"{view.state}{why}{left}"


def line(view: LockView) -> str:
    by = f" (turns of {view.by})" if view.by else ""
    return f"turn: {view.text}{by}"


def _ordinal(number: int) -> str:
    return "next" if number == 1 else f"{number}th" if number > 3 or number == 0 else ("", "", "2nd", "3rd")[number]


def _rough(ns: int) -> str:
    return format_duration(ns // SECOND * SECOND) if ns >= SECOND else "less than 1s"
