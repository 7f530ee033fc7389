"""The device lock at work: what clients say of it, and after each event who gets a device and who gives it back. Pure.

A tenant has a device with all its processes there. In each page the epoch stands before a grant is sent. Asked back, a
process shuts its gate itself, at once or when the turn that its program has taken is released; at the deadline the
epoch is gone from the page: so nothing that is said late, or not at all, keeps a gate open.
"""

from typing import Any

from attrs import evolve

from gpud.engine import hookless_memory, lock_queue, memory_swap
from gpud.engine.in_force import knobs_for
from gpud.engine.lock_late import end_late, ends_late_ns, late, overruns, who
from gpud.engine.lock_queue import Line, Request, Terms, Turn, has
from gpud.engine.lock_words import reachable, sort, terms_of, turns_on, wanted, words, working
from gpud.engine.memory_room import short
from gpud.engine.peers import publish_client
from gpud.engine.state import Client, State
from gpud.engine.ticking import hurry
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Slot
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND

ASK_AGAIN_NS = 1 * SECOND
"""Who could not leave is asked again then at the earliest."""
LATE_NS = 1 * SECOND
"""A client says itself that it waits no more; so much later it is believed to be past saying anything."""
STALE_NS = 10 * SECOND
"""After a restart a place in line is kept so long for who has not asked again."""
AHEAD_NS = 2 * SECOND
"""… and those behind it wait so long for it, from the first event on: else who comes back first would be first."""
LOOK_NS = 5 * MILLISECOND, 100 * MILLISECOND
"""Between two looks whether a holder is idle: at least, at most."""
MOST_REQUESTS = 64
"""Of one client at a time; a hook has fewer."""
TOGETHER_NS = 1 * MILLISECOND
"""A tick that comes so much too early looks, too."""
_LOOKS_ALIKE = (ev.WentActive, ev.WentIdle, ev.PluginSample, ev.DriverTold, ev.PeersMapped, ev.AllocAsked, ev.Swapped)
"""By these nothing of the lock changes."""

_Told = ev.LockAsked | ev.LockWithdrawn | ev.LockIsIn | ev.LockBack


def told(state: State, event: _Told, now: int) -> list[Effect]:
    """A client speaks of the lock. What follows comes with `settle`."""
    client = state.clients.get(event.client)
    if client is None or client.session is None:
        return []
    if client.hookless and not isinstance(event, ev.LockWithdrawn):
        hookless_memory.says(state, client, event, now)
    match event:
        case ev.LockAsked():
            return _ask(state, client, event, now)
        case ev.LockWithdrawn():
            keep = (client.id, event.request)
            lock_queue.drop(state.locks, lambda one: (one.client, one.number) != keep)
        case ev.LockIsIn():
            its = _its(state, client, event.slots, event.epoch)
            for line in its.values() if not event.short else ():
                assert line.turn is not None
                line.turn.in_ns = line.turn.in_ns or now
                line.took_ns[client.job] = min(event.took_ns, max(now - line.turn.since_ns, 0))
            memory_swap.is_in(state, evolve(event, slots=frozenset(its)), now)
            if client.hookless and state.moves.devices:
                return [do.SaveState()]  # that its memory is in
        case ev.LockBack():
            effects = _back(state, client, event, now)
            return effects if event.asks is None else effects + _ask(state, client, event.asks, now)
    return []


def _its(state: State, client: Client, slots: frozenset[Slot], epoch: int) -> dict[Slot, Line]:
    """Lines whose turn it has by that grant; a word about an older one means nothing."""
    lines = {slot: state.locks.lines[slot] for slot in sorted(slots & state.locks.lines.keys())}
    return {
        slot: one
        for slot, one in lines.items()
        if one.turn and one.turn.epoch == epoch and client.id in one.turn.clients
    }


def _ask(state: State, client: Client, event: ev.LockAsked, now: int) -> list[Effect]:
    if not event.slots or event.slots - client.slots():
        text = "it asks for the lock of a device that it does not have"
        return [do.SendLockRefused(client=client.id, request=event.request, text=text)]
    slots = frozenset(slot for slot in event.slots if turns_on(state, slot) is not None)
    if not slots:
        return []  # it sees in its page that there are no turns any more
    locks, before = state.locks, None
    for one in locks.requests:
        again = one.number == event.request or one.stale_until_ns is not None
        if one.client == client.id and again and (one.slots, one.explicit) == (slots, event.explicit):
            before = one
            break
    until = None if event.wait_ns is None else now + event.wait_ns
    if before is None and sum(one.client == client.id for one in locks.requests) >= MOST_REQUESTS:
        text = f"it has {MOST_REQUESTS} requests for devices already"
        return [do.SendLockRefused(client=client.id, request=event.request, text=text)]
    if before is not None:
        before.number, before.until_ns, before.stale_until_ns, before.ahead_until_ns = event.request, until, None, None
    else:
        locks.requests.append(
            Request(
                client=client.id,
                job=client.job,
                number=event.request,
                slots=slots,
                explicit=event.explicit,
                since_ns=now,
                until_ns=until,
            )
        )
    effects: list[Effect] = []
    for slot in sorted(slots):
        turn = locks.lines[slot].turn if slot in locks.lines else None
        if turn is not None and has(locks, client.job, slot) and client.id not in turn.clients:
            effects += _join(state, client, slot)  # a process of the holder: it may at once
    return effects


