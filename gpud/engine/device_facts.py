"""What policies are checked against: the devices there are, and what keeps turns from beginning on one. Pure."""

from gpud.engine.lock_words import turns_on
from gpud.engine.state import State
from gpud.model.ids import Slot, uuid_text
from gpud.policies.placement import DeviceFacts


def devices(state: State) -> tuple[DeviceFacts, ...]:
    return tuple(DeviceFacts(device.index, uuid_text(device.uuid)) for device in state.devices.values())


def devices_now(state: State) -> tuple[DeviceFacts, ...]:
    """For a change. Where there are turns already, nothing keeps them: who waits for one must not lose the policy, nor
    its operator every other change."""
    return tuple(
        DeviceFacts(device.index, uuid_text(device.uuid), mps=turns_on(state, slot) is None and _under_mps(state, slot))
        for slot, device in state.devices.items()
    )


def _under_mps(state: State, slot: Slot) -> bool:
    seen = state.seen.get(state.devices[slot].uuid)
    return seen is not None and seen.mps_clients
