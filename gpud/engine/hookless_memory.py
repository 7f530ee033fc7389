"""Memory of clients without hook. They tell nothing of it: the driver says how much each holds. What has callbacks lets
all of it go when asked; what has none cannot leave. Pure.

A client that has let its memory go lacks so much as is then less on the device. What one lacks that has never had a
turn here nobody knows: whoever else has callbacks lets go for it.
"""

from collections.abc import Iterable, Mapping

from attrs import define, evolve

from gpud.engine.state import Client, State
from gpud.model.counters import Counters
from gpud.model.events import DriverTold, LockAsked, LockBack, LockIsIn, Process
from gpud.model.ids import ClientId, Slot
from gpud.model.knobs import UNLIMITED

Rows = Mapping[tuple[ClientId, Slot], Counters]
LEAST = 1 << 20
PIN = 8
"""Bit of Counters.pins, beyond those that hooks know."""
PIN_TEXT = "of a program without hook"


@define(kw_only=True)
class Apart:
    """What one client holds on one device."""

    used: int = 0
    """As the driver said last."""
    away: bool = False
    """It has let go what it could, and has not had a turn since."""
    asked: int = 0
    """What it held when it was asked last: before its callback let go of the first byte."""
    before: int = 0
    """What it held then …"""
    looks_ns: int | None = None
    """… and since when the driver has not been asked again; None: it has."""
    was_in: bool = False
    """It has had a turn."""
    left_ns: int = 0
    """When its last turn was over …"""
    seen_ns: int = 0
    """… and when the driver was asked last."""

    @property
    def sure(self) -> bool:
        """What the driver said is what it holds, unless it allocates beside its turns."""
        return self.seen_ns > self.left_ns

    @property
    def lacks(self) -> int:
        there = self.used if self.looks_ns is None else 0  # what left is not known yet: until it is, all of it
        return max(self.before - there, 0) if self.away else 0


def of(state: State, client: Client, slot: Slot) -> Apart:
    """Of one without hook, and of no other: it takes the place of what a page says."""
    assert client.hookless
    return state.apart.setdefault((client.id, slot), Apart())


def forget(state: State, client: ClientId, slot: Slot) -> None:
    state.apart.pop((client, slot), None)


def amended(state: State, rows: Rows) -> Rows:
    """What pages say, and what is known of those whose pages say nothing of memory."""
    if not state.apart:
        return rows
    found = dict(rows)
    for key, apart in state.apart.items():
        client, row = state.clients.get(key[0]), rows.get(key)
        if client is None or row is None:
            continue
        leaves = client.swaps and not apart.away
        found[key] = row._replace(
            used_bytes=apart.used,
            reserved_bytes=apart.used + apart.lacks,
            resident_bytes=resident(client, apart),
            pinned_bytes=0 if leaves else apart.used,
            host_bytes=apart.lacks,
            pins=1 << PIN,
        )
    return found


def resident(client: Client, apart: Apart) -> int:
    """What of it can leave. Who has had a turn has something there, whether the driver has told of it or not."""
    return max(apart.used, LEAST if apart.was_in else 0) if client.swaps and not apart.away else 0


def hear(state: State, event: DriverTold, slot: Slot, processes: Iterable[Process] | None) -> bool:
    """`processes`: what they hold there, by the driver; None: it does not tell. Whether anything is another now."""
    changed, told = False, None if processes is None else _held_by(state, processes)
    for client in state.clients_on(slot):
        if not client.hookless:
            continue
        apart = of(state, client, slot)
        # Where it does not tell, nobody waits for what it says.
        used = apart.used if told is None else told.get(client.id, 0)
        if apart.away and apart.looks_ns is None and used > apart.used and used >= apart.before:
            apart.away = False  # it has all of it again, and that was not heard
        if apart.looks_ns is not None and event.asked_ns >= apart.looks_ns:
            apart.looks_ns, changed = None, True
        changed = changed or used != apart.used or not apart.sure
        apart.used, apart.seen_ns = used, event.asked_ns
    return changed


def _held_by(state: State, processes: Iterable[Process]) -> Mapping[ClientId, int]:
    """Of each client without hook, with what processes below it hold that are no clients themselves: a framework may
    have its memory in one of these, and moves it by the same functions."""
    clients = {(client.who.pid, client.who.started): client for client in state.clients.values()}
    found: dict[ClientId, int] = {}
    for one in processes:
        above = ((one.pid, one.started), *one.ancestors)
        client = next((clients[each] for each in above if each in clients), None)
        if client is not None and client.hookless:
            found[client.id] = found.get(client.id, 0) + (one.used_bytes or 0)
    return found


def used_on(state: State, slot: Slot) -> int:
    """By all of them."""
    return sum(apart.used for (_, where), apart in state.apart.items() if where == slot)


