"""The one decision function: `react(state, event, now) -> list[Effect]`. No I/O, no clock; tested by lists of events.

Effects are in the order in which they must become visible. An event about a client that is gone is ignored: sessions
end while their last events are under way.
"""

from gpud.engine import (
    division,
    edges,
    evict,
    launches,
    lock,
    memory,
    pins,
    rulings,
    runs,
    standing,
    swap_board,
    ticking,
    unmanaged,
    waiting,
)
from gpud.engine import memory_swap as swaps
from gpud.engine.classify import UNCLASSIFIED, facts_of, place_everywhere, read_launch
from gpud.engine.peers import is_above, publish_client, update_client, update_readers
from gpud.engine.slots import devices_found, drop_unused, slot_named
from gpud.engine.standing import class_text, is_pinned
from gpud.engine.state import Client, State, Tenant
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model import refusals
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, Generation, JobId, Slot
from gpud.model.units import MILLISECOND

PEERS_DEADLINE_NS = 100 * MILLISECOND
"""A client hears its device slots this late at most, whoever has not mapped its page by then."""


def react(state: State, event: ev.Event, now: int) -> list[Effect]:
    """Changes `state` and says what is to be done. `now` is monotonic, in nanoseconds."""
    effects = runs.keep_up(state, now) + memory.fresh(state, event, now) + _react(state, event, now)
    if waiting.may_move(state, event, effects):
        effects += _let_in(state, now)
    # Who comes, goes or is sorted anew is on file; a rise itself plans the next one.
    if not isinstance(event, (*_FREQUENT, ev.Tick)) or any(isinstance(effect, do.SaveState) for effect in effects):
        ticking.plan_rises(state)
    effects += memory.settle(state, event, now)
    effects += lock.settle(state, event, effects, now)
    effects += swaps.settle(state, event, now)
    effects += division.settle(state, now)
    return effects if isinstance(event, _FREQUENT) else effects + edges.settle(state, now)


_FREQUENT = (ev.WentActive, ev.WentIdle, ev.PluginSample, ev.DriverTold, ev.PeersMapped)
"""Who looks at what does not change by these."""


def _react(state: State, event: ev.Event, now: int) -> list[Effect]:
    match event:
        case ev.Tick():
            expired = ticking.expired(state, now)
            effects = [effect for client in expired for effect in _forget(state, client, "did not come back", now)]
            return effects + waiting.expire(state, now) + ticking.tick(state, event, now)
        case ev.WentActive() | ev.WentIdle():
            return _edge(state, event, now)
        case ev.LaunchAsked():
            return _launch(state, event, now)
        case ev.AttachAsked():
            return _attach(state, event, now)
        case ev.Mapped():
            return _mapped(state, event, now)
        case ev.DevicesReported():
            return _devices(state, event, now)
        case ev.PeersMapped():
            return _peers_mapped(state, event)
        case ev.Detached():
            client = state.clients.get(event.client)
            return _forget(state, client, event.reason, now) if client and client.session == event.session else []
        case ev.SessionEnded():
            return _session_ended(state, event, now)
        case ev.PagesFailed():
            return _pages_failed(state, event, now)
        case ev.LauncherEnded():
            return _launcher_ended(state, event)
        case ev.DevicesFound():
            return devices_found(state, event, now)
        case ev.DriverTold():
            return unmanaged.hear(state, event, now) + memory.hear(state, event, now)
        case ev.AllocAsked() | ev.SlotsAsked() | ev.SlotsFailed() | ev.Swapped():
            return memory.asked(state, event, now)
        case ev.LockAsked() | ev.LockWithdrawn() | ev.LockIsIn() | ev.LockBack():
            return lock.told(state, event, now)
        case ev.PluginSample():
            key = (event.plugin, event.signal, event.target)
            state.samples[key] = (event.value, event.mono_ns + event.stale_after_ns)
            return []
        case ev.PluginsGone():
            state.samples = {key: sample for key, sample in state.samples.items() if key[0] != event.plugin}
            return []
        case ev.SetAsked() | ev.PauseAsked() | ev.ResumeAsked():
            return rulings.rule(state, event, now)
        case ev.EvictAsked():
            return evict.evict(state, event, now)
        case ev.BoardChanged():
            return swap_board.swap(state, event, now)
        case ev.DrainAsked():
            state.draining = True
            return [*waiting.send_away(state, _DRAINING), do.SaveState()]
        case ev.StopAsked():
            state.draining = state.stopped = True
            opened = [e for c in state.clients.values() for e in publish_client(state, c)]
            return [*opened, *waiting.send_away(state, _DRAINING), do.SaveState()]


