"""The rows of devices: the driver's last word, and gpud's own account. Pure."""

from collections.abc import Mapping

from gpud.engine.live_figures import MOST
from gpud.engine.live_jobs import Look
from gpud.engine.live_still import NAME, cut
from gpud.engine.standing import arbiter_on
from gpud.engine.state import State
from gpud.engine.unmanaged import mps_notes, of_device
from gpud.model.events import Seen
from gpud.model.ids import Slot, uuid_text
from gpud.model.live_views import DeviceRow
from gpud.model.units import SECOND

STALE_NS = 15 * SECOND
"""What the driver said longer ago is not shown: it is asked every few seconds while anybody looks or is attached."""


def rows(
    state: State, look: Look, busy_ns: Mapping[Slot, int], before: Mapping[str, DeviceRow]
) -> dict[str, DeviceRow]:
    """By UUID: those with a slot, then those that the driver knows beside them. Equal to the one before: the same
    object."""
    reserved: dict[Slot, int] = {}
    for (_, where), counters in look.sums.items():
        reserved[where] = reserved.get(where, 0) + counters.reserved_bytes
    found: dict[str, DeviceRow] = {}
    slots: dict[bytes, Slot | None] = {state.devices[slot].uuid: slot for slot in sorted(state.devices)}
    for uuid in (*slots, *(uuid for uuid in state.seen if uuid not in slots)):
        slot = slots.get(uuid)
        seen = state.seen.get(uuid)
        if seen is not None and look.now - seen.when_ns > STALE_NS:
            seen = None
        if slot is None and seen is None:
            continue
        row = _row(state, look, uuid, slot, seen, reserved, busy_ns)
        old = before.get(row.uuid)
        found[row.uuid] = old if old is not None and old == row else row
    return found


def _row(
    state: State,
    look: Look,
    uuid: bytes,
    slot: Slot | None,
    seen: Seen | None,
    reserved: Mapping[Slot, int],
    busy_ns: Mapping[Slot, int],
) -> DeviceRow:
    device = state.devices[slot] if slot is not None else None
    line = look.lines.get(slot) if slot is not None else None
    arbiter = arbiter_on(state, slot) if slot is not None else None
    until = line.ends_ns if line is not None else None
    return DeviceRow(
        slot=slot,
        uuid=uuid_text(uuid),
        name=cut(device.name, NAME) if device is not None else "",
        total_bytes=device.total_bytes if device is not None else seen.total_bytes if seen is not None else 0,
        used_bytes=seen.used_bytes if seen is not None else None,
        reserved_bytes=min(reserved.get(slot, 0), MOST) if slot is not None else 0,
        utilisation=seen.utilisation if seen is not None else None,
        power_w=seen.power_w if seen is not None else None,
        temperature_c=seen.temperature_c if seen is not None else None,
        holder=line.holder if line is not None else None,
        holder_until_at_ns=None if until is None else until + look.offset,
        waiters=len(line.places) if line is not None else 0,
        unmanaged=len(of_device(state, uuid)),
        busy_ns=busy_ns.get(slot, 0) if slot is not None else 0,
        arbiter=arbiter.arbiter.mode if arbiter is not None and arbiter.arbiter is not None else "open",
        policies=tuple(cut(applied.name, NAME) for applied in state.stack_on(slot)) if slot is not None else (),
        notes=mps_notes(state, slot, seen is not None and seen.mps),
    )
