"""What is due by the clock, and when to look next. Pure. Without clients nothing ever is.

Policies that read signals tick every 5 ms while somebody on their device is active, every 50 ms otherwise, and early at
edges; those with dwell timers or hours when these end; others not at all.
"""

import math
from collections.abc import Iterable, Mapping

from attrs import frozen

from gpud.engine import division, edges, memory, runs, signals, stuck
from gpud.engine.division import EARLIEST_NS
from gpud.engine.in_force import knobs_of
from gpud.engine.meters import HISTOGRAM_STEP_NS
from gpud.engine.peers import publish_client, update_client
from gpud.engine.standing import forget, rises
from gpud.engine.state import Client, Run, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import Tick
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import Knobs
from gpud.model.units import MILLISECOND, SECOND, sooner
from gpud.policies.program import Now

LEASE_REFRESH_NS = 1 * SECOND
BUSY_NS = 5 * MILLISECOND
IDLE_NS = 50 * MILLISECOND
"""Between two ticks."""
PART_OF_CPU = 40
"""Where many clients make a tick dear, busy ones are so far apart that they take a fortieth of a core."""
LONGEST_NS = 10 * SECOND
"""Where a policy waits for an hour of the day: somebody may set the clock."""


@frozen(kw_only=True)
class Needs:
    """What the next Tick must bring of the world for policies."""

    histograms: frozenset[tuple[ClientId, Slot]]
    delays: frozenset[tuple[ClientId, Slot]]
    host: bool


def next_wakeup(state: State) -> int | None:
    """When the next Tick is due, monotonic nanoseconds; None: only an event can change anything."""
    due = [state.lease_due_ns, state.levels_due_ns, state.adopt_until_ns, state.tick_due_ns, state.rise_due_ns]
    due += [state.memory_due_ns, state.moves.due_ns, state.locks.due_ns, state.owners_due_ns]
    due += [state.clients[client].slots_due_ns for client in state.owed]
    due += [int(one.until_ns) for one in state.waiting if one.until_ns < math.inf]
    return min((at for at in due if at is not None), default=None)


def wants_reading(state: State, now: int) -> bool:
    """Must the next Tick bring one? For policies that are due; once a second, with the lease, to see who is stuck."""
    at = (state.tick_due_ns, state.lease_due_ns, state.memory_due_ns, state.moves.due_ns, state.locks.due_ns)
    due = [one for one in at if one is not None]
    return bool(due) and now >= min(due)


def needs(state: State, now: int) -> Needs:
    """For the policies that run now. Counters are always needed, histograms once in a while."""
    reads = {name for run in state.runs.values() for applied in run.stack for name in applied.reads}
    due = now - state.histograms_ns >= HISTOGRAM_STEP_NS
    return Needs(
        histograms=frozenset(signals.wanted_histograms(state) if due else ()),
        delays=frozenset(signals.wanted_histograms(state, "delay_p99") if due else ()),
        host="host.memory_free" in reads,
    )


def note_cost(state: State, spent_ns: int) -> None:
    """A tick that has read the world took so much CPU time."""
    state.tick_cost_ns += (max(spent_ns, 0) - state.tick_cost_ns) // 8


def needs_driver(state: State) -> bool:
    """Does anybody want to know now what only the driver knows?"""
    if state.asks or state.limited or (state.clients and state.moves.devices):
        return True
    if any(device.told is None and state.devices[slot].name for slot, device in state.moves.devices.items()):
        return True  # before somebody comes: so much less is there for everybody
    return bool(state.clients) and any(
        signals.wants_driver(applied.reads) for run in state.runs.values() for applied in run.stack
    )


def expired(state: State, now: int) -> list[Client]:
    """Clients of an earlier daemon that have not come back in time. Who has a turn is waited for as long as it lives:
    it may be stopped, and works on the device as soon as it goes on."""
    due = state.owners_due_ns if state.adopt_until_ns is None else state.adopt_until_ns
    if due is None or now < due:
        return []
    state.adopt_until_ns = state.owners_due_ns = None
    owners = {client for line in state.locks.lines.values() if line.turn for client in line.turn.clients}
    gone = []
    for client in state.clients.values():
        if client.session is not None:
            continue
        if client.id in owners and state.alive(client.who.pid, client.who.started):
            state.owners_due_ns = now + SECOND
        else:
            gone.append(client)
    return gone


def hurry(state: State, slot: Slot, now: int) -> None:
    """An edge, or somebody has come or gone: policies that look at such things do so now."""
    run = state.runs.get(slot)
    if run is not None and any(applied.watches for applied in run.stack) and state.clients:
        spacing = min(max(EARLIEST_NS, state.tick_cost_ns * PART_OF_CPU), IDLE_NS)
        soon = max(now, run.ticked_ns + spacing)
        run.busy_ns = now
        state.tick_due_ns = sooner(state.tick_due_ns, soon)


def tick(state: State, event: Tick, now: int) -> list[Effect]:
    """Lease, overdue answers, levels, ranks, and the policies."""
    effects = division.stepped(state, event, now)
    if state.lease_due_ns is not None and now >= state.lease_due_ns:
        state.lease_due_ns = now + LEASE_REFRESH_NS
        effects.append(do.RefreshLease(until_ns=now + state.lease_ns))
    for client in [state.clients[owed] for owed in sorted(state.owed)]:
        if client.slots_due_ns is not None and now >= client.slots_due_ns:
            effects += _overdue(state, client)
    if state.rise_due_ns is not None and now >= state.rise_due_ns:
        effects += _rise(state, now)
    if event.reading is not None:
        signals.take(state, event.reading, now)
        effects += memory.take(state, event.reading.counters, now)
        effects += stuck.judge(state, event.reading, now)
        effects += tick_policies(state, _occupied(state), now)
    return effects