def just_left(state: State, client: Client, slot: Slot) -> bool:
    """It has let go, and nobody knows yet what of it stays."""
    apart = state.apart.get((client.id, slot))
    return apart is not None and apart.looks_ns is not None


def is_asked(state: State, client: ClientId) -> bool:
    """On one of its devices it was asked, and has not answered."""
    return any(client in device.outs for device in state.moves.devices.values())


def asks(state: State, client: Client) -> None:
    """From now on the driver may tell of less: its callback takes its time."""
    if not is_asked(state, client.id):
        for slot in client.slots():
            apart = of(state, client, slot)
            apart.asked = apart.used


def went_out(state: State, client: Client, now: int, *, just: bool) -> None:
    """Its callback has run: nobody knows on which of its devices. Not `just`: its memory was out already, since it has
    never come in again, and it lacks what it lacked then."""
    for slot in client.slots():
        apart = of(state, client, slot)
        if not apart.away:
            apart.away, apart.looks_ns = True, now
            apart.before = max(apart.asked, apart.used, 0 if just else apart.before)


def came_in(state: State, client: Client, slot: Slot) -> None:
    """It has a turn, and brings its memory in during it: until the driver says otherwise it has all of it."""
    own = of(state, client, slot)
    own.was_in = True
    for where in client.slots():
        apart = of(state, client, where)
        if apart.away:
            state.apart[client.id, where] = evolve(apart, used=max(apart.used, apart.before), away=False, looks_ns=None)


def says(state: State, client: Client, event: LockAsked | LockIsIn | LockBack, now: int) -> None:
    """Its turn is over: before it is asked to let go the driver is, by whom it is known later what it lacks. Its memory
    may be out where it was thought to be in: that has failed, or another daemon has asked."""
    client.swaps = client.swaps or event.swaps
    for slot in event.slots & client.slots() if isinstance(event, LockBack) else ():
        of(state, client, slot).left_ns = now
    if event.out and not isinstance(event, LockIsIn):
        went_out(state, client, now, just=False)


def sure(state: State, client: ClientId, slot: Slot) -> bool:
    found = state.clients[client]
    return not found.hookless or of(state, found, slot).sure


def unseen(state: State, slot: Slot) -> bool:
    """Somebody has let go there, or may be asked to, and the driver has not been asked since."""
    return any(
        apart.looks_ns is not None or (state.clients[client].swaps and not apart.sure and not apart.away)
        for (client, where), apart in state.apart.items()
        if where == slot and client in state.clients
    )


def makes_room(state: State, client: Client, slot: Slot) -> bool:
    """It lets go for who has the turn, has not had one before, and says nothing of what it needs."""
    line = state.locks.lines.get(slot)
    turn = line.turn if line is not None else None
    if turn is None or turn.revoked_ns is not None or turn.job == client.job:
        return False
    comes = [state.clients[one] for one in turn.clients if one in state.clients]
    return client.hookless and any(one.hookless and not of(state, one, slot).was_in for one in comes)


def _waits_for(state: State, client: Client, slot: Slot, other: Client) -> bool:
    """Before `client` can come in, `other` has yet to let go, or to be measured."""
    if not other.hookless or other.job == client.job:
        return False
    apart, device = of(state, other, slot), state.moves.devices[slot]
    if apart.away:
        return False
    leaves = other.swaps and apart.was_in and other.session is not None and other.id in state.heard
    return not apart.sure or (leaves and other.id not in device.cannot and makes_room(state, other, slot))


def level(state: State, client: Client, slot: Slot, found: int, whole: int, kept: int) -> int:
    """What a grant says: one without hook comes in whole, or not yet. `found`: by the ledger, of `whole`; `kept`: what
    stays free beside it. Not while it lets go for an earlier turn: what it lacks is known only then."""
    if not client.hookless:
        return found
    if is_asked(state, client.id) and not _has_another(state, client, slot):
        return 0
    lacks = of(state, client, slot).lacks
    if any(_waits_for(state, client, slot, other) for other in state.clients_on(slot)):
        return 0
    return UNLIMITED if not lacks or (found >= whole and _has_room(state, slot, lacks + kept)) else 0


def _has_another(state: State, client: Client, slot: Slot) -> bool:
    """It may have a turn on another device; during that its callback does not run."""
    others = (line.turn for where, line in state.locks.lines.items() if where != slot)
    return any(client.id in turn.clients for turn in others if turn is not None)


def _has_room(state: State, slot: Slot, want: int) -> bool:
    """By the driver's word of after all that has left: it comes in by itself, and is not told where that fails."""
    device, turn = state.moves.devices[slot], state.locks.lines[slot].turn
    since = max(device.let_go_ns, turn.began_ns if turn is not None else 0)
    return device.free_ns > since and device.free >= want
