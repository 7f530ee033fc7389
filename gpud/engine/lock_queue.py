"""The device lock: who has each device, who is next, who gives it back. Pure, and without a policy's words: what these
say of a tenant comes as `Terms`.

A request is of one client for a set of devices, all or nothing. It reserves them one by one in UUID order, each once it
is free and the request is first there: nobody waits for a device while keeping one that comes later in that order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import Factory, define, frozen

from gpud.model.ids import ClientId, JobId, Slot, UnitName
from gpud.model.units import FOREVER_NS, SECOND

FAIR_OVER_NS = 600 * SECOND
"""`fair` looks at this much of the past …"""
STEP_NS = 1 * SECOND
"""… as exactly as this."""


@frozen(kw_only=True)
class Terms:
    """What the policy of a device says of one tenant."""

    rank: int
    """Smaller is higher."""
    unit: UnitName
    max_hold_ns: int
    min_hold_ns: int
    max_wait_ns: int
    grace_ns: int
    max_overrun_ns: int
    idle_release_ns: int
    fair: bool


@define(kw_only=True)
class Request:
    """A client waits for devices."""

    client: ClientId
    job: JobId
    number: int
    """The client's own."""
    slots: frozenset[Slot]
    explicit: bool
    """By gpud.acquire."""
    since_ns: int
    until_ns: int | None = None
    """Then it waits no more; None: for ever."""
    stale_until_ns: int | None = None
    """Of an earlier daemon, and not asked again since: it keeps its place until then, and gets nothing …"""
    ahead_until_ns: int | None = None
    """… and until then those behind it get nothing, either."""


@define(kw_only=True)
class Turn:
    """A tenant has a device, or has yet to leave it."""

    job: JobId
    unit: UnitName
    epoch: int
    since_ns: int
    clients: set[ClientId]
    """Those that have not given it back."""
    in_ns: int | None = None
    """Since when the first of them may launch."""
    moved_ns: int = 0
    """When memory was last seen to come in for it: as long as it does, the turn has not begun."""
    revoked_ns: int | None = None
    """When it was asked back."""
    deadline_ns: int = FOREVER_NS
    """It should have been back by then."""
    overrun: bool = False
    """It is not: no launch passes, and the next one waits."""
    ended_ns: int | None = None
    """When its job was told to end for that …"""
    killed: bool = False
    """… and that it was killed since."""
    never: bool = False
    """It was asked back and had a stream capture open. Where that waits for the device itself, it goes on …"""
    retry_ns: int = 0
    """… and is not asked again before."""
    done: bool = False
    """One of its processes has given it back by itself: the others do, too, once they are idle."""
    told: set[ClientId] = Factory(set)
    """Those that were woken because somebody else wants the device."""

    @property
    def began_ns(self) -> int:
        return max(self.since_ns, self.moved_ns) if self.in_ns is None else self.in_ns


@define(kw_only=True)
class Line:
    """One device with turns."""

    turn: Turn | None = None
    reserved: Request | None = None
    """Free, and kept for a request that waits for others, too."""
    opens_ns: int = 0
    """Nobody gets it before: work from before there were turns may run."""
    past: dict[UnitName, deque[tuple[int, int]]] = Factory(dict)
    """(from, how long) of turns that are over, oldest first; those that begin within `STEP_NS` are one."""
    noted_ns: int = 0
    """When the last of them ended."""
    took_ns: dict[JobId, int] = Factory(dict)
    """How long its memory took to come in last."""
    places: list[JobId] = Factory(list)
    """Tenants in line, as sorted last."""
    on_file: tuple[int, Any] | None = None
    """How the past was written last: what of, and what."""


@define(kw_only=True)
class Locks:
    """All devices with turns."""

    order: tuple[Slot, ...] = ()
    """Of UUIDs."""
    lines: dict[Slot, Line] = Factory(dict)
    requests: list[Request] = Factory(list)
    """In order of arrival."""
    last_epoch: int = 0
    due_ns: int | None = None
    """Time alone changes something then."""
    said: dict[tuple[JobId, Slot], Terms] | None = None
    """What policies say, while that cannot change: it is asked many times for one decision."""


