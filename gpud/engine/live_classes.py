"""The rows of classes: how many jobs each has, what they use against what they shall have, how long they wait. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping

from gpud.engine.held import Sums
from gpud.engine.live_still import ClassSum
from gpud.engine.meters import quantile
from gpud.engine.state import State
from gpud.model.ids import ClientId, Slot
from gpud.model.live_views import ClassRow
from gpud.model.units import SECOND

LATELY_NS = 30 * SECOND
"""Waits are of so long …"""
STEP_NS = 2 * SECOND
"""… and looked at so often."""
WHOLE = 1_000_000
Histograms = Mapping[tuple[ClientId, Slot], tuple[int, ...]]


class ClassRows:
    """Of one node."""

    def __init__(self) -> None:
        self._sums: dict[tuple[Slot, str, str], ClassSum] = {}
        self._on: dict[Slot, tuple[tuple[str, dict[str, ClassSum]], ...]] = {}
        self._waits: dict[tuple[Slot, str, str], deque[tuple[int, list[int]]]] = {}
        """(when, holds by bucket) of each look."""
        self._held: dict[tuple[ClientId, Slot], tuple[int, tuple[int, ...]]] = {}
        """Of each process: how many holds there were, and by bucket, when they were read last."""
        self._looked_ns = 0

    def on(self, slot: Slot) -> tuple[tuple[str, dict[str, ClassSum]], ...]:
        """(digest of each policy there, its classes)."""
        return self._on.get(slot, ())

    def begin(self, state: State, anew: bool) -> None:
        """Before jobs are counted. `anew`: the set of policies, or the devices, are others than before."""
        if anew:
            self._on = {slot: tuple(self._of(state, slot)) for slot in sorted(state.runs)}
            there = {
                (slot, one.policy, one.job_class)
                for slot, policies in self._on.items()
                for _, classes in policies
                for one in classes.values()
            }
            self._sums = {key: one for key, one in self._sums.items() if key in there}
            self._waits = {key: one for key, one in self._waits.items() if key in there}
        for one in self._sums.values():
            one.jobs = one.active = one.held = 0

    def _of(self, state: State, slot: Slot) -> Iterable[tuple[str, dict[str, ClassSum]]]:
        for applied in state.runs[slot].stack:
            ranks = applied.arbiter.ranks if applied.arbiter is not None else {}
            found: dict[str, ClassSum] = {}
            for job_class in applied.program.ir.classes:
                rank = ranks.get(job_class.name, 0)
                key = (slot, applied.name, job_class.name)
                one = self._sums.setdefault(key, ClassSum(applied.name, job_class.name, rank))
                one.rank = rank
                found[job_class.name] = one
            yield applied.program.digest, found

    def wanted(self, sums: Sums, now: int) -> list[tuple[ClientId, Slot]]:
        """Whose histograms of holds to read now: those with new holds, once in a while."""
        if now - self._looked_ns < STEP_NS:
            return []
        return [key for key, row in sums.items() if row.held != self._held.get(key, (0, ()))[0]]

    def hear(self, state: State, sums: Sums, histograms: Histograms, now: int) -> None:
        """Takes what `wanted` asked for."""
        if now - self._looked_ns < STEP_NS:
            return
        young = self._looked_ns > 0
        self._looked_ns = now
        news: dict[tuple[Slot, str, str], list[int]] = {}
        for (client, slot), buckets in histograms.items():
            before = self._held.get((client, slot))
            self._held[client, slot] = sums[client, slot].held, buckets
            there = state.clients.get(client)
            if there is None or (before is None and not young):
                continue  # what it has waited before anybody looked is not of lately
            old = before[1] if before is not None and before[1] else (0,) * len(buckets)
            placed = state.tenants[there.job].placed
            for digest, classes in self.on(slot):
                one = classes.get(placed[digest].job_class or "") if digest in placed else None
                if one is not None:
                    row = news.setdefault((slot, one.policy, one.job_class), [0] * len(buckets))
                    for bucket, (count, was) in enumerate(zip(buckets, old, strict=True)):
                        if count > was:
                            row[bucket] += count - was
        for key in self._held.keys() - sums.keys():
            del self._held[key]
        for name, counts in news.items():
            self._waits.setdefault(name, deque()).append((now, counts))
        for past in self._waits.values():
            while past and past[0][0] <= now - LATELY_NS:
                past.popleft()

    def rows(self, state: State, before: tuple[ClassRow, ...]) -> tuple[ClassRow, ...]:
        """After jobs were counted. Equal to those before: the same object."""
        found = tuple(
            self._row(slot, one, _targets(state, slot, digest))
            for slot, policies in self._on.items()
            for digest, classes in policies
            for one in classes.values()
        )
        return before if found == before else found

    def _row(self, slot: Slot, one: ClassSum, targets: Mapping[str, int]) -> ClassRow:
        past = self._waits.get((slot, one.policy, one.job_class), ())
        buckets = [sum(counts) for counts in zip(*(row for _, row in past), strict=True)]
        target = targets.get(one.job_class)
        waited = any(buckets)
        return ClassRow(
            device=slot,
            policy=one.policy,
            job_class=one.job_class,
            rank=one.rank,
            jobs=one.jobs,
            active=one.active,
            held=one.held,
            target=None if target is None else target / WHOLE,
            spent_ns=one.spent_ns,
            wait_p50_ns=quantile(buckets, 0, 50) if waited else None,
            wait_p95_ns=quantile(buckets, 0, 95) if waited else None,
        )


def _targets(state: State, slot: Slot, digest: str) -> dict[str, int]:
    """Class → millionths of the device, of those of the arbiter's that have somebody there."""
    division = state.divisions.get(slot)
    if division is None or not division.units:
        return {}
    applied = next((one for one in state.runs[slot].stack if one.program.digest == digest), None)
    if applied is None or applied.arbiter is None:
        return {}
    weights = [0] * len(division.pools)
    for unit in division.units:
        weights[unit.pool] += unit.weight if unit.fixed_ppm is None else 0
    found: dict[str, int] = {}
    for unit in division.units:
        tenant = state.tenants.get(unit.members[0])
        job_class = tenant.placed[digest].job_class if tenant is not None else None
        if job_class is None:
            continue
        part = unit.fixed_ppm
        if part is None:
            part = division.pools[unit.pool].open_ppm * unit.weight // max(weights[unit.pool], 1)
        found[job_class] = found.get(job_class, 0) + part
    return found
