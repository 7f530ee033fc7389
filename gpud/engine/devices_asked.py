"""Which devices a job of `gpud run` may see: those that --gpu names, or as many as --gpus says. Pure.

A name becomes the device's UUID: numbers of the driver's list and of CUDA's need not agree.
"""

from gpud.engine.admission import judge, members_of
from gpud.engine.state import Device, Resource, State, Tenant
from gpud.model.errors import Refused
from gpud.model.ids import Slot, uuid_text


def named(state: State, gpu: str) -> str:
    """What CUDA_VISIBLE_DEVICES must be for `--gpu`: `0`, `GPU-4f…`, several with commas. As given where the daemon
    knows no device, and for parts of devices (`MIG-…`), which it knows by no name. Raises Refused with the devices
    there are."""
    parts = [part.strip() for part in gpu.split(",") if part.strip()]
    if not state.devices or not parts or any(part.startswith("MIG-") for part in parts):
        return gpu
    return ",".join(uuid_text(_named(state, part).uuid) for part in parts)


def check_count(state: State, count: int) -> None:
    """For `--gpus`. Raises Refused when there are not so many."""
    if count > len(state.devices):
        has = {0: "no device yet", 1: "1 device"}.get(len(state.devices), f"{len(state.devices)} devices")
        raise Refused(f"this node has {has}, {count} were asked for (--gpus)")


def choose(state: State, tenant: Tenant, taken: list[Resource]) -> None:
    """Those that a job with --gpus gets if it comes in now: first those that would let it in, then those with
    the fewest jobs, then the lowest numbers."""
    if not tenant.gpus:
        return

    def cost(slot: Slot) -> tuple[bool, int, int]:
        tenant.gpu = uuid_text(state.devices[slot].uuid)
        return judge(state, tenant, taken) is not None, len(list(members_of(state, slot))), slot

    chosen = sorted(sorted(state.devices, key=cost)[: tenant.gpus])
    tenant.gpu = ",".join(uuid_text(state.devices[slot].uuid) for slot in chosen)


def _named(state: State, part: str) -> Device:
    found = [
        device
        for _, device in sorted(state.devices.items())
        if (part == str(device.index) if part.isdigit() else uuid_text(device.uuid).startswith(part))
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{device.index} ({uuid_text(device.uuid)})" for _, device in sorted(state.devices.items()))
    what = "no device" if not found else f"{len(found)} devices"
    raise Refused(f"--gpu {part!r} names {what}; there are {known}")