@frozen(kw_only=True)
class Granted:
    """These devices are a tenant's from now on."""

    job: JobId
    slots: frozenset[Slot]
    epoch: int


TermsOf = Callable[[JobId, Slot], Terms]
May = Callable[[Request], bool]


def has(locks: Locks, job: JobId, slot: Slot) -> bool:
    """It has the device, and was not asked for it back."""
    turn = locks.lines[slot].turn if slot in locks.lines else None
    return turn is not None and turn.job == job and turn.revoked_ns is None


def missing(locks: Locks, request: Request) -> list[Slot]:
    """What it neither has nor has reserved, in UUID order."""
    return [
        slot
        for slot in locks.order
        if slot in request.slots and not has(locks, request.job, slot) and locks.lines[slot].reserved is not request
    ]


def used_ns(line: Line, unit: UnitName, now: int) -> int:
    """How long a unit has had the device in the last ten minutes."""
    begin = now - FAIR_OVER_NS
    total = sum(max(took - max(begin - start, 0), 0) for start, took in line.past.get(unit, ()))
    if line.turn is not None and line.turn.unit == unit:
        total += max(now - max(line.turn.began_ns, begin), 0)
    return total


def waiting_on(locks: Locks, slot: Slot) -> list[Request]:
    """All that wait for a device, in order of arrival."""
    return [one for one in locks.requests if slot in one.slots and not has(locks, one.job, slot)]


def in_line(locks: Locks, slot: Slot, terms: TermsOf, now: int) -> list[Request]:
    """All that wait for a device, the next one first: who has waited for `max_wait`, then by rank."""
    line = locks.lines[slot]
    found = []
    for index, request in enumerate(waiting_on(locks, slot)):
        said = terms(request.job, slot)
        if line.reserved is request:
            key = (0, 0, 0, index)
        elif now - request.since_ns >= said.max_wait_ns:
            key = (1, 0, 0, index)
        else:
            key = (2, said.rank, used_ns(line, said.unit, now) if said.fair else 0, index)
        found.append((key, request))
    return [request for _, request in sorted(found, key=lambda one: one[0])]


def advance(locks: Locks, terms: TermsOf, may: May, now: int) -> list[Granted]:
    """Gives free devices to those who are next. `may`: the client can be reached."""
    granted: list[Granted] = []
    while True:
        _let_go(locks, may)
        moved = False
        for slot in locks.order:
            line = locks.lines[slot]
            if line.turn is not None or line.reserved is not None or now < line.opens_ns:
                continue
            for request in in_line(locks, slot, terms, now):
                left = missing(locks, request)
                if left and left[0] == slot and is_ahead(request, now):
                    break
                if may(request) and left and left[0] == slot:
                    line.reserved = request
                    moved = True
                    break
        complete = [request for request in locks.requests if may(request) and not missing(locks, request)]
        for request in complete:
            slots = frozenset(slot for slot in request.slots if locks.lines[slot].reserved is request)
            if slots:
                granted.append(_grant(locks, request, slots, terms, now))
                moved = True
        locks.requests = [one for one in locks.requests if not all(has(locks, one.job, slot) for slot in one.slots)]
        if not moved:
            return granted


def is_ahead(request: Request, now: int) -> bool:
    """A free device is kept for it a moment, though it cannot be told of a grant yet: it is just coming back."""
    return request.stale_until_ns is not None and request.ahead_until_ns is not None and now < request.ahead_until_ns


def _let_go(locks: Locks, may: May) -> None:
    """Reservations are a prefix in UUID order, of requests that still wait: so there is never a circle."""
    for request in [line.reserved for line in locks.lines.values() if line.reserved is not None]:
        alive = any(one is request for one in locks.requests) and may(request)
        for slot in locks.order:
            line = locks.lines[slot]
            if line.reserved is request and not alive:
                line.reserved = None
            elif slot in request.slots and line.reserved is not request and not has(locks, request.job, slot):
                alive = False


