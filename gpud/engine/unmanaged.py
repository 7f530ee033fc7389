"""Processes on a device that no hook of this daemon is in: found by the driver's list, shown, said once. Pure."""

from attrs import evolve

from gpud.engine.lock_words import turns_on
from gpud.engine.state import Client, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.events import DriverTold, Process
from gpud.model.ids import Slot, uuid_text
from gpud.model.text import TURNS_UNDER_MPS, UNDER_MPS
from gpud.model.units import SECOND

LOOK_S = 5.0
"""Between two looks while anybody is attached."""
SETTLED_NS = 3 * SECOND
"""A program that ran before the daemon attaches within a second or two: until then nothing is said of it."""
_REMEMBERED_NS = 600 * SECOND
"""How long after its end a client may still be in an answer of a slow driver."""


def hear(state: State, event: DriverTold, now: int) -> list[Effect]:
    """Takes what the driver told; a line for each process that is seen without a hook for the first time."""
    state.seen |= {uuid: evolve(seen, when_ns=now) for uuid, seen in event.devices.items()}
    state.left = [left for left in state.left if now - left[0] < _REMEMBERED_NS]
    just_left = {(pid, started) for when, pid, started in state.left if when >= event.asked_ns}
    effects: list[Effect] = []
    for uuid, seen in event.devices.items():
        if seen.processes is None:
            state.unmanaged.pop(uuid, None)
            continue
        found = _without_hook(state, seen.processes)
        state.unmanaged[uuid] = tuple(one for one in found if (one.pid, one.started) not in just_left)
        for process in state.unmanaged[uuid]:
            key = (process.pid, process.started)
            since = state.strange_since.setdefault(key, now)
            if now - since >= SETTLED_NS and key not in state.told_of:
                state.told_of.add(key)
                slot = next((slot for slot, device in state.devices.items() if device.uuid == uuid), None)
                effects.append(do.Record(level="warning", text=_sentence(state, uuid, process), slot=slot))
    here = {(one.pid, one.started) for found in state.unmanaged.values() for one in found}
    effects += _turns_under_mps(state)
    state.told_of &= here
    state.strange_since = {key: since for key, since in state.strange_since.items() if key in here}
    return effects


def _turns_under_mps(state: State) -> list[Effect]:
    """A line for each device that is found to have both, whichever came first."""
    uuids = {slot: device.uuid for slot, device in state.devices.items() if turns_on(state, slot) is not None}
    found = {slot for slot, uuid in uuids.items() if uuid in state.seen and state.seen[uuid].mps}
    new, state.told_mps = found - state.told_mps, found
    return [
        do.Record(level="warning", text=f"device {slot} is used through MPS: {TURNS_UNDER_MPS}", slot=slot)
        for slot in sorted(new)
    ]


def mps_notes(state: State, slot: Slot | None, mps: bool) -> tuple[str, ...]:
    """What cannot be promised of a device, which somebody uses through MPS, or nobody."""
    if not mps:
        return ()
    return (TURNS_UNDER_MPS, UNDER_MPS) if slot is not None and turns_on(state, slot) is not None else (UNDER_MPS,)


def left(state: State, client: Client, now: int) -> None:
    """It is no client any more; the driver may be about to name its process all the same."""
    state.left.append((now, client.who.pid, client.who.started))


def of_device(state: State, uuid: bytes) -> tuple[Process, ...]:
    """As the driver told last, without those that have attached since."""
    return _without_hook(state, state.unmanaged.get(uuid, ()))


def _without_hook(state: State, processes: tuple[Process, ...]) -> tuple[Process, ...]:
    clients = {(client.who.pid, client.who.started) for client in state.clients.values()}
    return tuple(one for one in processes if (one.pid, one.started) not in clients)


def _sentence(state: State, uuid: bytes, process: Process) -> str:
    slot = next((slot for slot, device in state.devices.items() if device.uuid == uuid), None)
    device = f"device {slot}" if slot is not None else f"device {uuid_text(uuid)}"
    return (
        f"process {process.pid} ({process.command or '?'}) of {process.user} is on {device} without gpud: no policy "
        "holds it, and no share counts it"
    )
