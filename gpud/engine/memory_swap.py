"""Memory leaves a device for who has the turn there, and only as much as that one lacks. Pure.

Nothing here remembers a step to be done: after each event it is worked out anew, from what clients' pages say, who must
let go how much. So whoever dies, refuses or is forgotten over a restart changes the sum, and no more.
"""

from collections.abc import Mapping

from gpud.engine import hookless_memory, lock_queue
from gpud.engine.in_force import knobs_of
from gpud.engine.lock_queue import Turn
from gpud.engine.lock_words import terms_of, turns_on
from gpud.engine.memory_room import can_be_asked, held, keep, lack, lack_of, levels, may_leave, room, row, why_short
from gpud.engine.state import Client, State
from gpud.memory.ledger import Ledger
from gpud.memory.moves import Cannot, Device, Out
from gpud.memory.tiers import UNIT, host_budget
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.knobs import UNLIMITED
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND
from gpud.policies.quantities import show_value
from gpud.policies.types import Type

GOES_ON, DONE, FAILED, BROKEN = range(4)
"""`code` of Swapped."""
LOOK_NS = 10 * MILLISECOND
"""Between two looks while something moves."""
AGAIN_NS = 2 * SECOND
BROKEN_NS = 60 * SECOND
"""Who could not let go is asked again then."""
SILENT_NS = 5 * SECOND
"""Who was asked, does not answer, and of whose memory nothing has left for so long (and a second for each GiB: its host
slots may have yet to be made), is not counted on any more."""
STALLED_NS = 300 * MILLISECOND
"""Who comes in and says that it finds no memory, although nobody has been leaving for so long: there is less than it
looks like."""
SHORT_NS = 1 * SECOND
"""For so long, what is short may yet come from somewhere; then the turn goes to another one. Less than AGAIN_NS."""
_NOTHING_NEW = (ev.WentActive, ev.WentIdle, ev.PluginSample, ev.PeersMapped)


def sync(state: State, now: int) -> None:
    """Devices whose memory is swapped are those whose policy says so. Before everything else of an event."""
    moves = state.moves
    slots = {slot for slot in state.devices if _swap_on(state, slot)}
    for slot in set(moves.devices) - slots:
        del moves.devices[slot]
    for slot in slots:
        turns, total = turns_on(state, slot), state.devices[slot].total_bytes
        assert turns is not None
        assert turns.swap is not None
        device = moves.devices.get(slot)
        if device is None:
            device = moves.devices[slot] = Device(ledger=Ledger(total=total))
            seen = state.seen.get(state.devices[slot].uuid)
            if seen is not None and not any(True for _ in state.clients_on(slot)):
                device.ledger.residue = device.told = max(seen.used_bytes - (seen.total_bytes - total), 0)
            learn(state, now)
        device.evict, device.keep = turns.swap.evict, turns.swap.keep
        device.ledger.total = total
    blocks = [applied.program.ir.swap for applied in state.board.applied]
    moves.host.budget = host_budget([block.settings["tiers"].value for block in blocks if block is not None])
    if not slots:
        moves.due_ns = None


def _swap_on(state: State, slot: Slot) -> bool:
    turns = turns_on(state, slot)
    return turns is not None and turns.swap is not None and not state.stopped


def learn(state: State, now: int) -> None:
    """What pages say, as read last."""
    _hear_slots(state)
    for slot, device in state.moves.devices.items():
        there = {client.id for client in state.clients_on(slot)}
        for client in there:
            found = held(row(state, client, slot), now, whole=state.clients[client].hookless)
            device.looks = device.looks if client in device.ledger.held else 0
            device.ledger.learn(client, found)
            out = device.outs.get(client)
            if out is not None and found.resident != out.resident:
                out.resident, out.moved_ns = found.resident, now
        for client in set(device.ledger.held) - there:
            device.gone(client)


def _hear_slots(state: State) -> None:
    """How much host memory clients have got. Who has no session gets none that was on its way to it."""
    host = state.moves.host
    for client in host.given:
        there = state.clients.get(client)
        if there is None or there.session is None:
            host.making.discard(client)
        elif there.slots() and client in state.heard:
            host.hear(client, max(row(state, client, slot).slots_bytes for slot in there.slots()))