def _grant(locks: Locks, request: Request, slots: frozenset[Slot], terms: TermsOf, now: int) -> Granted:
    locks.last_epoch = max(locks.last_epoch + 1, now)
    for slot in slots:
        line = locks.lines[slot]
        line.reserved = None
        line.turn = Turn(
            job=request.job,
            unit=terms(request.job, slot).unit,
            epoch=locks.last_epoch,
            since_ns=now,
            clients=set(),
        )
    return Granted(job=request.job, slots=slots, epoch=locks.last_epoch)


def wanted_by(locks: Locks, slot: Slot, may: May) -> list[Request]:
    """Those of other tenants that wait for this device and nothing before it."""
    turn = locks.lines[slot].turn
    found = []
    for request in locks.requests:
        left = missing(locks, request) if turn is None or request.job != turn.job else []
        if left and left[0] == slot and may(request):
            found.append(request)
    return found


COMING_NS = 3_000_000_000
"""A turn whose memory is not in yet is not asked back earlier for its length: that it lacks something is found after
half a second in which nothing comes, and mended within another."""


def ends_ns(turn: Turn, said: Terms, idle_since_ns: int | None) -> int:
    """When a turn is to be given back, if somebody waits. `idle_since_ns`: None while it works, or must not be asked
    back for idleness."""
    end = turn.began_ns + (said.max_hold_ns if turn.in_ns is not None else max(said.max_hold_ns, COMING_NS))
    if idle_since_ns is not None:
        end = min(end, max(idle_since_ns, turn.began_ns) + said.idle_release_ns)
    return max(end, turn.began_ns + said.min_hold_ns, turn.retry_ns)


def revoke(turn: Turn, said: Terms, now: int) -> None:
    turn.revoked_ns, turn.deadline_ns, turn.never = now, min(now + said.grace_ns, FOREVER_NS), False


def leave(line: Line, client: ClientId, now: int) -> bool:
    """A client has given the device back, or is gone. True: so the device is free now."""
    turn = line.turn
    if turn is None or client not in turn.clients:
        return False
    turn.clients.discard(client)
    if turn.clients:
        return False
    _note(line, turn, now)
    line.turn = None
    return True


def _note(line: Line, turn: Turn, now: int) -> None:
    """However short turns are, what is kept of them is short, too."""
    its, line.noted_ns = line.past.setdefault(turn.unit, deque()), now
    took = max(now - turn.began_ns, 0)
    if its and turn.began_ns < its[-1][0] + STEP_NS:
        start, before = its.pop()
        its.append((start, before + took))
    else:
        its.append((turn.began_ns, took))
    for unit, those in [*line.past.items()]:
        while those and sum(those[0]) <= now - FAIR_OVER_NS:
            those.popleft()
        if not those:
            del line.past[unit]


def starts_ns(locks: Locks, slot: Slot, job: JobId, terms: TermsOf, now: int) -> int | None:
    """When a tenant that waits will have the device if all before it use up their turns; None: nobody can say."""
    line, at = locks.lines[slot], now
    if line.turn is not None:
        if line.turn.revoked_ns is not None:
            if line.turn.overrun:
                return None
            at = max(line.turn.deadline_ns, now)
        else:
            at = max(ends_ns(line.turn, terms(line.turn.job, slot), None), now)
    for other in places(in_line(locks, slot, terms, now)):
        if other == job or at >= FOREVER_NS:
            break
        at += terms(other, slot).max_hold_ns
    return at if at < FOREVER_NS else None


def places(requests: Iterable[Request]) -> list[JobId]:
    """Tenants in line, each once, the next one first."""
    return list(dict.fromkeys(request.job for request in requests))


def drop(locks: Locks, keep: Callable[[Request], bool]) -> None:
    locks.requests = [request for request in locks.requests if keep(request)]


def set_devices(locks: Locks, order: Sequence[Slot], opens_ns: Callable[[Slot], int]) -> None:
    """These devices have turns, in UUID order. Those that had and have none any more are forgotten."""
    locks.lines = {slot: locks.lines.get(slot) or Line(opens_ns=opens_ns(slot)) for slot in order}
    locks.order = tuple(order)
    for request in locks.requests:
        request.slots = request.slots & locks.lines.keys()
    drop(locks, lambda request: bool(request.slots))
