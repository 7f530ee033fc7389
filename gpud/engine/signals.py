"""What the policies of a device see: the state's last readings → values in the order of a program's signals. Pure.

Values are as gpud.policies.types says; None is a signal that should be known and is not.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gpud.engine import lock_queue
from gpud.engine.board import Applied
from gpud.engine.meters import BLOCKS, COPIED, LAUNCHES, NOT_READ, SERVED, Meter, delay_p99, wait_p99
from gpud.engine.state import Run, State, Tenant
from gpud.model.events import Reading
from gpud.model.ids import ClientId, JobId, Slot, uuid_text
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.ir import SignalRef
from gpud.policies.program import TENANT_CLASS

STALE_NS = 5 * SECOND
"""What the driver told longer ago is not known any more."""
_CHARGED = frozenset({"busy", "block_rate", "copy_rate", "delay_p99", "gpu.busy"})
"""What hooks count and sample only while launches are charged."""
_WAITS, _DELAYS = frozenset({"wait_p99"}), frozenset({"delay_p99"})
_RATE, _WAIT, _DELAY = 1, 2, 4
_SELDOM_NS = 500 * MILLISECOND
_RATES = _CHARGED - _DELAYS | {"launch_rate"}
"""Made of counters, by a meter that sees all of them; the other two, of histograms that are read once in a while."""
_LINES = frozenset({"waiters", "gpu.waiters"})
"""Told of at once when they change."""
QUIET = frozenset({"active", "tenants", "busy", "gpu.busy", "launch_rate", "block_rate", "delay_p99"}) | _LINES
"""What stays as it is while nobody is active, and nobody comes or goes. (Held launches and copies are no activity.)"""
SETTLED_NS = 1_200 * MILLISECOND
"""After the last activity all windows have passed, and what was seen last has been seen."""
_OF_LINE = frozenset({"waiters", "longest_wait"})
_FROM_DRIVER = frozenset({"gpu.memory_free", "gpu.power", "gpu.temperature"})


def wants_charging(state: State, tenant: Tenant, slot: Slot) -> bool:
    """Does a policy of the device read of this tenant (with its class, or all of the device) what hooks only know while
    they charge launches?"""
    for applied in state.stack_on(slot):
        job_class = tenant.placed[applied.program.digest].job_class
        for ref in (*applied.program.signals, *applied.program.tenant_signals):
            name = ref.name if ref.scope == "class" else f"{ref.scope}.{ref.name}"
            if name in _CHARGED and ref.job_class in ("", job_class):
                return True
    return False


def wants_driver(reads: Iterable[str]) -> bool:
    """Must the driver be asked for what is in `reads` (as in Applied)?"""
    return not _FROM_DRIVER.isdisjoint(reads)


def slots_reading(state: State, names: frozenset[str]) -> set[Slot]:
    """Devices of which some policy reads one of these signals."""
    return {slot for slot, run in state.runs.items() if any(names & applied.reads for applied in run.stack)}


def _read_of(state: State, tenant: Tenant, slot: Slot) -> int:
    """What the policies of the device read of this tenant: `_RATE`, `_WAIT`, `_DELAY`. Remembered until the running set
    or the tenant's class changes."""
    found = tenant.read.get(slot)
    if found is None:
        found = 0
        for applied in state.stack_on(slot):
            job_class = tenant.placed[applied.program.digest].job_class
            for ref in (*applied.program.signals, *applied.program.tenant_signals):
                name = ref.name if ref.scope == "class" else f"{ref.scope}.{ref.name}"
                if ref.job_class in ("", job_class):
                    found |= (name in _RATES) * _RATE | (name in _WAITS) * _WAIT | (name in _DELAYS) * _DELAY
        tenant.read[slot] = found
    return found


def take(state: State, reading: Reading, now: int) -> None:
    """Notes what was read of the world. Of whom no policy reads, the meter is for screens, and seldom fed."""
    state.wall_offset_ns = reading.wall_ns - now
    state.host_free = reading.host_free
    remembered, feeding = slots_reading(state, _RATES), _RATE
    if reading.histograms or reading.delays:
        state.histograms_ns = now
        remembered |= slots_reading(state, _WAITS | _DELAYS)
        feeding |= _WAIT | _DELAY
    resting = {slot for slot, run in state.runs.items() if run.resting}
    clients, tenants, meters, active = state.clients, state.tenants, state.meters, state.active
    for key, counters in reading.counters.items():
        number, slot = key
        client = clients.get(number)
        if client is None:
            continue
        if tenants[client.job].paused is not None:
            counters = counters._replace(active=0, holding=0)  # no rule makes others wait for who is paused
        meter = meters.get(key)
        if meter is None:
            if slot not in client.slots():
                continue
            meter = meters[key] = Meter()
        elif meter.counters.edges != counters.edges:
            state.active_ns[slot] = now  # it was active in between, and somebody has seen that
        before = meter.counters
        meter.between = counters.edges != before.edges and not counters.active and not before.active
        if slot in resting:
            meter.rested(now)
        if slot in remembered:
            tenant = tenants[client.job]
            read = tenant.read.get(slot)
            if read is None:
                read = _read_of(state, tenant, slot)
            if read & feeding:
                holds = reading.histograms.get(key, NOT_READ) if read & _WAIT else None
                delays = reading.delays.get(key, NOT_READ) if read & _DELAY else None
                meter.feed(counters, holds, client.attached_ns, now, delays)
            elif not read and now - meter.fed_ns >= _SELDOM_NS:
                meter.feed(counters, None, client.attached_ns, now)
            else:
                meter.counters = counters
        else:
            meter.counters = counters
        if counters.active:
            active.add(key)
        elif key in active:
            active.discard(key)


