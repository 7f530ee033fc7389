"""Who wants how much memory, and what moving somebody out gives back.

A class (an attached tenant) whose residency is `device` wants its whole amount there; otherwise it wants none. Memory
moves at `swap` bytes a second, first out, then in, in the order of the arguments; what does not fit stays out. A policy
that lets go once *its own* effect has freed memory is seen to flap here, and nowhere else.
"""

from collections.abc import Iterable
from typing import Any

from attrs import define

from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.grains import TICK_NS
from gpud.policies.simulate.worlds.kind import Knob, Setup

_SECOND = 1_000_000_000


@define
class Holder:
    """A class or an attached tenant."""

    name: str
    wants: float
    """Bytes, wherever they are."""
    held: float = 0
    """Bytes on the device."""
    residency: str = "device"

    @property
    def target(self) -> float:
        return self.wants if self.residency == "device" else 0


@define
class Memory:
    """A running world."""

    total: float
    host: float
    """Host memory that is free while nothing is out."""
    swap: float
    """Bytes a second; inf: at once."""
    holders: dict[str, Holder]
    at: int
    """When `held` was right."""

    @classmethod
    def begin(cls, setup: Setup) -> "Memory":
        given = setup.arguments
        holders = {name: Holder(name, given[name]) for name in setup.members}
        world = cls(given["total"], given["host"], given["swap"], holders, setup.now)
        world._move(UNLIMITED)  # what is there at the beginning was not swapped in
        return world

    def set(self, name: str, value: Any, now: int) -> None:
        self._advance(now)
        if name in self.holders:
            holder = self.holders[name]
            grown = value - holder.wants
            holder.wants = value
            if grown > 0 and holder.residency == "device":  # allocated there, not brought back
                holder.held += min(grown, self._free())
            holder.held = min(holder.held, value)
        else:
            setattr(self, name, value)
        self._settle()

    def decided(self, knob: Knob, now: int) -> None:
        self._advance(now)
        for holder in self.holders.values():
            holder.residency = knob(holder.name, "residency")
        self._settle()

    def _settle(self) -> None:
        if self.swap == UNLIMITED:
            self._move(UNLIMITED)

    def _advance(self, now: int) -> None:
        self._move(self.swap * (now - self.at) / _SECOND if now > self.at else 0)
        self.at = now

    def _move(self, most: float) -> None:
        for holder in self.holders.values():
            out = min(most, max(0, holder.held - holder.target))
            holder.held -= out
            most -= out
        for holder in self.holders.values():
            inward = min(most, max(0, holder.target - holder.held), self._free())
            holder.held += inward
            most -= inward

    def _used(self) -> float:
        used = 0.0
        for holder in self.holders.values():
            used += holder.held
        return used

    def _free(self) -> float:
        return max(0, self.total - self._used())

    def signals(self, now: int) -> Iterable[tuple[str, Any]]:
        self._advance(now)
        out = 0.0
        for holder in self.holders.values():
            out += holder.wants - holder.held if holder.residency == "host" else 0
            yield f"{holder.name}.memory_used", round(holder.held)
        yield "gpu.memory_total", int(self.total)
        yield "gpu.memory_free", int(self._free())
        yield "host.memory_free", int(max(0, self.host - out))

    def next_ns(self, now: int) -> int | None:
        self._advance(now)
        free = self._free()
        moving = any(h.held > h.target or (h.held < h.target and free > 0) for h in self.holders.values())
        return now + TICK_NS if moving else None

    def reading(self, name: str, now: int) -> Any:
        return self.holders[name].wants if name in self.holders else getattr(self, name)