def _join(state: State, client: Client, slot: Slot) -> list[Effect]:
    """Lets a process of the holder in."""
    turn = state.locks.lines[slot].turn
    assert turn is not None
    turn.clients.add(client.id)
    return [do.SaveState(), *publish_client(state, client), _granted(state, client.id, slot, turn)]


def _granted(state: State, client: ClientId, slot: Slot, turn: Turn) -> do.SendLockGranted:
    until = min(turn.began_ns + terms_of(state, turn.job, slot).max_hold_ns, FOREVER_NS)
    count = memory_swap.level(state, client, slot, turn)
    return do.SendLockGranted(client=client, slots=frozenset({slot}), epoch=turn.epoch, until_ns=until, bytes=count)


def _back(state: State, client: Client, event: ev.LockBack, now: int) -> list[Effect]:
    effects: list[Effect] = []
    for slot, line in _its(state, client, event.slots, event.epoch).items():
        turn = line.turn
        assert turn is not None
        if event.never and not event.overrun:
            turn.revoked_ns, turn.deadline_ns, turn.overrun, turn.never = None, FOREVER_NS, False, True
            turn.retry_ns = now + max(terms_of(state, turn.job, slot).grace_ns, ASK_AGAIN_NS)
            state.tenants[turn.job].leaves.discard(slot)
            effects += _join(state, client, slot)
            text = (
                f"{who(state, turn)} cannot give device {slot} back now: a thread that waits for it has a stream "
                "capture open, which does not end by waiting; it goes on, and is asked again"
            )
            effects.append(do.Record(level="warning", text=text, job=turn.job, slot=slot))
        elif event.overrun:
            effects += overruns(state, slot, turn) if turn.revoked_ns is not None else []
            if turn.overrun and event.never and not turn.never:
                turn.never = True
                text = f"{who(state, turn)} keeps device {slot}: a stream capture is open in it; end that, or the job"
                effects.append(do.Record(level="warning", text=text, job=turn.job, slot=slot))
        else:
            was_late, turn.done = turn.overrun, turn.revoked_ns is None
            if lock_queue.leave(line, client.id, now) and was_late:
                text = f"{who(state, turn)} has given device {slot} back, late"
                effects.append(do.Record(level="info", text=text, kind="back", job=turn.job, slot=slot))
    return effects


def forget(state: State, client: Client, now: int) -> list[Effect]:
    """The client is gone, or cannot be talked to any more: whatever it still reads says that it has nothing."""
    state.heard.discard(client.id)
    locks, shut = state.locks, False
    lock_queue.drop(locks, lambda one: one.client != client.id)
    for line in locks.lines.values():
        shut = shut or (line.turn is not None and client.id in line.turn.clients)
        lock_queue.leave(line, client.id, now)
    if locks.lines:
        locks.due_ns = now  # a Tick, too, is followed by a look at who is next
    return publish_client(state, client) if shut else []


def settle(state: State, event: ev.Event, effects: list[Effect], now: int) -> list[Effect]:
    """After each event: gives devices to those who are next, asks for those whose turn is over, tells pages and
    clients."""
    told = [effect.client for effect in effects if isinstance(effect, do.SendSlots)]
    state.heard -= {effect.client for effect in effects if isinstance(effect, do.SendWelcome)}
    state.heard.update(told)
    locks = state.locks
    if not locks.lines and not any(one.arbiter and one.arbiter.turns for one in state.board.arbiters):
        return []
    early = locks.due_ns is None or now + TOGETHER_NS < locks.due_ns
    decided = any(isinstance(effect, do.KnobChanged) for effect in effects)
    if isinstance(event, (*_LOOKS_ALIKE, ev.Tick)) and early and not told and not decided:
        return []
    if state.stopped:
        locks.due_ns = None
        return []
    locks.said = {}
    try:
        return _settle(state, event, told, now)
    finally:
        locks.said = None