def _launch(state: State, event: ev.LaunchAsked, now: int) -> list[Effect]:
    if state.draining:
        return [do.Refuse(session=event.session, code=refusals.DRAINING, text=_DRAINING)]
    try:
        tenant = launches.tenant_of(state, event, now)
    except Refused as refused:
        return [do.Refuse(session=event.session, code=refusals.POLICY, text=str(refused))]
    state.next_job += 1
    effects = waiting.enter(state, tenant, event, now) or _begin(state, tenant, event)
    return effects + launches.remarks(tenant, event)


def _begin(state: State, tenant: Tenant, event: ev.LaunchAsked) -> list[Effect]:
    """A job of `gpud run` is let in."""
    state.tenants[tenant.id] = tenant
    text = f"job {tenant.id} ({tenant.name}, {class_text(state, tenant)}) of {tenant.who.user} began"
    return [
        do.SaveState(),
        do.SendJob(session=event.session, job=tenant.id, environment=launches.environment(state, tenant)),
        do.Record(level="info", text=text, kind="admit", job=tenant.id),
    ]


def _let_in(state: State, now: int) -> list[Effect]:
    """Those in line that may come now."""
    effects: list[Effect] = []
    while True:
        one, refused = waiting.move(state)
        effects += refused
        if one is None:
            return effects
        if isinstance(one.event, ev.LaunchAsked):
            effects += _begin(state, one.tenant, one.event)
        else:
            if state.tenant_of(one.event.who) is None:
                state.tenants[one.tenant.id] = one.tenant
            effects += _attach(state, one.event, now)


def _attach(state: State, event: ev.AttachAsked, now: int) -> list[Effect]:
    if state.draining:
        return [do.Refuse(session=event.session, code=refusals.DRAINING, text=_DRAINING)]
    effects: list[Effect] = []
    again = event.again
    old = state.clients.get(event.client)
    if old is not None and old.generation == event.generation and _same(old.who, event.who):
        if old.session is not None:
            effects.append(do.DropPages(client=old.id))
        else:
            state.adopted += 1
        old.session, old.live, client = event.session, False, old
        if all(other.session is not None for other in state.clients.values()):
            state.adopt_until_ns = None
    else:
        if again and not _may_keep(state, event.generation):
            text = f"client {event.client} of this daemon is another process; start anew without the old pages"
            return [do.Refuse(session=event.session, code=refusals.IDENTITY, text=text)]
        if state.tenant_of(event.who) is None:
            tenant = _tenant_of_itself(state, event, now)
            stopped = waiting.enter(state, tenant, event, now) if event.waits else None
            if stopped is not None:
                return stopped
            state.tenants[tenant.id] = tenant
        client = _new_client(state, event, now, again)
    client.hookless = event.hookless
    tenant = state.tenants[client.job]
    effects += _see_program(state, tenant, event.who, now)
    state.lease_due_ns = state.lease_due_ns or now + ticking.LEASE_REFRESH_NS
    # The words of a client taken over are in its new page before it sees that page.
    pages = do.CreatePages(session=event.session, client=client.id, generation=client.generation, adopt=again)
    effects += [do.SaveState(), pages, *publish_client(state, client, anew=True)]
    effects += division.settle(state, now)
    effects.append(
        do.SendWelcome(
            session=event.session,
            client=client.id,
            generation=client.generation,
            job=client.job,
            adopt=again,
            known=tuple(client.peers.values()),
        )
    )
    verb = "came back" if again else "attached"
    text = f"client {client.id} (pid {client.who.pid}) of job {tenant.id} ({class_text(state, tenant)}) {verb}"
    effects.append(do.Record(level="info", text=text, kind="attach", job=tenant.id))
    if UNCLASSIFIED in class_text(state, tenant):
        text = f"no class takes job {tenant.id} ({tenant.name}): it runs below all classes"
        effects.append(do.Record(level="warning", text=text, job=tenant.id))
    return effects


def _see_program(state: State, tenant: Tenant, who: ev.Who, now: int) -> list[Effect]:
    """The first process of a `gpud run` is here: its program counts from now on, and no more what `gpud run` said."""
    if not tenant.launcher or tenant.exe_seen or not who.exe:
        return []
    said, tenant.exe, tenant.exe_seen = tenant.exe, who.exe, True
    if said == who.exe:
        return []
    before = class_text(state, tenant) or "no class"
    tenant.facts = facts_of(tenant.who, tenant.labels, tenant.exe)
    effects = pins.sort_anew(state, tenant, now)
    after = class_text(state, tenant) or "no class"
    if before == after:
        return effects
    text = f"job {tenant.id} runs {who.exe}, not {said} as gpud run said: {before} → {after}"
    return [*effects, do.Record(level="info", text=text, job=tenant.id)]


