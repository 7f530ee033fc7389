"""What there is: the union of the driver's list and of what clients report. Pure."""

from collections.abc import Iterable, Mapping

from gpud.devices.nvml import Usage, uuid_text
from gpud.engine import lock_report, report
from gpud.engine.state import State
from gpud.engine.unmanaged import mps_notes
from gpud.model.events import DevicesFound
from gpud.model.ids import Slot
from gpud.model.text import UNDER_MPS
from gpud.model.views import DeviceView


def found(usage: Iterable[Usage]) -> DevicesFound:
    """For the engine."""
    return DevicesFound(devices=tuple((device.uuid, device.name, device.total_bytes) for device in usage))


def views(state: State, usage: Mapping[bytes, Usage]) -> tuple[DeviceView, ...]:
    """Managed devices by slot, then those without one. The engine has heard what the driver says here."""
    shown = [_managed(state, slot, usage) for slot in sorted(state.devices)]
    known = {device.uuid for device in state.devices.values()}
    return tuple(shown) + tuple(_unmanaged(state, one) for one in usage.values() if one.uuid not in known)


def _managed(state: State, slot: Slot, usage: Mapping[bytes, Usage]) -> DeviceView:
    device = state.devices[slot]
    now = usage.get(device.uuid)
    return DeviceView(
        slot=slot,
        uuid=uuid_text(device.uuid),
        name=device.name or (now.name if now else ""),
        total_bytes=device.total_bytes,
        used_bytes=now.used_bytes if now else None,
        utilisation=now.utilisation if now else None,
        jobs=tuple(sorted({client.job for client in state.clients_on(slot)})),
        unmanaged=report.unmanaged_on(state, device.uuid),
        power_w=now.power_w if now else None,
        temperature_c=now.temperature_c if now else None,
        holder=lock_report.holder(state, slot),
        waiters=lock_report.waiters(state, slot),
        notes=mps_notes(state, slot, now is not None and now.mps),
    )


def _unmanaged(state: State, usage: Usage) -> DeviceView:
    return DeviceView(
        slot=None,
        uuid=uuid_text(usage.uuid),
        name=usage.name,
        total_bytes=usage.total_bytes,
        used_bytes=usage.used_bytes,
        utilisation=usage.utilisation,
        jobs=(),
        unmanaged=report.unmanaged_on(state, usage.uuid),
        power_w=usage.power_w,
        temperature_c=usage.temperature_c,
        notes=(UNDER_MPS,) if usage.mps else (),
    )
