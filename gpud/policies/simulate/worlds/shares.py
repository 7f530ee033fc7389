"""GPU time: who gets how much of what he wants.

Each class (each attached tenant) wants so much of the device. Units are made as `per` says; a class that is its own
unit is one whether it is active or not. `fixed` and `weight` keep their slice and lend none of it; what is left is
divided among the active `equal` (weight 1) and `burst` units by weight, and what one of them does not take the others
may, up to their `max`. Inside a unit active tenants divide equally. Where nothing arbitrates, all that want something
get the same, as a device does it by itself. `limit { compute }` bounds each tenant, a soft one while somebody else
wants something. Instantaneous: `period` and `reclaim` are not modelled.
"""

from collections.abc import Iterable
from typing import Any

from attrs import define, frozen

from gpud.policies.label_values import readable
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.worlds.kind import Knob, Setup
from gpud.policies.tenants import TenantFacts
from gpud.policies.values import EQUAL, Choice, Share


@frozen
class Unit:
    """Shares together."""

    job_class: str
    members: tuple[str, ...]
    """Those that want something."""


def divide(amount: float, wants: list[tuple[float, float]]) -> list[float]:
    """By weight, nobody more than he wants, what is left to the others: [(weight, wants)] → amounts."""
    got = [0.0] * len(wants)
    open_ = [index for index, (_, most) in enumerate(wants) if most > 0]
    while open_ and amount > 1e-12:
        weight = 0.0
        for index in open_:
            weight += wants[index][0]
        full = [index for index in open_ if wants[index][1] - got[index] <= amount * wants[index][0] / weight]
        if not full:
            for index in open_:
                got[index] += amount * wants[index][0] / weight
            break
        for index in full:
            amount -= wants[index][1] - got[index]
            got[index] = wants[index][1]
        open_ = [index for index in open_ if index not in full]
    return got


def _unit_key(per: str, name: str, facts: TenantFacts) -> str:
    if per == "tenant":
        return name
    if per.startswith("label:"):
        return facts.labels.get(per.removeprefix("label:"), "")
    return str(getattr(facts, per))


def _units(setup: Setup) -> list[Unit]:
    units = []
    for job_class in setup.policy.classes:
        mine = [name for name, its_class in setup.members.items() if its_class == job_class.name]
        if job_class.per == "class" or job_class.name in mine:
            units.append(Unit(job_class.name, tuple(mine)))
            continue
        grouped: dict[str, list[str]] = {}
        for name in mine:
            grouped.setdefault(_unit_key(job_class.per, name, setup.attached[name]), []).append(name)
        units += [Unit(job_class.name, tuple(names)) for names in grouped.values()]
    return units


def _limit(setup: Setup, name: str, job_class: str) -> tuple[float, bool]:
    """(what `limit { compute }` allows this tenant, whether only while others want something)."""
    facts = setup.attached.get(name)
    found = readable(setup.policy.class_named(job_class), facts.labels if facts is not None else {})
    value: Any = found.get("compute", UNLIMITED)
    ratio: Any = value.argument if isinstance(value, Choice) else value
    return (UNLIMITED if ratio is None else float(ratio)), isinstance(value, Choice)


@define
class Shares:
    """A running world."""

    units: list[Unit]
    wants: dict[str, float]
    share: dict[str, Share]
    """By class."""
    limit: dict[str, float]
    """`max_compute` of each unit, by class."""
    paused: dict[str, bool]
    own: dict[str, tuple[float, bool]]
    """`limit { compute }` of each member, and whether it is soft."""
    busy: dict[str, float]
    arbitrated: bool
    """False: the device gives all that want something the same."""

    @classmethod
    def begin(cls, setup: Setup) -> "Shares":
        classes = [job_class.name for job_class in setup.policy.classes]
        world = cls(
            units=_units(setup),
            wants={name: setup.arguments[name] for name in setup.members},
            share=dict.fromkeys(classes, EQUAL),
            limit=dict.fromkeys(classes, UNLIMITED),
            paused=dict.fromkeys(classes, False),
            own={name: _limit(setup, name, job_class) for name, job_class in setup.members.items()},
            busy=dict.fromkeys(setup.members, 0.0),
            arbitrated=setup.policy.mode == "share",
        )
        world._settle()
        return world

    def set(self, name: str, value: Any, now: int) -> None:
        self.wants[name] = value
        self._settle()

    def decided(self, knob: Knob, now: int) -> None:
        for name in self.share:
            self.share[name] = knob(name, "share")
            self.limit[name] = knob(name, "max_compute")
            self.paused[name] = knob(name, "pause")
        self._settle()

    def _wants(self, name: str, job_class: str) -> float:
        """Of one member, as far as it may."""
        wants, (most, soft) = self.wants[name], self.own[name]
        if self.paused[job_class]:
            return 0.0
        alone = not any(other != name and more > 0 for other, more in self.wants.items())
        return min(wants, 1.0 if soft and alone else most)

    def _wanted(self, unit: Unit) -> float:
        total = 0.0
        for name in unit.members:
            total += self._wants(name, unit.job_class)
        return min(total, self.limit[unit.job_class], 1.0)

    def _settle(self) -> None:
        if self.arbitrated:
            self._settle_shares()
        else:
            self._settle_open()

    def _settle_shares(self) -> None:
        left, weights = 1.0, 0.0
        for unit in self.units:
            share = self.share[unit.job_class]
            if share.kind == "fixed":
                left -= share.percent / 100
            else:
                weights += share.weight
        pool, takers = left, []
        for unit in self.units:
            share = self.share[unit.job_class]
            if share.kind == "fixed":
                self._give(unit, min(self._wanted(unit), share.percent / 100))
            elif share.kind == "weight":
                slice_ = left * share.weight / weights
                pool -= slice_
                self._give(unit, min(self._wanted(unit), slice_))
            else:
                takers.append((unit, share))
        most = [(share.weight, min(self._wanted(unit), share.max_percent / 100)) for unit, share in takers]
        for (unit, _), amount in zip(takers, divide(pool, most), strict=True):
            self._give(unit, amount)

    def _settle_open(self) -> None:
        """The same for each member; a unit that would get more than it may gets that, the others the rest."""
        left, free = 1.0, list(self.units)
        while True:
            members = [(name, unit.job_class) for unit in free for name in unit.members]
            wants = [(1.0, self._wants(name, job_class)) for name, job_class in members]
            self.busy |= {name: got for (name, _), got in zip(members, divide(left, wants), strict=True)}
            over = next((unit for unit in free if self._sum(unit) > self.limit[unit.job_class] + 1e-12), None)
            if over is None:
                return
            self._give(over, self.limit[over.job_class])
            left -= self._sum(over)
            free.remove(over)

    def _sum(self, unit: Unit) -> float:
        total = 0.0
        for name in unit.members:
            total += self.busy[name]
        return total

    def _give(self, unit: Unit, amount: float) -> None:
        wants = [(1.0, self._wants(name, unit.job_class)) for name in unit.members]
        for name, got in zip(unit.members, divide(amount, wants), strict=True):
            self.busy[name] = got

    def signals(self, now: int) -> Iterable[tuple[str, Any]]:
        total = 0.0
        for name, busy in self.busy.items():
            total += busy
            yield f"{name}.busy", busy
            yield f"{name}.active", self.wants[name] > 0
        yield "gpu.busy", total

    def next_ns(self, now: int) -> int | None:
        return None

    def reading(self, name: str, now: int) -> Any:
        return self.wants[name]