def _tenant_of_itself(state: State, event: ev.AttachAsked, now: int) -> Tenant:
    """Of a process that no `gpud run` has started."""
    asked = read_launch((), event.who.command)
    facts = facts_of(event.who, {}, "")
    return Tenant(
        id=_new_job(state),
        name=asked.name,
        command=asked.command,
        exe="",
        labels={},
        pin=None,
        who=event.who,
        facts=facts,
        placed=place_everywhere(state.board, facts, None),
        launcher=False,
        began_ns=now,
    )


def _new_client(state: State, event: ev.AttachAsked, now: int, again: bool) -> Client:
    tenant = state.tenant_of(event.who)
    assert tenant is not None
    if again:
        generation = event.generation
    else:
        state.last_generation += 1
        generation = Generation(state.last_generation)
    client = Client(
        id=ClientId(state.next_client),
        job=tenant.id,
        who=event.who,
        generation=generation,
        order=state.next_order,
        session=event.session,
        attached_ns=now,
    )
    state.next_client += 1
    state.next_order += 1
    state.clients[client.id] = client
    tenant.clients.add(client.id)
    if tenant.attached_ns is None:
        tenant.attached_ns = now
    return client


def _mapped(state: State, event: ev.Mapped, now: int) -> list[Effect]:
    client = state.clients.get(event.client)
    if client is None:
        return []
    client.live = True
    effects: list[Effect] = []
    if state.tenants[client.job].launcher and not client.announced:
        effects.append(do.SendAttached(job=client.job, pid=client.who.pid))
    client.announced = True
    effects += update_client(state, client)
    if client.peers and not any(isinstance(effect, do.SendPeers) for effect in effects):
        effects.append(_peers_again(client))  # a client taken over maps them anew
    for theirs in update_readers(state, client, client.slots()).values():
        effects += theirs
    if state.tick_due_ns is None:
        ticking.plan(state, now)  # of a client taken over, it is the first that is heard
    for slot in client.slots():
        division.hurry(state, slot, now)
        ticking.hurry(state, slot, now)
    return effects


def _devices(state: State, event: ev.DevicesReported, now: int) -> list[Effect]:
    client = state.clients.get(event.client)
    if client is None or client.session is None:
        return []
    before = client.slots()
    client.devices, known = (), set(state.devices)
    state.moved()
    deserted = known - {slot for other in state.clients.values() for slot in other.slots()}
    client.devices = tuple(slot_named(state, client, uuid, total) for uuid, total in event.devices)
    state.moved()
    effects: list[Effect] = [do.DevicesChanged()] if set(state.devices) - known else []
    effects += runs.keep_up(state, now)
    swaps.sync(state, now)
    for slot in before - client.slots():
        _forget_readings(state, client, slot)
    for slot in sorted(client.slots() & deserted):
        effects += runs.tick_device(state, slot, now)  # it has slept while nobody was there
    ticking.plan(state, now)
    state.dirty |= before
    for slot in sorted(before | client.slots()):
        ticking.hurry(state, slot, now)
    effects += update_client(state, client)
    client.awaited = {}
    for number, theirs in update_readers(state, client, before | client.slots()).items():
        reader = state.clients[number]
        effects += theirs
        sent = any(isinstance(effect, do.SendPeers) for effect in theirs)
        held = sent and client.id in reader.peers and is_above(state, reader, client)
        if held and not reader.slow and reader.live:
            client.awaited[reader.id] = reader.serial
    client.slots_due_ns = now + PEERS_DEADLINE_NS
    state.owed.add(client.id)
    if not client.awaited:
        effects.append(ticking.send_slots(state, client))
    drop_unused(state)
    effects += runs.keep_up(state, now)
    tenant = state.tenants[client.job]
    if tenant.pin is not None and client.slots() and not is_pinned(state, tenant):
        text = f"job {tenant.id} is pinned to {tenant.pin}, which no policy of its devices has: its labels decide"
        effects.append(do.Record(level="warning", text=text, job=tenant.id))
    return [*effects, do.SaveState()]


def _peers_mapped(state: State, event: ev.PeersMapped) -> list[Effect]:
    reader = state.clients.get(event.client)
    if reader is None:
        return []
    reader.mapped_serial = max(reader.mapped_serial, event.serial)
    reader.slow = False
    effects: list[Effect] = []
    if event.serial == reader.serial and event.mapped < len(reader.peers):
        text = (
            f"client {reader.id} mapped {event.mapped} of {len(reader.peers)} peers: it is held less than it should be"
        )
        effects.append(do.Record(level="warning", text=text, job=reader.job))
    return effects + _answered(state, reader)


