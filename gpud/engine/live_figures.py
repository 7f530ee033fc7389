"""What a job's row says in numbers: sums over its processes, its part of devices, what moves, remarks. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpud.engine.held import TURN_HAS
from gpud.engine.in_force import knobs_for
from gpud.engine.in_words import Levels
from gpud.engine.live_lines import Lines
from gpud.engine.live_still import MOST_PROCESSES, ClassSum, Pair, Still
from gpud.engine.publish import GATE_PAUSED
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.live_views import ProcessRow, SwapRow

MOST = 2**64 - 1
"""A hook may write nonsense into its page: sums still fit into an answer."""
WHOLE = 1_000_000
Rows = Mapping[tuple[ClientId, Slot], Counters]


class Figures(NamedTuple):
    """Of all processes of a job on all their devices."""

    used: int = 0
    resident: int = 0
    host: int = 0
    pinned: int = 0
    reserved: int = 0
    spent_ns: int = 0
    launches: int = 0
    held: int = 0
    held_ns: int = 0
    active: bool = False
    turn: bool = False
    """By the page of one of them."""
    worst: Pair | None = None
    """With the thread that has been held longest now; None: none is."""


def figures(pairs: Sequence[Pair], rows: Rows, left: tuple[int, int, int, int]) -> Figures:
    """`left`: of processes that are gone: GPU time, launches, holds, time held."""
    used = resident = host = pins = reserved = 0
    spent, launches, held, held_ns = left
    active = turn = False
    worst, since = None, 0
    for pair in pairs:
        row = rows[pair.key]
        used += row.used_bytes
        resident += row.resident_bytes
        host += row.host_bytes
        if row.pinned_bytes or row.host_bytes or row.resident_bytes:
            pins += row.pinned_bytes
        reserved += row.reserved_bytes
        spent += row.spent_ns
        launches += row.entered
        held += row.held
        held_ns += row.held_ns
        active = active or row.active > 0
        turn = turn or row.turn == TURN_HAS
        if row.holding and row.hold_since_ns and (worst is None or row.hold_since_ns < since):
            worst, since = pair, row.hold_since_ns
    sums = (used, resident, host, pins, reserved, spent, launches, held, held_ns)
    if max(sums) > MOST:
        sums = tuple(min(one, MOST) for one in sums)  # type: ignore[assignment]
    return Figures(*sums, active, turn, worst)


def counts(pairs: Iterable[Pair], rows: Rows) -> tuple[tuple[ClassSum, bool, bool], ...]:
    """(class, active there, held there) of each that the job is in, once for each device."""
    found: dict[int, tuple[ClassSum, bool, bool]] = {}
    for pair in pairs:
        row = rows[pair.key]
        for one in pair.sums:
            _, active, held = found.get(id(one), (one, False, False))
            found[id(one)] = one, active or row.active > 0, held or row.holding > 0
    return tuple(found.values())


def processes(its: Still, rows: Rows, before: tuple[ProcessRow, ...]) -> tuple[ProcessRow, ...]:
    """With their memory. Those that are as they were are the same objects."""
    if len(before) == len(its.processes) == len(its.pairs) == 1:
        only, used_bytes = before[0], rows[its.pairs[0].key].used_bytes
        if only.used_bytes == used_bytes and only.pid == its.processes[0].pid:
            return before
    used: dict[int, int] = {}
    for pair in its.pairs:
        pid = pair.client.who.pid
        used[pid] = min(used.get(pid, 0) + rows[pair.key].used_bytes, MOST)
    known = {(row.pid, row.used_bytes): row for row in before}
    return tuple(
        known.get((row.pid, used.get(row.pid, 0)))
        or ProcessRow(pid=row.pid, command=row.command, devices=row.devices, used_bytes=used.get(row.pid, 0))
        for row in its.processes
    )


def time(
    state: State, tenant: Tenant, its: Still, levels: Levels, now: int
) -> tuple[float | None, float | None, float | None]:
    """(share, limit, busy) of a device, 0 … 1: of several the greatest, and the least limit."""
    share: int = 0
    limit: int | None = None
    seen: int | None = None
    for slot in its.devices:
        level = levels.get((tenant.id, slot))
        if level is None:
            continue
        share = max(share, level.share_ppm)
        if level.cap_ppm is not None:
            limit = level.cap_ppm if limit is None else min(limit, level.cap_ppm)
        if level.share_ppm or level.cap_ppm is not None:
            seen = max(seen or 0, level.busy_ppm)
    busy = _metered(state, its, now)
    if busy is None and seen is not None:
        busy = min(round(seen / WHOLE, 3), 1.0)
    return share / WHOLE if share else None, None if limit is None else limit / WHOLE, busy


def _metered(state: State, its: Still, now: int) -> float | None:
    """As policies see it; None: of one of its processes nobody knows."""
    sums: dict[Slot, float] = {}
    for pair in its.pairs:
        meter = state.meters.get(pair.key)
        part = meter.busy(now) if meter is not None else None
        if part is None:
            return None
        sums[pair.slot] = sums.get(pair.slot, 0.0) + part
    return min(round(max(sums.values()), 3), 1.0) if sums else None


def limit_bytes(state: State, tenant: Tenant, devices: Iterable[Slot]) -> int | None:
    """The least of its devices."""
    least: int | None = None
    for slot in devices:
        limit = knobs_for(state, tenant, slot).memory_limit if slot in state.runs else None
        if limit is not None and (least is None or limit < least):
            least = limit
    return least


def is_paused(its: Still) -> bool:
    """By its policies, on all of its devices."""
    for pair in its.pairs:
        words = pair.client.words.get(pair.slot)
        if words is None or not words.gate & GATE_PAUSED:
            return False
    return bool(its.pairs)


def swap(
    state: State, its: Still, rows: Rows, begun: dict[tuple[ClientId, Slot], tuple[str, int]], now: int, offset: int
) -> SwapRow | None:
    """The most of its memory that moves now, on one device. `begun`: what moved at the last look, and since when."""
    found: SwapRow | None = None
    for pair in its.pairs:
        row = rows[pair.key]
        device = state.moves.devices.get(pair.slot)
        if device is None or not row.swap_total_bytes:
            begun.pop(pair.key, None)
            continue
        direction = "out" if pair.client.id in device.outs else "in"
        before = begun.get(pair.key)
        if before is None or before[0] != direction:
            before = begun[pair.key] = direction, now
        if found is None or found.total_bytes < row.swap_total_bytes:
            found = SwapRow(
                device=pair.slot,
                direction=direction,
                done_bytes=min(row.swap_done_bytes, row.swap_total_bytes),
                total_bytes=row.swap_total_bytes,
                began_at_ns=before[1] + offset,
            )
    return found


def tags(state: State, tenant: Tenant, its: Still, lines: Lines, limit: int | None, found: Figures) -> tuple[str, ...]:
    """Remarks."""
    said = []
    for slot in its.devices if lines else ():
        line = lines.get(slot)
        if line is not None and line.overrun and line.holder == tenant.id:
            said.append("overrun")
            break
    if state.barred:
        said += [f"barred: {why.word}" for (job, _), why in state.barred.items() if job == tenant.id][:1]
    for client in its.clients:
        if client.stuck:
            said.append("stuck")
            break
    if limit is not None and found.reserved > limit:
        said.append("over its limit")
    if found.pinned and state.moves.devices:
        said.append("pinned memory")
    if any(client.hookless for client in its.clients):
        said.append("without hook")
    if len(its.clients) > MOST_PROCESSES:
        said.append(f"{len(its.clients)} processes")
    return tuple(said)


def word(clients: Sequence[Client], found: Figures, paused: bool) -> str:
    """Of its state."""
    if not (clients and clients[0].live) and not any(client.live for client in clients):
        return "starting"
    if paused:
        return "paused"
    if found.worst is not None:
        return "held"
    if found.active:
        return "active"
    return "swapped" if found.host and not found.resident else "idle"
