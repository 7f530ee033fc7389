"""The device lock: who has it, who waits. For policies with `arbitrate exclusive`.

Each class is so many jobs that want the device and go on wanting it: who gives the lock up queues again. First come,
first served, within a rank when `order` gives ranks. A turn is over `max_hold` after it began, never before `min_hold`,
and if nobody waits it goes on. The owner gives the device back as much later as `late` says, or is ended before, by
`max_overrun`. A paused class does not ask. Not modelled: `fair`, `max_wait`, `idle_release` and the time that a
hand-over takes.
"""

from collections.abc import Iterable
from typing import Any

from attrs import define, field

from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.arbiter import ranks_of, setting
from gpud.policies.simulate.worlds.kind import Knob, Setup


@define
class Job:
    """One that wants the device."""

    member: str
    rank: int
    since_ns: int
    """In the queue since."""


@define
class Turns:
    """A running world."""

    ranks: dict[str, int]
    """By member."""
    min_hold: float
    grace: int
    max_hold: dict[str, float]
    max_overrun: dict[str, float]
    paused: dict[str, bool]
    wanted: dict[str, int]
    queue: list[Job] = field(factory=list)
    owner: Job | None = None
    owned_since: int = 0
    asked_since: int | None = None
    """The owner was asked for the device then."""
    late: int = 0
    turns: int = 0
    last_turn: int = 0
    ended: int = 0

    @classmethod
    def begin(cls, setup: Setup) -> "Turns":
        by_class = ranks_of(setup.policy)
        world = cls(
            ranks={name: by_class[job_class] for name, job_class in setup.members.items()},
            min_hold=setting(setup.policy, "min_hold") or 0,
            grace=setting(setup.policy, "grace"),
            max_hold=dict.fromkeys(setup.members, UNLIMITED),
            max_overrun=dict.fromkeys(setup.members, UNLIMITED),
            paused=dict.fromkeys(setup.members, False),
            wanted=dict.fromkeys(setup.members, 0),
            late=setup.arguments["late"],
        )
        for name in setup.members:
            world.set(name, setup.arguments[name], setup.now)
        return world

    def set(self, name: str, value: Any, now: int) -> None:
        """So many jobs of this member want the device from now on; the last that came leave first."""
        if name == "late":
            self.late = value
            self._settle(now)
            return
        count = int(value)
        while self.wanted[name] < count:
            self.queue.append(Job(name, self.ranks[name], now))
            self.wanted[name] += 1
        while self.wanted[name] > count:
            self._leave(name)
            self.wanted[name] -= 1
        self._settle(now)

    def _leave(self, name: str) -> None:
        for index in range(len(self.queue) - 1, -1, -1):
            if self.queue[index].member == name:
                del self.queue[index]
                return
        self.owner = self.asked_since = None

    def decided(self, knob: Knob, now: int) -> None:
        for name in self.wanted:
            self.max_hold[name] = knob(name, "max_hold")
            self.max_overrun[name] = knob(name, "max_overrun")
            self.paused[name] = knob(name, "pause")
        self._settle(now)

    def _waiting(self) -> list[Job]:
        return [job for job in self.queue if not self.paused[job.member]]

    def _due(self) -> float:
        """When the owner's turn is over."""
        assert self.owner is not None
        return self.owned_since + max(self.max_hold[self.owner.member], self.min_hold)

    def _ends(self, asked_since: int, waiting: bool) -> float:
        """When the owner, who was asked for the device, is ended."""
        assert self.owner is not None
        return asked_since + self.grace + self.max_overrun[self.owner.member] if waiting else UNLIMITED

    def _settle(self, now: int) -> None:
        waiting = self._waiting()
        if self.owner is not None and self.asked_since is None and waiting and now >= self._due():
            self.asked_since = now
        if self.owner is not None:
            if self.asked_since is None:
                return
            if now >= self.asked_since + self.late:
                self.owner.since_ns = now
                self.queue.append(self.owner)
            elif now >= self._ends(self.asked_since, bool(waiting)):
                self.wanted[self.owner.member] -= 1
                self.ended += 1
            else:
                return
            self.last_turn = now - self.owned_since
            self.owner = self.asked_since = None
            waiting = self._waiting()
        if waiting:
            following = min(waiting, key=lambda job: job.rank)  # the first of the highest rank: min is stable
            self.queue.remove(following)
            self.owner, self.owned_since = following, now
            self.turns += 1

    def signals(self, now: int) -> Iterable[tuple[str, Any]]:
        self._settle(now)
        waiting = self._waiting()
        for name in self.wanted:
            mine = [job for job in waiting if job.member == name]
            yield f"{name}.waiters", len(mine)
            yield f"{name}.longest_wait", max((now - job.since_ns for job in mine), default=0)
            yield f"{name}.active", self.owner is not None and self.owner.member == name
        yield "gpu.waiters", len(waiting)

    def next_ns(self, now: int) -> int | None:
        if self.owner is None:
            return None
        waiting = bool(self._waiting())
        due = self._due() if waiting else UNLIMITED
        if self.asked_since is not None:
            due = min(self.asked_since + self.late, self._ends(self.asked_since, waiting))
        return None if due == UNLIMITED else max(now + 1, int(due))

    def reading(self, name: str, now: int) -> Any:
        self._settle(now)
        if name == "turns":
            return self.turns
        if name == "last_turn":
            return self.last_turn
        if name in ("late", "ended"):
            return self.late if name == "late" else self.ended
        if name == "overrun":
            return 0 if self.asked_since is None else max(now - self.asked_since - self.grace, 0)
        if name == "turn":
            return now - self.owned_since if self.owner is not None else 0
        return self.wanted[name]