def _answered(state: State, reader: Client) -> list[Effect]:
    """Tells their slots to those who waited only for this reader."""
    effects: list[Effect] = []
    for client in state.clients.values():
        if reader.id in client.awaited and reader.mapped_serial >= client.awaited[reader.id]:
            del client.awaited[reader.id]
            if not client.awaited and client.slots_due_ns is not None:
                effects.append(ticking.send_slots(state, client))
    return effects


def _edge(state: State, event: ev.WentActive | ev.WentIdle, now: int) -> list[Effect]:
    client = state.clients.get(event.client)
    if client is None or event.slot not in client.slots():
        return []
    if isinstance(event, ev.WentActive):  # its presence page is what holds; this is only when to look
        division.hurry(state, event.slot, now)
        state.active.add((client.id, event.slot))
    else:
        state.active.discard((client.id, event.slot))
    ticking.hurry(state, event.slot, now)
    return []


def _forget(state: State, client: Client, reason: str, now: int) -> list[Effect]:
    """The client is gone: nobody looks at it or waits for it any more."""
    slots, effects = client.slots(), lock.forget(state, client, now)
    swaps.forget(state, client.id)
    del state.clients[client.id]
    state.moved()
    state.owed.discard(client.id)
    state.dirty |= slots
    unmanaged.left(state, client, now)
    tenant = state.tenants[client.job]
    tenant.clients.discard(client.id)
    if not tenant.clients:
        tenant.attached_ns = None
        standing.forget(tenant)
    for theirs in update_readers(state, client, slots).values():
        effects += theirs
    client.mapped_serial = client.serial
    effects += _answered(state, client)
    effects.append(do.DropPages(client=client.id))
    for slot in slots:
        _forget_readings(state, client, slot)
        ticking.hurry(state, slot, now)
    _end_if_empty(state, tenant)
    drop_unused(state)
    effects += runs.keep_up(state, now)
    if not state.clients:
        state.lease_due_ns = state.levels_due_ns = state.adopt_until_ns = state.owners_due_ns = None
        state.tick_due_ns = state.memory_due_ns = None
    text = f"client {client.id} (pid {client.who.pid}) of job {tenant.id} detached: {reason}"
    return [*effects, do.SaveState(), do.Record(level="info", text=text, kind="detach", job=tenant.id)]


def _pages_failed(state: State, event: ev.PagesFailed, now: int) -> list[Effect]:
    client = state.clients.get(event.client)
    if client is None:
        return []
    effects = _forget(state, client, event.text, now)
    if client.session is None:
        return effects
    return [do.Refuse(session=client.session, code=event.code, text=event.text), *effects]


def _session_ended(state: State, event: ev.SessionEnded, now: int) -> list[Effect]:
    clients = [client for client in state.clients.values() if client.session == event.session]
    effects = [effect for client in clients for effect in _forget(state, client, event.reason, now)]
    waiting.leave(state, event.session)
    for tenant in [tenant for tenant in state.tenants.values() if tenant.session == event.session]:
        effects += _launcher_ended(state, ev.LauncherEnded(job=tenant.id))
    return effects


def _launcher_ended(state: State, event: ev.LauncherEnded) -> list[Effect]:
    tenant = state.tenants.get(event.job)
    if tenant is None:
        return []
    tenant.launcher_alive = False
    _end_if_empty(state, tenant)
    ended = do.Record(level="info", text=f"the launcher of job {tenant.id} ended", job=tenant.id)
    return [do.SaveState(), ended]


def _forget_readings(state: State, client: Client, slot: Slot) -> None:
    state.meters.pop((client.id, slot), None)
    state.active.discard((client.id, slot))
    memory.forget(state, client, slot)


def _peers_again(client: Client) -> Effect:
    client.serial += 1
    peers = tuple(sorted(client.peers.values(), key=lambda entry: entry.present))
    return do.SendPeers(client=client.id, serial=client.serial, peers=peers)


def _new_job(state: State) -> JobId:
    job = JobId(state.next_job)
    state.next_job += 1
    return job


def _end_if_empty(state: State, tenant: Tenant) -> None:
    if not tenant.clients and not tenant.launcher_alive:
        del state.tenants[tenant.id]


def _may_keep(state: State, generation: Generation) -> bool:
    """Of pages whose state file was lost: given out by some daemon (so not above what this one began with), and nobody
    else's."""
    taken = any(client.generation == generation for client in state.clients.values())
    return 0 < generation <= state.last_generation and not taken


def _same(one: ev.Who, other: ev.Who) -> bool:
    return (one.pid, one.started) == (other.pid, other.started)


_DRAINING = "the daemon is ending; try again when it is back"