class Members:
    """The clients on one device, by class and by tenant, as one policy sorts them."""

    def __init__(self, state: State, slot: Slot, applied: Applied) -> None:
        self.by_class: dict[str, list[Meter]] = {}
        self.by_tenant: dict[JobId, list[Meter]] = {}
        """Of a policy that has rules about tenants."""
        self.class_of: dict[JobId, str] = {}
        self.silent: set[str | JobId] = set()
        """Classes and tenants with a client of an earlier daemon that has not come back yet."""
        digest, meters, tenants = applied.program.digest, state.meters, state.tenants
        for client in state.clients_on(slot):
            job = client.job
            job_class = tenants[job].placed[digest].job_class
            if job_class is None:
                continue
            meter = meters.get((client.id, slot)) or Meter()
            self.by_class.setdefault(job_class, []).append(meter)
            self.class_of[job] = job_class
            if applied.each:
                self.by_tenant.setdefault(job, []).append(meter)
            if client.session is None:
                self.silent |= {job_class, job}

    def tenants(self, job_class: str) -> int:
        return sum(name == job_class for name in self.class_of.values())


def snapshot(state: State, run: Run, slot: Slot, applied: Applied, members: Members, now: int) -> tuple[Any, ...]:
    """The values of `program.signals`."""
    return tuple(_value(state, run, slot, applied, members, ref, now) for ref in applied.program.signals)


def of_tenants(state: State, slot: Slot, applied: Applied, members: Members, now: int) -> dict[int, tuple[Any, ...]]:
    """Of each tenant of a class with an `each`: the values of `program.tenant_signals`, None for those of another
    class."""
    refs = applied.program.tenant_signals
    found: dict[int, tuple[Any, ...]] = {}
    for job, meters in sorted(members.by_tenant.items()):
        job_class = members.class_of[job]
        if job_class in applied.each:
            silent = job in members.silent
            began = state.tenants[job].began_ns
            found[job] = tuple(
                _of_line(state, slot, ref.name, {job}, now)
                if ref.name in _OF_LINE and ref.job_class == job_class and not silent
                else _of_tenant(ref, job_class, meters, silent, began, now)
                for ref in refs
            )
    return found


def _value(state: State, run: Run, slot: Slot, applied: Applied, members: Members, ref: SignalRef, now: int) -> Any:
    if "." in ref.name:
        return _of_plugin(state, slot, ref, now)
    if ref.scope == "host":
        return state.host_free if ref.name == "memory_free" else None
    if ref.scope == "gpu":
        return _of_device(state, slot, ref.name, now)
    meters = members.by_class.get(ref.job_class, [])
    silent = ref.job_class in members.silent
    if ref.name == "idle_for":
        idle_for = _idle_for(run, (applied.name, ref.job_class), meters, now)
        return None if silent and idle_for else idle_for
    if ref.name == "tenants":
        return members.tenants(ref.job_class)
    if ref.name in _OF_LINE:
        jobs = {job for job, name in members.class_of.items() if name == ref.job_class}
        return None if silent else _of_line(state, slot, ref.name, jobs, now)
    return _measured(ref, meters, silent, now)


def _of_tenant(ref: SignalRef, job_class: str, meters: Sequence[Meter], silent: bool, began: int, now: int) -> Any:
    """`began`: if it never launched anything, it is idle since then. (A class that never did: for `unlimited`.)"""
    if ref == TENANT_CLASS:
        return job_class
    if ref.job_class != job_class:
        return None
    if ref.name == "idle_for":
        since = _idle_since(meters, now) or min(began, now)
        active = _active(meters, now)
        return None if silent and not active else 0 if active else now - since
    return _measured(ref, meters, silent, now)


