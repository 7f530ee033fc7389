"""What is due by the clock, and when to look next. Pure. Without clients nothing ever is.

Policies that read signals tick every 5 ms while somebody on their device is active, every 50 ms otherwise, and early at
edges; those with dwell timers or hours when these end; others not at all.
"""

from collections.abc import Iterable

from attrs import evolve, frozen

from gpud.engine import runs, signals
from gpud.engine.peers import by_rank, update_client
from gpud.engine.state import Client, Run, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import Tick
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import DeviceWords
from gpud.model.units import MILLISECOND, SECOND
from gpud.policies.program import Now

LEASE_REFRESH_NS = 1 * SECOND
LOOK_NS = 5 * MILLISECOND
"""How often presence beyond the peer tables is looked at while somebody there is active."""
BUSY_NS = 5 * MILLISECOND
IDLE_NS = 50 * MILLISECOND
"""Between two ticks."""
EARLIEST_NS = 2_500_000
"""After the tick before, however many edges arrive."""
LONGEST_NS = 10 * SECOND
"""Where a policy waits for an hour of the day: somebody may set the clock."""


@frozen(kw_only=True)
class Needs:
    """What the next Tick must bring of the world for policies."""

    histograms: frozenset[tuple[ClientId, Slot]]
    host: bool


def next_wakeup(state: State) -> int | None:
    """When the next Tick is due, monotonic nanoseconds; None: only an event can change anything."""
    due = [state.lease_due_ns, state.look_due_ns, state.adopt_until_ns, state.tick_due_ns]
    due += [client.slots_due_ns for client in state.clients.values()]
    return min((at for at in due if at is not None), default=None)


def needs(state: State) -> Needs:
    """For the policies that run now. Counters are always needed."""
    reads = {name for run in state.runs.values() for applied in run.stack for name in applied.reads}
    return Needs(histograms=frozenset(signals.wanted_histograms(state)), host="host.memory_free" in reads)


def needs_memory(state: State) -> bool:
    """Does anybody want to know now how full the devices are?"""
    return bool(state.clients) and any(
        "gpu.memory_free" in applied.reads for run in state.runs.values() for applied in run.stack
    )


def wanted(state: State) -> set[tuple[ClientId, Slot]]:
    """The presence that the next Tick must bring."""
    if state.look_due_ns is None:
        return set()
    return {(p, slot) for client in state.clients.values() for slot, peers in client.beyond.items() for p in peers}


def expired(state: State, now: int) -> list[Client]:
    """Clients of an earlier daemon that have not come back in time."""
    if state.adopt_until_ns is None or now < state.adopt_until_ns:
        return []
    state.adopt_until_ns = None
    return [client for client in state.clients.values() if client.session is None]


def look_now(state: State, active: Client, slot: Slot, now: int) -> None:
    """Somebody went active, or came back and may be: if anybody has it beyond the table, look at once."""
    if any(active.id in client.beyond.get(slot, ()) for client in state.clients.values()):
        state.look_due_ns = now


def hurry(state: State, slot: Slot, now: int) -> None:
    """An edge, or somebody has come or gone: policies that look at such things do so now."""
    run = state.runs.get(slot)
    if run is not None and any(applied.watches for applied in run.stack) and state.clients:
        soon = max(now, run.ticked_ns + EARLIEST_NS)
        state.tick_due_ns = soon if state.tick_due_ns is None else min(state.tick_due_ns, soon)


def tick(state: State, event: Tick, now: int) -> list[Effect]:
    """Lease, overdue answers, the word for peers beyond the tables, and the policies."""
    effects: list[Effect] = []
    if state.lease_due_ns is not None and now >= state.lease_due_ns:
        state.lease_due_ns = now + LEASE_REFRESH_NS
        effects.append(do.RefreshLease(until_ns=now + state.lease_ns))
    for client in state.clients.values():
        if client.slots_due_ns is not None and now >= client.slots_due_ns:
            effects += _overdue(state, client)
    if state.look_due_ns is not None and now >= state.look_due_ns:
        effects += _look(state, event, now)
    if event.reading is not None:
        signals.take(state, event.reading, now)
        effects += tick_policies(state, _occupied(state), now)
    return effects


def tick_policies(state: State, slots: Iterable[Slot], now: int) -> list[Effect]:
    """These devices' policies decide; what has changed is published. Plans the next tick."""
    effects: list[Effect] = []
    for slot in slots:
        before = [ran.knobs for ran in state.runs[slot].ran]
        effects += runs.tick_device(state, slot, now)
        if any(old != ran.knobs for old, ran in zip(before, state.runs[slot].ran, strict=True)):
            effects += publish_device(state, slot)
    plan(state, now)
    return effects


def publish_device(state: State, slot: Slot) -> list[Effect]:
    """The words of everybody there; the tables, too, since `yield` says who looks at anybody at all."""
    ranked = by_rank(state)
    return [effect for client in list(state.clients_on(slot)) for effect in update_client(state, client, ranked)]


def plan(state: State, now: int) -> None:
    """When policies must be looked at next."""
    due: int | None = None
    moment = Now(now, now + state.wall_offset_ns)
    busy = {slot for _, slot in state.active}
    for slot in _occupied(state):
        run = state.runs[slot]
        at = now + (BUSY_NS if slot in busy else IDLE_NS) if _reads(run) else None
        if at is None or slot not in busy:
            change = _next_change(run, moment)
            if change is not None and change <= now + 1:  # something moves on all the time: no reason to look early
                change = None if at is not None else now + IDLE_NS
            if change is not None:
                change = min(max(change, now + EARLIEST_NS), now + LONGEST_NS)
                at = change if at is None else min(at, change)
        if at is not None:
            due = at if due is None else min(due, at)
    state.tick_due_ns = due


def _occupied(state: State) -> list[Slot]:
    """Devices that somebody is on, in order."""
    return sorted(frozenset().union(*(client.slots() for client in state.clients.values())))


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
        if at is not None:
            due = at if due is None else min(due, at)
    return due


def _overdue(state: State, client: Client) -> list[Effect]:
    late = [state.clients[reader] for reader in client.awaited if reader in state.clients]
    for reader in late:
        reader.slow = True
    client.awaited, client.slots_due_ns = {}, None
    names = ", ".join(f"{reader.id} (pid {reader.who.pid})" for reader in late)
    return [
        do.SendSlots(client=client.id, slots=client.devices),
        do.Record(level="warning", text=f"client {client.id} goes on though these have not mapped its page: {names}"),
    ]


def _look(state: State, event: Tick, now: int) -> list[Effect]:
    effects: list[Effect] = []
    again = False
    for client in state.clients.values():
        for slot, words in list(client.words.items()):
            beyond = client.beyond.get(slot, frozenset())
            active = any(_is_active(event, peer, slot, now, words.resume_after_ns) for peer in beyond)
            again = again or active
            if active != words.others_active:
                client.words[slot] = _with_others(words, active)
                if client.session is not None:
                    effects.append(do.PublishOthers(client=client.id, slot=slot, active=active))
    state.look_due_ns = now + LOOK_NS if again else None
    return effects


def _is_active(event: Tick, peer: ClientId, slot: Slot, now: int, resume_after_ns: int) -> bool:
    presence = event.presence.get((peer, slot))
    return presence is not None and (presence.active or now - presence.idle_since_ns < resume_after_ns)


def _with_others(words: DeviceWords, active: bool) -> DeviceWords:
    return evolve(words, others_active=active)
