"""The gate over time, on a grain of 1 ms: who would be held, and whom `max_pause` has let through.

Each class (each attached tenant, where there are some) is one tenant that always has a launch waiting: a launch that
passes is followed by the next one at once. Launches take no time: nothing is in flight, so windows do not hold, and
nothing is charged, so rates, caps and shares hold only where they allow nothing at all. The daemon is well. (How fast
somebody goes on under a limit is a matter of worlds.)
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field

from gpud.policies.ir import IrPolicy
from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.arbiter import ranks_of, setting
from gpud.policies.simulate.gate import decide
from gpud.policies.simulate.gate_words import BUDGET, NEVER, PAUSED, PREEMPT, RATE, Bucket, Own, Peer, Words
from gpud.policies.simulate.grains import GRAIN_NS, ceil_to
from gpud.policies.simulate.signals import Signals


@define
class Launcher:
    """One tenant at the gate."""

    name: str
    job_class: str
    rank: int
    rises_ns: int
    """When it rises by one rank; NEVER: it does not."""
    held: bool = False
    held_since_ns: int = 0
    passed: int = 0
    """Launches let through by `max_pause`."""
    until_ns: int = NEVER


def _ns(duration: float) -> int:
    return NEVER if duration == UNLIMITED else int(duration)


@define
class GateClock:
    """All tenants of one device."""

    policy: IrPolicy
    signals: Signals
    knob: Callable[[str, str], Any]
    """(class or tenant, knob) → value in force."""
    launchers: dict[str, Launcher] = field(factory=dict)
    _resume_after_ns: int = 0
    _max_pause_ns: int = NEVER

    @classmethod
    def begin(cls, policy: IrPolicy, signals: Signals, knob: Callable[[str, str], Any], now: int) -> "GateClock":
        self = cls(policy, signals, knob)
        if policy.mode == "preempt":
            self._resume_after_ns = _ns(setting(policy, "resume_after"))
            self._max_pause_ns = _ns(setting(policy, "max_pause"))
        ranks = ranks_of(policy)
        rise = {c.name: c.settings["rise_after"].value for c in policy.classes if "rise_after" in c.settings}
        for name in signals.watches:
            job_class = signals.members.get(name, name)
            rises = rise.get(job_class, UNLIMITED)
            self.launchers[name] = Launcher(
                name, job_class, ranks.get(job_class, 0), NEVER if rises == UNLIMITED else now + int(rises) + 1
            )
        return self

    def look(self, now: int) -> None:
        """Brings all up to date: something has changed, or `next_ns` has come."""
        for launcher in self.launchers.values():
            if now >= launcher.rises_ns:
                launcher.rank, launcher.rises_ns = max(0, launcher.rank - 1), NEVER
        for launcher in self.launchers.values():
            self._look(launcher, now)

    def _look(self, launcher: Launcher, now: int) -> None:
        words = Words(
            gate=self._bits(launcher),
            rank=launcher.rank,
            resume_after_ns=self._resume_after_ns,
            max_pause_ns=self._max_pause_ns,
        )
        peers = [self._peer(other) for other in self.launchers.values() if other is not launcher]
        allowed = self._allowed(launcher)
        decided = decide(words, peers, Own(held_since_ns=launcher.held_since_ns, launches=allowed), now)
        if decided.why == "max_pause":
            launcher.passed += 1
            launcher.held_since_ns = 0
            decided = decide(words, peers, Own(launches=allowed), now)
        launcher.held = decided.hold
        launcher.held_since_ns = (launcher.held_since_ns or now) if decided.hold else 0
        launcher.until_ns = decided.until_ns if decided.hold else NEVER

    def _bits(self, launcher: Launcher) -> int:
        bits = PAUSED if self.knob(launcher.name, "pause") else 0
        if self.policy.mode == "preempt" and self.knob(launcher.name, "yield"):
            bits |= PREEMPT
        bits |= BUDGET if not self.knob(launcher.name, "max_compute") else 0
        return bits | RATE

    def _allowed(self, launcher: Launcher) -> Bucket:
        """A bucket that is full, unless nothing ever comes into it."""
        rates = (self.knob(launcher.name, name) for name in ("max_launch_rate", "max_block_rate"))
        return Bucket() if all(rates) else Bucket(rate=0)

    def _peer(self, other: Launcher) -> Peer:
        watch = self.signals.watches[other.name]
        return Peer(other.rank, bool(watch.active), watch.since_ns or 0, watch.active is not None)

    def next_ns(self, now: int) -> int | None:
        """When time alone changes something, on the grain; None: never."""
        due = min(min(launcher.until_ns, launcher.rises_ns) for launcher in self.launchers.values())
        return None if due == NEVER else max(ceil_to(due, GRAIN_NS), now + GRAIN_NS)