def _measured(ref: SignalRef, meters: Sequence[Meter], silent: bool, now: int) -> Any:
    """A signal that this version does not measure is refused by `apply`; where it comes here all the same, it is not
    known. Nor is what one that is `silent` could change: that others are active is all that it cannot."""
    measure = _MEASURES.get(ref.name)
    if measure is None or (silent and not (ref.name == "active" and _active(meters, now))):
        return None
    return measure(meters, now)


def _of_line(state: State, slot: Slot, name: str, jobs: set[JobId], now: int) -> int:
    """Of these tenants: how many wait for their turn, or how long the first of them has."""
    waiting = [one for one in _waiting(state, slot) if one.job in jobs]
    if name == "waiters":
        return len({one.job for one in waiting})
    return max((now - one.since_ns for one in waiting), default=0)


def _waiting(state: State, slot: Slot) -> list[lock_queue.Request]:
    """In line for a device, but for who is paused."""
    there = lock_queue.waiting_on(state.locks, slot)
    return [one for one in there if state.tenants[one.job].paused is None]


def _of_plugin(state: State, slot: Slot, ref: SignalRef, now: int) -> Any:
    plugin, _, signal = ref.name.partition(".")
    target = ref.job_class if ref.scope == "class" else uuid_text(state.devices[slot].uuid)
    value, until = state.samples.get((plugin, signal, target), (None, 0))
    return value if now <= until else None


def _of_device(state: State, slot: Slot, name: str, now: int) -> Any:
    device = state.devices[slot]
    if name == "waiters":
        return len({one.job for one in _waiting(state, slot)})
    if name == "memory_total":
        return device.total_bytes
    if name == "busy":
        clients = list(state.clients_on(slot))
        meters = [state.meters.get((client.id, slot)) or Meter() for client in clients]
        return None if any(client.session is None for client in clients) else _busy(meters, now)
    seen = state.seen.get(device.uuid)
    if seen is None or now - seen.when_ns >= STALE_NS:
        return None
    if name == "memory_free":
        return max(seen.total_bytes - seen.used_bytes, 0)
    return {"power": seen.power_w, "temperature": seen.temperature_c}.get(name)


def _active(meters: Sequence[Meter], now: int) -> bool:
    """Now, or at some moment since the look before: whoever works a moment at a time is not overlooked by chance."""
    return any(meter.counters.active or meter.between for meter in meters)


def _queued(meters: Sequence[Meter], now: int) -> int:
    return sum(meter.counters.holding for meter in meters)


def _rate(what: int) -> Callable[[Sequence[Meter], int], float | None]:
    """Of all of them together, a second."""

    def rate_of(meters: Sequence[Meter], now: int) -> float | None:
        total = 0.0
        for meter in meters:  # sum() adds floats otherwise since Python 3.12
            rate = meter.rate(what, now)
            if rate is None:
                return None
            total += rate
        return total

    return rate_of


_served = _rate(SERVED)


def _busy(meters: Sequence[Meter], now: int) -> float | None:
    """What was charged, as far as the device can have worked it off: of several at once more than one device does."""
    served = _served(meters, now)
    return None if served is None else min(served / SECOND, 1.0)


def _memory_used(meters: Sequence[Meter], now: int) -> int:
    return sum(meter.counters.used_bytes for meter in meters)


_MEASURES: dict[str, Callable[[Sequence[Meter], int], Any]] = {
    "active": _active,
    "queued": _queued,
    "launch_rate": _rate(LAUNCHES),
    "block_rate": _rate(BLOCKS),
    "copy_rate": _rate(COPIED),
    "busy": _busy,
    "wait_p99": wait_p99,
    "delay_p99": delay_p99,
    "memory_used": _memory_used,
}


def _idle_since(meters: Sequence[Meter], now: int) -> int:
    """When the last work of them ended; 0: there was none. A hook may write nonsense: never later than now."""
    return max((min(meter.counters.idle_since_ns, now) for meter in meters), default=0)


def _idle_for(run: Run, key: tuple[str, str], meters: Sequence[Meter], now: int) -> float:
    if _active(meters, now):
        run.idle_since[key] = now
        return 0
    since = max(run.idle_since.get(key, 0), _idle_since(meters, now))
    if not since:
        return math.inf
    run.idle_since[key] = since
    return now - since


def wanted_histograms(state: State, signal: str = "wait_p99") -> set[tuple[ClientId, Slot]]:
    """Clients of which somebody wants to know that signal, which is made of a histogram."""
    slots = slots_reading(state, frozenset({signal}))
    if not slots:
        return set()
    wanted = _WAIT if signal in _WAITS else _DELAY
    return {
        (client.id, slot)
        for slot in slots
        for client in state.clients_on(slot)
        if _read_of(state, state.tenants[client.job], slot) & wanted
    }