def hear(state: State, event: ev.DriverTold) -> None:
    """What the driver says is in use, and is no client's."""
    for slot, device in state.moves.devices.items():
        seen = event.devices.get(state.devices[slot].uuid)
        if seen is None:
            continue
        device.free, device.free_ns = seen.total_bytes - seen.used_bytes, event.asked_ns
        if device.outs or device.ledger.coming:
            continue
        if any(client.session is None for client in state.clients_on(slot)):
            continue  # of an earlier daemon, and not back yet: what it has is not known
        before = hookless_memory.used_on(state, slot) + sum(
            found.resident_bytes + found.pinned_bytes
            for (client, where), found in event.held.items()
            if where == slot and (client, slot) not in state.apart
        )
        used = seen.used_bytes - (seen.total_bytes - device.ledger.total)
        found, looked = max(used - max(before, device.ledger.owned), 0), device.looked
        device.looked, device.looks = found, device.looks + 1
        # Of two looks the smaller counts: what came between the driver's and ours is a client's.
        device.told = device.ledger.residue = found if looked is None else min(found, looked)
        there = {(one.pid, one.started) for one in seen.processes or ()}
        device.seen = {client.id for client in state.clients_on(slot) if (client.who.pid, client.who.started) in there}


def swapped(state: State, event: ev.Swapped, now: int) -> list[Effect]:
    """A client has let go of what it was asked for, or not."""
    device = state.moves.devices.get(event.slot)
    out = device.outs.get(event.client) if device is not None else None
    if device is None or out is None or event.code == GOES_ON:
        return []
    if out.request != event.request:
        return []
    del device.outs[event.client]
    device.let_go_ns = now
    device.ledger.refused(event.client)  # what has left is in its page; what has not is where it was
    device.cannot.pop(event.client, None)
    client = state.clients[event.client]
    if event.code == DONE and client.hookless:
        hookless_memory.went_out(state, client, now, just=event.bytes > 0)
        _amend(state, now)
        return [do.SaveState()]
    if event.code == DONE and event.bytes >= min(out.bytes, 1):
        return []
    why = state.moves.refused.get(event.client, "")
    text = f"has no host slots for it: {why}" if why else "could not let go of its memory just now"
    if client.hookless:
        text = "could not let go of its memory: its on_swap_out failed, or it has none"
    if event.code == BROKEN:
        text = "has broken its CUDA context by a kernel's error, so that its memory cannot leave: end it"
    device.cannot[event.client] = Cannot(why=text, until_ns=now + (BROKEN_NS if event.code == BROKEN else AGAIN_NS))
    job = client.job
    text = f"client {event.client} of job {job} {text} (device {event.slot})"
    return [do.Record(level="warning", text=text, job=job, slot=event.slot)]


