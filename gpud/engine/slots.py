"""Which slot each device of the node has: the driver names devices, and so do clients. Pure."""

from gpud.engine import runs, swap_board
from gpud.engine.state import Client, Device, State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import Slot

MAX_DEVICES = 8


def devices_found(state: State, event: ev.DevicesFound, now: int) -> list[Effect]:
    """The driver has named its devices: another order, or names, may be what `apply` lines mean."""
    changed = False
    for index, (uuid, name, total) in enumerate(event.devices):
        slot = slot_for(state, uuid, total)
        if slot is not None:
            device = state.devices[slot]
            changed = changed or (device.name, device.index) != (name, index)
            device.name, device.index, device.total_bytes = name, index, total
    if not changed:
        return []
    effects = [*runs.keep_up(state, now), do.DevicesChanged()]
    if any(state.runs[slot].stack != state.stack_for(device) for slot, device in state.devices.items()):
        effects += swap_board.swap(state, ev.BoardChanged(board=state.board, why="devices"), now)
    return effects


def slot_for(state: State, uuid: bytes, total_bytes: int) -> Slot | None:
    """A new one for a device that nobody has named yet; None: there is no room for it."""
    for device in state.devices.values():
        if device.uuid == uuid:
            return device.slot
    free = [Slot(number) for number in range(MAX_DEVICES) if Slot(number) not in state.devices]
    if not free:
        return None
    state.devices[free[0]] = Device(slot=free[0], uuid=uuid, total_bytes=total_bytes, index=free[0])
    return free[0]


def slot_named(state: State, client: Client, uuid: bytes, total_bytes: int) -> Slot | None:
    """The slot of a device as a client names it. One without hook may have no driver to ask: it says which number in
    the driver's order (a UUID of zeros, and the number in place of the size), or a UUID that CUDA_VISIBLE_DEVICES has;
    neither makes a device known."""
    if not client.hookless or (any(uuid) and total_bytes):
        return slot_for(state, uuid, total_bytes)
    for device in state.devices.values():
        if device.uuid == uuid if any(uuid) else device.index == total_bytes:
            return device.slot
    return None


def drop_unused(state: State) -> None:
    """A slot that only a client's word made is free once nobody uses it; those the driver named stay."""
    used = {slot for client in state.clients.values() for slot in client.slots()}
    for slot in [s for s, device in state.devices.items() if not device.name and s not in used]:
        del state.devices[slot]