def tick_policies(state: State, slots: Iterable[Slot], now: int) -> list[Effect]:
    """These devices' policies decide; what has changed is published. Plans the next tick."""
    effects: list[Effect] = []
    for slot in slots:
        run = state.runs[slot]
        before = [ran.knobs for ran in run.ran]
        held: dict[JobId, Knobs] = {}
        effects += runs.tick_device(state, slot, now, held)
        changed = [
            (applied, old, ran.knobs)
            for applied, old, ran in zip(run.stack, before, run.ran, strict=True)
            if old != ran.knobs
        ]
        if not all(runs.only_amounts(*one) for one in changed):
            effects += publish_device(state, slot, held)
        elif changed:
            state.amounts.add(slot)
    plan(state, now)
    return effects


def publish_device(state: State, slot: Slot, before: Mapping[JobId, Knobs]) -> list[Effect]:
    """What follows from other decisions there: for all whose knobs are others than before, their words; the tables,
    too, of those who look at others otherwise. How time is divided follows at the end of the event."""
    effects: list[Effect] = []
    state.dirty.add(slot)
    for client in list(state.clients_on(slot)):
        knobs, held = knobs_of(state, client, slot), before.get(client.job)
        if held is None or held.looks != knobs.looks:
            effects += update_client(state, client)
        elif held != knobs:
            effects += publish_client(state, client)
    return effects


def plan_rises(state: State) -> None:
    """When the next tenant gets a higher rank by `rise_after`."""
    state.rise_due_ns = min((at for at, _, _ in rises(state)), default=None)


def _rise(state: State, now: int) -> list[Effect]:
    effects: list[Effect] = []
    where: dict[Slot, None] = {}
    for at, tenant, slot in rises(state):
        if at <= now:
            forget(tenant, slot)
            tenant.risen.add(slot)
            where[slot] = None
            text = (
                f"job {tenant.id} ({tenant.name}) is one rank higher on device {slot} now, as long as it has been here"
            )
            effects.append(do.Record(level="info", text=text, job=tenant.id, slot=slot))
    for client in list(state.clients.values()):
        if client.slots() & where.keys():
            effects += update_client(state, client)
    plan_rises(state)
    return effects


def plan(state: State, now: int) -> None:
    """When policies must be looked at next."""
    due: int | None = None
    moment = Now(now, now + state.wall_offset_ns)
    busy = {slot for _, slot in state.active}
    busy_ns = min(max(BUSY_NS, state.tick_cost_ns * PART_OF_CPU), IDLE_NS)
    for slot in _occupied(state):
        run = state.runs[slot]
        if slot in busy:
            state.active_ns[slot] = now
        if slot in busy or not run.busy_ns:
            run.busy_ns = now
        run.resting = now - run.busy_ns >= signals.SETTLED_NS and _is_quiet(run)
        lately = slot in busy or edges.lately(state, slot, now)
        at = now + (busy_ns if lately else IDLE_NS) if _reads(run) and not run.resting else None
        if at is None or slot not in busy:
            change = _next_change(run, moment)
            if change is not None and change <= now + 1:  # something moves on all the time: no reason to look early
                change = None if at is not None else now + IDLE_NS
            if change is not None:
                change = min(max(change, now + EARLIEST_NS), now + LONGEST_NS)
                at = sooner(at, change)
        due = sooner(due, at)
    state.tick_due_ns = due


def _occupied(state: State) -> list[Slot]:
    """Devices that somebody is on, in order."""
    return [slot for slot in sorted(state.runs) if next(state.clients_on(slot), None) is not None]


def _is_quiet(run: Run) -> bool:
    """Does all that its policies read stay as it is while nobody is active?"""
    return all(applied.reads <= signals.QUIET for applied in run.stack)


def _reads(run: Run) -> bool:
    return any(applied.reads and not ran.failed for applied, ran in zip(run.stack, run.ran, strict=True))


def _next_change(run: Run, moment: Now) -> int | None:
    """When time alone may change what a policy of the device says."""
    due: int | None = None
    for applied, ran in zip(run.stack, run.ran, strict=True):
        if ran.failed:
            continue
        try:
            at = applied.program.next_change(ran.state, moment)
        except Exception:
            at = moment.mono_ns + IDLE_NS  # the tick itself will say what is wrong
        due = sooner(due, at)
    return due


def send_slots(state: State, client: Client) -> Effect:
    """It hears them now."""
    client.slots_due_ns = None
    state.owed.discard(client.id)
    return do.SendSlots(client=client.id, slots=client.devices)


def _overdue(state: State, client: Client) -> list[Effect]:
    late = [state.clients[reader] for reader in client.awaited if reader in state.clients]
    for reader in late:
        reader.slow = True
    client.awaited = {}
    names = ", ".join(f"{reader.id} (pid {reader.who.pid})" for reader in late)
    return [
        send_slots(state, client),
        do.Record(
            level="warning",
            text=f"client {client.id} goes on though these have not mapped its page: {names}",
            job=client.job,
        ),
    ]
