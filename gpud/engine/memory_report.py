"""Device memory of a job, as commands show it. Pure."""

from collections.abc import Iterable, Sequence

from gpud.engine import hookless_memory, memory_line, memory_swap
from gpud.engine.in_force import knobs_for
from gpud.engine.memory_limits import limit_for
from gpud.engine.memory_words import overhead, overhead_known
from gpud.engine.state import Client, State, Tenant
from gpud.model.counters import Counters
from gpud.model.ids import Slot
from gpud.model.views import MemoryView

_MOST = 2**64 - 1
PINS = {
    0: "allocated where nothing could leave",
    1: "allocated during a stream capture",
    2: "arrays",
    3: "managed memory",
    4: "its own mappings",
    5: "memory pools of its own",
    6: "graphs",
    7: "given to others by a handle",
}
"""Why memory cannot leave the device: GPUD_PIN_* of gpud_page.h; a test compares them."""

_PINS = PINS | {hookless_memory.PIN: hookless_memory.PIN_TEXT}


def views(state: State, tenant: Tenant, rows: Sequence[tuple[Client, Slot, Counters]]) -> tuple[MemoryView, ...]:
    """One for each of its devices."""
    return tuple(
        _view(state, tenant, slot, [row for _, where, row in rows if where == slot])
        for slot in sorted({slot for _, slot, _ in rows})
    )


def _view(state: State, tenant: Tenant, slot: Slot, rows: Sequence[Counters]) -> MemoryView:
    limit = knobs_for(state, tenant, slot).memory_limit if slot in state.runs else None
    reserved, beside = _sum(row.reserved_bytes for row in rows), overhead(state, tenant, slot)
    asks = [one for one in memory_line.waiting(state, tenant) if one.slot == slot]
    leaves = slot in state.moves.devices or any(row.resident_bytes or row.host_bytes or row.lazy_bytes for row in rows)
    stay = rows if leaves else ()
    return MemoryView(
        device=slot,
        used=_sum(row.used_bytes for row in rows),
        reserved=reserved,
        limit=limit,
        overhead=beside if overhead_known(state, tenant, slot) else None,
        resident=_sum(row.resident_bytes for row in rows),
        host=_sum(row.host_bytes for row in rows),
        lazy=_sum(row.lazy_bytes for row in rows),
        pinned=_sum(row.pinned_bytes for row in stay),
        pinned_why=tuple(text for bit, text in _PINS.items() if any(row.pins & 1 << bit for row in stay)),
        unpinned=_sum(row.unpinned_bytes for row in rows),
        lost=_sum(row.lost_bytes for row in rows),
        over=limit is not None and reserved + beside > limit,
        place=limit_for(state.stack_on(slot), tenant).place if limit is not None else "",
        moving="; ".join(filter(None, (memory_swap.moving(state, client, slot) for client in sorted(tenant.clients)))),
        waiting=len(asks),
        waiting_bytes=_sum(one.bytes for one in asks),
    )


def _sum(counts: Iterable[int]) -> int:
    """A hook may write nonsense into its page: the sum still fits into an answer."""
    return min(sum(counts), _MOST)