def _settle(state: State, event: ev.Event, told: list[ClientId], now: int) -> list[Effect]:
    locks = state.locks
    before = _picture(state)
    _sync(state, isinstance(event, ev.BoardChanged | ev.DevicesFound), now)
    fresh = isinstance(event, ev.Tick) and event.reading is not None
    _open(state, fresh, now)
    done = _greet(state, told)
    lock_queue.drop(locks, lambda one: now < min(_ends(one)) and one.slots <= state.clients[one.client].slots())
    for one in locks.requests:
        if one.stale_until_ns is not None and one.ahead_until_ns is None:
            one.ahead_until_ns = now + AHEAD_NS
    done += late(state, now)
    granted = lock_queue.advance(
        locks, lambda job, slot: terms_of(state, job, slot), lambda one: reachable(state, one), now
    )
    sent = [effect for grant in granted for effect in _enter(state, grant)]
    enter = {effect.client for effect in sent}
    revoked = _take_back(state, fresh, now) + end_late(state, now)
    sort(state, now)
    first, published = _publish(state, enter)
    published += _wake(state)
    saved: list[Effect] = []
    after = _picture(state)
    if after != before or isinstance(event, ev.LockAsked | ev.LockBack | ev.LockWithdrawn):
        saved.append(do.SaveState())
        for slot in locks.lines:
            hurry(state, slot, now)
    locks.due_ns = _due(state, fresh, now)
    if after[:-1] == before[:-1]:
        return [*done, *published, *saved]  # places alone may be on file a little later: who waits asks again
    # Who gets a device does not wait until others have read of it in their pages.
    return [*done, *saved, *first, *sent, *published, *revoked]


def _ends(request: Request) -> tuple[int, int]:
    until = FOREVER_NS if request.until_ns is None else request.until_ns + LATE_NS
    return until, FOREVER_NS if request.stale_until_ns is None else request.stale_until_ns


def _sync(state: State, anew: bool, now: int) -> None:
    """Devices with turns are those whose policy says so. `anew`: it may have said otherwise until now, and then who is
    there may have work under way."""
    locks = state.locks
    slots = [slot for slot in state.devices if turns_on(state, slot) is not None]
    order = tuple(sorted(slots, key=lambda slot: state.devices[slot].uuid))
    if order == locks.order and set(order) == locks.lines.keys():
        return

    def opens(slot: Slot) -> int:
        turns = turns_on(state, slot)
        busy = anew and any(client.id in state.heard for client in state.clients_on(slot))
        return now + turns.grace_ns if busy and turns is not None else 0

    lock_queue.set_devices(locks, order, opens)


def _open(state: State, fresh: bool, now: int) -> None:
    """Nobody is waited for any more where nobody works, by what was just read with the gates shut, or the grace is
    over."""
    for slot, line in state.locks.lines.items():
        if line.opens_ns and (now >= line.opens_ns or (fresh and not working(state, slot))):
            line.opens_ns = 0


def _greet(state: State, told: list[ClientId]) -> list[Effect]:
    """A client knows its slots now: it hears of what its tenant has, and of what is asked back from it."""
    effects: list[Effect] = []
    for client in [state.clients[number] for number in told if number in state.clients]:
        for slot in sorted(client.slots() & state.locks.lines.keys()):
            turn = state.locks.lines[slot].turn
            if turn is None or turn.job != client.job:
                continue
            if turn.revoked_ns is None:
                effects += _join(state, client, slot)
            elif client.id in turn.clients:
                effects.append(_revoked(client.id, slot, turn))
    return effects


def _revoked(client: ClientId, slot: Slot, turn: Turn) -> Effect:
    return do.SendLockRevoked(client=client, slots=frozenset({slot}), epoch=turn.epoch, deadline_ns=turn.deadline_ns)


def _enter(state: State, grant: lock_queue.Granted) -> list[do.SendLockGranted]:
    """All processes of the tenant on these devices get the epoch."""
    sent: list[do.SendLockGranted] = []
    for slot in sorted(grant.slots):
        turn = state.locks.lines[slot].turn
        assert turn is not None
        for client in state.clients_on(slot):
            if client.job == grant.job and client.session is not None and client.id in state.heard:
                turn.clients.add(client.id)
                sent.append(_granted(state, client.id, slot, turn))
    return sent


def _take_back(state: State, fresh: bool, now: int) -> list[Effect]:
    sent: list[Effect] = []
    for slot, line in state.locks.lines.items():
        turn = line.turn
        if turn is None or turn.revoked_ns is not None or not _wanted(state, slot):
            continue
        idle = _idle_since(state, slot, turn) if fresh else None
        paused = slot in state.runs and knobs_for(state, state.tenants[turn.job], slot).pause and now >= turn.retry_ns
        if paused or now >= lock_queue.ends_ns(turn, _said(state, slot, turn), idle):
            sent += end_turn(state, slot, now)
    return sent