def slots_asked(state: State, event: ev.SlotsAsked) -> list[Effect]:
    """A client needs host slots. How much of host memory they take together is what policies say, on whichever
    device."""
    client = state.clients.get(event.client)
    if client is None or client.session is None:
        return []
    moves = state.moves
    moves.host.making.discard(client.id)  # it asks for one at a time: it knows of all that it has got
    count = -(-event.bytes // UNIT) * UNIT
    why = moves.host.refuses(count)
    if why:
        return _no_slots(state, client, event.slot, event.request, why)
    moves.host.give(client.id, count)
    moves.refused.pop(client.id, None)
    made = do.MakeHostSlots(client=client.id, slot=event.slot, request=event.request, bytes=count)
    return [do.SaveState(), made]


def slots_failed(state: State, event: ev.SlotsFailed) -> list[Effect]:
    """The kernel had no memory for them."""
    client = state.clients.get(event.client)
    if client is None:
        return []
    state.moves.host.take_back(client.id, event.bytes)
    return [do.SaveState(), *_no_slots(state, client, event.slot, event.request, event.text)]


def _no_slots(state: State, client: Client, slot: Slot, request: int, why: str) -> list[Effect]:
    said = state.moves.refused.get(client.id) == why
    state.moves.refused[client.id] = why
    text = f"client {client.id} of job {client.job} gets no host slots: {why}"
    records: list[Effect] = [] if said else [do.Record(level="warning", text=text, job=client.job, slot=slot)]
    return [*records, do.SendNoSlots(client=client.id, slot=slot, request=request)]


def forget(state: State, client: ClientId) -> None:
    """It is dead: the driver and the kernel have what it had."""
    for device in state.moves.devices.values():
        device.gone(client)
    state.moves.host.gone(client)
    state.moves.refused.pop(client, None)


def settle(state: State, event: ev.Event, now: int) -> list[Effect]:
    """After each event, and after turns have gone on: who must let go how much."""
    moves = state.moves
    if not moves.devices or isinstance(event, _NOTHING_NEW) or state.stopped:
        return []
    effects: list[Effect] = []
    moves.due_ns = None
    for slot, device in moves.devices.items():
        effects += _silent(state, slot, device, now)
        effects += _turn(state, slot, device, now)
        effects += _home(state, slot, device, now)
        if device.lacks or device.outs.keys() - device.cannot.keys():
            moves.due_ns = now + LOOK_NS
    return effects


def _amend(state: State, now: int) -> None:
    """What was read of one without hook is another now."""
    state.held = hookless_memory.amended(state, state.held)
    learn(state, now)


def is_in(state: State, event: ev.LockIsIn, now: int) -> None:
    """A client has come in, or could not, or not whole."""
    client = state.clients[event.client]
    for slot in event.slots & state.moves.devices.keys():
        if client.hookless and not event.short:
            hookless_memory.came_in(state, client, slot)
            _amend(state, now)
        device, found = state.moves.devices[slot], row(state, event.client, slot)
        _, said = device.levels.get(event.client, (0, 0))
        all_of_it = said >= found.resident_bytes + lack(state, event.client, slot)
        # Else it waits for the next level, as it should; one without hook looks for none itself.
        device.found_none = event.short and all_of_it and not client.hookless


def level(state: State, client: ClientId, slot: Slot, turn: Turn) -> int:
    """What a grant says to one who has the turn: how much of its memory may be on the device."""
    device = state.moves.devices.get(slot)
    if device is None:
        return UNLIMITED
    found = levels(state, slot, turn.job, [one for one in turn.clients if one in state.clients])[client]
    found = _said(state, client, slot, found)
    device.levels[client] = turn.epoch, found
    return found


def _said(state: State, client: ClientId, slot: Slot, found: int) -> int:
    whole = row(state, client, slot).resident_bytes + lack(state, client, slot)
    there = state.clients[client]
    return hookless_memory.level(state, there, slot, found, whole, keep(state, slot, there.job))


def _levels(state: State, slot: Slot, device: Device, turn: Turn, wants: Mapping[ClientId, int]) -> list[Effect]:
    """There is more room for who comes in, or less: the grant says so."""
    effects: list[Effect] = []
    for client, found in levels(state, slot, turn.job, wants).items():
        there, found = state.clients[client], _said(state, client, slot, found)
        lacks = lack(state, client, slot) or there.hookless
        if not lacks or device.levels.get(client) == (turn.epoch, found):
            continue
        if can_be_asked(state, there):
            device.levels[client] = turn.epoch, found
            until = min(turn.began_ns + terms_of(state, turn.job, slot).max_hold_ns, FOREVER_NS)
            slots = frozenset({slot})
            effects.append(
                do.SendLockGranted(
                    client=client, slots=slots, epoch=turn.epoch, until_ns=until, bytes=found, only_bytes=True
                )
            )
    return effects


def _silent(state: State, slot: Slot, device: Device, now: int) -> list[Effect]:
    """Nobody waits for who does not answer. If it does after all, that counts."""
    effects: list[Effect] = []
    for client, cannot in list(device.cannot.items()):
        if now >= cannot.until_ns:
            del device.cannot[client]
    for client, out in device.outs.items():
        if client not in device.cannot and now - out.moved_ns >= SILENT_NS + (out.bytes * SECOND >> 30):
            device.ledger.refused(client)
            device.cannot[client] = Cannot(why="does not answer", until_ns=FOREVER_NS)
            job = state.clients[client].job
            text = f"client {client} of job {job} was asked to let go of memory of device {slot} and does not answer"
            effects.append(do.Record(level="warning", text=text, job=job, slot=slot))
    return effects


def _turn(state: State, slot: Slot, device: Device, now: int) -> list[Effect]:
    """For who has the turn."""
    line = state.locks.lines.get(slot)
    turn = line.turn if line is not None else None
    comes = [] if turn is None or turn.revoked_ns is not None else sorted(turn.clients)
    ledger = device.ledger
    for client in list(ledger.coming):
        ledger.given_up(client)
    _newcomers(state, slot, device)
    wants = {client: lack(state, client, slot) for client in comes if client in state.clients}
    for one in state.asks:  # it has the device, and allocates
        if one.client in wants and one.slot == slot and one.answered_ns is None:
            wants[one.client] += one.bytes
    want = sum(wants.values())
    if want != device.lacks:
        device.lacks, device.lacks_ns = want, now
        if turn is not None:
            turn.moved_ns = now
    if turn is None or not want:
        device.short, device.short_ns, device.found_none = 0, 0, False
        whole = turn is not None and any(state.clients[client].hookless for client in wants)
        return _levels(state, slot, device, turn, wants) if turn is not None and whole else []
    if device.outs:
        device.busy_ns = now
    elif device.found_none and now - max(device.busy_ns, device.let_go_ns) >= STALLED_NS:  # else it may be heard late
        ledger.learn_short(want)
    device.found_none = False
    told = _levels(state, slot, device, turn, wants)
    victims = [client for client in may_leave(state, device, turn.job, slot) if client not in device.outs]
    victims = [client for client in victims if hookless_memory.sure(state, client, slot)]
    shared = max(int(min(state.moves.host.left, FOREVER_NS)), 0)
    places = {client: room(state, client) + shared for client in victims}
    kept = keep(state, slot, turn.job)
    plan = ledger.plan(ClientId(comes[0]), want, may_leave=victims, evict=device.evict, keep=kept, room=places)
    effects = told + [one for client, count in plan.leave for one in _ask(state, slot, device, client, count, now)]
    left = plan.now
    for client, count in wants.items():
        if state.clients[client].hookless:
            continue  # what it lacks is on its way once the driver has told that there is room
        ledger.grant(client, min(count, left))
        left -= min(count, left)
    waits = device.outs or hookless_memory.unseen(state, slot)
    return effects + _too_short(state, slot, device, 0 if waits else plan.short, now)


def _newcomers(state: State, slot: Slot, device: Device) -> None:
    """Who has come since the driver told has a context, too: like the smallest there."""
    known = [state.overhead.get((client.id, slot)) for client in state.clients_on(slot)]
    each = min((count for count in known if count), default=0)
    new = sum(client.id not in device.seen for client in state.clients_on(slot))
    device.ledger.residue = max(device.ledger.residue, (device.told or 0) + each * new)


def _ask(state: State, slot: Slot, device: Device, client: ClientId, count: int, now: int) -> list[Effect]:
    saved: list[Effect] = []
    if state.clients[client].hookless:
        hookless_memory.asks(state, state.clients[client])
        saved.append(do.SaveState())  # another daemon is to know what it held, whatever becomes of this one
    request = state.moves.number()
    device.ledger.ask(client, count)
    device.outs[client] = Out(
        request=request, bytes=count, resident=row(state, client, slot).resident_bytes, moved_ns=now
    )
    return [*saved, do.SwapOut(client=client, slot=slot, request=request, bytes=count)]


def _too_short(state: State, slot: Slot, device: Device, short: int, now: int) -> list[Effect]:
    """What it lacks cannot be had: the next one gets the device, and this one waits, with its memory where it is."""
    if not short or state.adopt_until_ns is not None:
        device.short = device.short_ns = 0
        return []
    device.short, device.short_ns = short, device.short_ns or now
    turn = state.locks.lines[slot].turn
    if turn is None or turn.in_ns is not None or now - device.short_ns < SHORT_NS:
        return []
    device.short = device.short_ns = 0
    lock_queue.revoke(turn, terms_of(state, turn.job, slot), now)
    tenant = state.tenants[turn.job]
    why = why_short(state, tenant, slot) or f"it lacks {lack_of(state, tenant, slot)} bytes that nobody gives"
    text = f"job {turn.job} ({tenant.name}) cannot come in on device {slot}: {why}; it waits in line again"
    told = [
        do.SendLockRevoked(client=client, slots=frozenset({slot}), epoch=turn.epoch, deadline_ns=turn.deadline_ns)
        for client in sorted(turn.clients)
        if client in state.clients and can_be_asked(state, state.clients[client])
    ]
    return [do.SaveState(), do.Record(level="warning", text=text, job=turn.job, slot=slot), *told]


def _home(state: State, slot: Slot, device: Device, now: int) -> list[Effect]:
    """Of who is evicted, or has `residency = host`, all leaves, whether somebody lacks it or not."""
    line = state.locks.lines.get(slot)
    turn = line.turn if line is not None else None
    effects: list[Effect] = []
    still: set[JobId] = set()
    for client in state.clients_on(slot):
        resident = row(state, client.id, slot).resident_bytes
        away = turn is None or client.id not in turn.clients
        unsure = not hookless_memory.sure(state, client.id, slot)
        busy = unsure or client.id in device.outs or client.id in device.cannot or not can_be_asked(state, client)
        room_for = hookless_memory.makes_room(state, client, slot)
        leaves = slot in state.tenants[client.job].leaves
        if leaves and (not away or (resident and (not busy or unsure or client.id in device.outs))):
            still.add(client.job)
        home = leaves or (slot in state.runs and knobs_of(state, client, slot).residency == "host")
        if resident and away and not busy and (home or room_for):
            effects += _ask(state, slot, device, client.id, resident, now)
    for tenant in state.tenants.values():
        if slot in tenant.leaves and tenant.id not in still:
            tenant.leaves.discard(slot)
            state.locks.due_ns = now  # it may come in again
    return effects


def moving(state: State, client: ClientId, slot: Slot) -> str:
    """What becomes of a client's memory, a clause; "": nothing."""
    device = state.moves.devices.get(slot)
    if device is None:
        return ""
    cannot, out = device.cannot.get(client), device.outs.get(client)
    if cannot is not None:
        return f"it was asked to make room, and {cannot.why}"
    return f"{show_value(out.bytes, Type.BYTES)} of it leave the device" if out is not None else ""
