"""Signals that change while nothing happens, and when that matters to a program.

`idle_for` counts on while a class is idle, but a program that only compares it with constants need not be looked at
before it gets there.
"""

from collections.abc import Iterator
from typing import Any

from attrs import define, fields, has

from gpud.policies.ir import Const, Op, Read
from gpud.policies.program import Program
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.signals import Signals

_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})


@define
class Counting:
    """What counts in one simulation."""

    signals: Signals
    thresholds: dict[str, list[int]]
    """Class → values its `idle_for` is compared with."""
    free: tuple[str, ...]
    """Owners whose `idle_for` is read in another way."""
    waits: tuple[str, ...]
    """Owners whose `longest_wait` is read."""

    def always(self, mono: int) -> bool:
        """Does something count now that may matter at any moment?"""
        for owner in self.free:
            if next(iter(self.signals.idle_since(owner)), None) is not None:
                return True
        return any(self.signals.read(f"{owner}.longest_wait", mono) for owner in self.waits)

    def next_ns(self, mono: int) -> int | None:
        """When an `idle_for` reaches, or has just passed, a value it is compared with; None: never."""
        due = None
        for owner, values in self.thresholds.items():
            for since in self.signals.idle_since(owner):
                for value in values:
                    for crossing in (since + value, since + value + 1):
                        if crossing > mono and (due is None or crossing < due):
                            due = crossing
        return due


def counting_of(program: Program, signals: Signals) -> Counting:
    """What a program reads of it."""
    thresholds: dict[str, list[int]] = {}
    free: dict[str, None] = {}
    for owner, value in _reads(program.ir):
        if value is None:
            free.setdefault(owner)
        elif value != UNLIMITED:
            thresholds.setdefault(owner, []).append(int(value))
    waits = [signal.job_class for signal in program.signals + program.tenant_signals if signal.name == "longest_wait"]
    return Counting(signals, thresholds, tuple(free), tuple(dict.fromkeys(waits)))


def _reads(part: Any) -> Iterator[tuple[str, float | None]]:
    """(class, what its `idle_for` is compared with; None: something else) in all that a policy is made of."""
    if isinstance(part, Op) and part.op in _COMPARED:
        left, right = part.args
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Read) and one.signal.name == "idle_for" and isinstance(other, Const):
                yield one.signal.job_class, other.value
                return
    if isinstance(part, Read):
        if part.signal.name == "idle_for":
            yield part.signal.job_class, None
    elif isinstance(part, tuple | list):
        for item in part:
            yield from _reads(item)
    elif has(type(part)):
        for each in fields(type(part)):
            yield from _reads(getattr(part, each.name))
