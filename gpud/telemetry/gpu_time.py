"""GPU time and held launches by device and class, as counters that only grow. Pure.

Pages say what each process has been charged since it attached. A launch is charged when it is made: of one that queues
a minute of work, no more is counted than time has passed. What an earlier daemon has counted is not counted again.
"""

from collections import deque
from collections.abc import Callable, Mapping

from attrs import define

from gpud.engine.state import State
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import SECOND
from gpud.telemetry.metric_values import Counts, Labels

Key = tuple[ClientId, Slot]
Sums = Mapping[Key, Counters]
ClassOn = Callable[[JobId, Slot], str | None]
"""The label value of a job's class on a device; None: there is no such job any more."""
OVER_NS = 10 * SECOND
"""Parts of a device are of so long at least, if somebody looked then …"""
STEP_NS = 1 * SECOND
"""… and of this at the very least."""
LARGEST = 2**53
"""A hook may write nonsense into its page: up to here, counters are exact."""


@define
class _Seen:
    """One process on one device, as of the last look."""

    spent_ns: int
    """Of what it was charged, what is counted."""
    held: int
    when_ns: int
    job_class: str
    is_first: bool = False
    """It was there before the daemon: what its page says first is where it begins."""


class GpuTime:
    """`busy_ns`, `held`: by (device, class), as label values."""

    def __init__(self, state: State, class_on: ClassOn) -> None:
        self.busy_ns, self.held = Counts(), Counts()
        self._state, self._class_on = state, class_on
        self._adopted = set(state.clients)
        self._seen: dict[Key, _Seen] = {}
        self._past: deque[tuple[int, dict[Labels, int]]] = deque()

    def adopts(self, client: ClientId) -> None:
        """It brings the pages that it has had."""
        self._adopted.add(client)

    def comes(self, client: ClientId) -> None:
        """It knows its devices, and may use them from now on."""
        there = self._state.clients.get(client)
        for slot in there.slots() if there is not None else ():
            self._known((client, slot))

    def _known(self, key: Key) -> _Seen | None:
        """With the class of now; None: who is not there, or was not seen before it went."""
        client, found = self._state.clients.get(key[0]), self._seen.get(key)
        job_class = self._class_on(client.job, key[1]) if client is not None else None
        if found is not None:
            found.job_class = job_class or found.job_class
        elif client is not None and job_class is not None:
            self._adopted &= self._state.clients.keys()
            found = self._seen[key] = _Seen(0, 0, client.attached_ns, job_class, key[0] in self._adopted)
        return found

    def look(self, sums: Sums, now: int) -> None:
        """At all there are."""
        for key, row in sums.items():
            seen = self._known(key)
            if seen is not None:
                self._count(key, seen, row, now)
        for key in self._seen.keys() - sums.keys():
            if key[0] not in self._state.clients:
                del self._seen[key]
        if not self._past or now - self._past[-1][0] >= STEP_NS:
            self._past.append((now, dict(self.busy_ns.values)))
        while len(self._past) > 1 and self._past[1][0] <= now - OVER_NS:
            self._past.popleft()

    def goes(self, client: ClientId, sums: Sums, now: int) -> None:
        """It has ended; `sums`: what its pages said last."""
        for key in [key for key in self._seen if key[0] == client]:
            seen = self._seen.pop(key)
            if key in sums:
                self._count(key, seen, sums[key], now)

    def _count(self, key: Key, seen: _Seen, row: Counters, now: int) -> None:
        if seen.is_first:
            seen.spent_ns, seen.held, seen.when_ns, seen.is_first = row.spent_ns, row.held, now, False
            return
        labels = str(key[1]), seen.job_class
        spent = min(max(row.spent_ns - seen.spent_ns, 0), max(now - seen.when_ns, 0))
        held = min(max(row.held - seen.held, 0), LARGEST)
        seen.spent_ns, seen.when_ns, seen.held = seen.spent_ns + spent, now, row.held
        if spent:
            self.busy_ns.add(labels, spent)
        if held:
            self.held.add(labels, held)

    def parts(self, now: int) -> dict[Labels, float] | None:
        """Of each device that each class used lately, 0 … 1; None when nobody has looked before."""
        when, before = self._past[0] if self._past else (now, {})
        if now - when < STEP_NS:
            return None
        return {
            labels: min(max(count - before.get(labels, 0), 0) / (now - when), 1.0)
            for labels, count in self.busy_ns.values.items()
        }

    def keep(self, classes: frozenset[str]) -> None:
        """Forgets classes that there are not any more."""
        self.busy_ns.keep(classes, 1)
        self.held.keep(classes, 1)