def end_turn(state: State, slot: Slot, now: int) -> list[Effect]:
    """Who has a device is asked for it back, if it was not yet."""
    turn = state.locks.lines[slot].turn
    if turn is None or turn.revoked_ns is not None:
        return []
    lock_queue.revoke(turn, terms_of(state, turn.job, slot), now)
    return [_revoked(client, slot, turn) for client in sorted(turn.clients) if _hears(state, client)]


def _said(state: State, slot: Slot, turn: Turn) -> Terms:
    said = terms_of(state, turn.job, slot)
    return evolve(said, idle_release_ns=0) if turn.done else said


def _wanted(state: State, slot: Slot) -> bool:
    return wanted(state, slot)


def _hears(state: State, client: ClientId) -> bool:
    return client in state.clients and state.clients[client].session is not None and client in state.heard


def _idle_since(state: State, slot: Slot, turn: Turn) -> int | None:
    """By what was just read; None: one of its processes works there, has taken the turn itself, or is not seen."""
    if turn.in_ns is None and slot in state.moves.devices:
        return None  # it comes in
    since = 0
    for client in turn.clients:
        row = state.held.get((client, slot))
        if row is None or row.active or row.holds:
            return None
        since = max(since, row.idle_since_ns)
    return since


def _publish(state: State, enter: set[ClientId]) -> tuple[list[Effect], list[Effect]]:
    """To all whose pages say something else of the lock: to those who get a device, to others."""
    first: list[Effect] = []
    others: list[Effect] = []
    seen: set[ClientId] = set()
    for slot in state.locks.order:
        for client in state.clients_on(slot):
            said, now = client.words.get(slot), words(state, client, slot)
            if said is None or client.id in seen:
                continue
            if (said.grant_epoch, said.grant_until_ns, said.lock_flags, said.lock_place) != (
                now.epoch, now.until_ns, now.flags, now.place,
            ):  # fmt: skip
                seen.add(client.id)
                (first if client.id in enter else others).extend(publish_client(state, client))
    return first, others


def _wake(state: State) -> list[Effect]:
    """Whoever has a device when the first one comes to wait for it: it may be done with it, and asleep."""
    effects: list[Effect] = []
    for slot, line in state.locks.lines.items():
        turn = line.turn
        if turn is None or turn.revoked_ns is not None:
            continue
        if not _wanted(state, slot):
            turn.told.clear()
            continue
        for client in sorted(turn.clients - turn.told):
            if _hears(state, client):
                turn.told.add(client)
                effects.append(do.SendLockAgain(client=client, slots=frozenset({slot}), epoch=turn.epoch))
    return effects


def _picture(state: State) -> list[Any]:
    """What is on file of turns."""
    return [
        (
            slot,
            (turn := line.turn)
            and (turn.epoch, turn.revoked_ns, turn.overrun, turn.ended_ns, turn.killed, frozenset(turn.clients)),
        )
        for slot, line in state.locks.lines.items()
    ] + [len(state.locks.requests)]


def _due(state: State, fresh: bool, now: int) -> int | None:
    """When time alone changes something."""
    due = [end for one in state.locks.requests for end in _ends(one) if end < FOREVER_NS]
    due += [at for one in state.locks.requests if (at := one.ahead_until_ns) is not None and now < at]
    for slot, line in state.locks.lines.items():
        turn = line.turn
        if turn is None:
            if now < line.opens_ns:
                due.append(min(line.opens_ns, now + LOOK_NS[fresh]))
            continue
        if turn.revoked_ns is not None:
            due.append(ends_late_ns(state, slot, turn) if turn.overrun else turn.deadline_ns)
            continue
        if not _wanted(state, slot):
            continue
        said = _said(state, slot, turn)
        due.append(max(lock_queue.ends_ns(turn, said, None), now + 1))
        idle = _idle_since(state, slot, turn) if fresh else None
        if said.idle_release_ns < FOREVER_NS:
            look = min(max(said.idle_release_ns // 4, LOOK_NS[0]), LOOK_NS[1])
            first = max(turn.began_ns + max(said.min_hold_ns, said.idle_release_ns), now + (look if fresh else 1))
            due.append(first if idle is None else max(lock_queue.ends_ns(turn, said, idle), now + 1))
    for one in state.locks.requests:  # who has waited for `max_wait` is first
        if any(short(state, state.tenants[one.job], slot) for slot in one.slots):
            due.append(now + LOOK_NS[1])  # nobody tells when there is room
        for slot in one.slots:
            at = one.since_ns + terms_of(state, one.job, slot).max_wait_ns
            if now < at < FOREVER_NS:
                due.append(at)
    return min((at for at in due if at < FOREVER_NS), default=None)
