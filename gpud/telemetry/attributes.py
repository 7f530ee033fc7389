"""What spans say beside their times: names of the semantic conventions (hw.*, process.*) where these have one, else
ours under `gpud.`. docs/observability.md explains each. Pure."""

from collections.abc import Mapping

from gpud.engine.state import Device, State
from gpud.model.ids import Slot, uuid_text
from gpud.model.units import SECOND
from gpud.telemetry.records import Job, Phase, TurnMoment
from gpud.telemetry.span import Value

LONGEST = 256
"""Characters of what others wrote."""
MOST_LABELS = 32


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def short(job: Job) -> dict[str, Value]:
    """Which job it is."""
    return {"gpud.job.id": job.id, "gpud.job.name": cut(job.name)}


def of_job(job: Job) -> dict[str, Value]:
    """Which, and whose."""
    found = short(job)
    found["process.pid"] = job.pid
    found["process.command_line"] = cut(job.command)
    found["process.owner"] = cut(job.user)
    found["process.user.id"] = job.uid
    if job.exe:
        found["process.executable.path"] = cut(job.exe)
        found["process.executable.name"] = cut(job.exe.rpartition("/")[2])
    for key, value in job.labels[:MOST_LABELS]:
        found[f"gpud.label.{cut(key)}"] = cut(value)
    return found


def of_device(state: State, slot: Slot) -> Mapping[str, Value]:
    device: Device | None = state.devices.get(slot)
    if device is None:
        return {"gpud.device": int(slot)}
    return {
        "hw.id": uuid_text(device.uuid),
        "hw.type": "gpu",
        "hw.name": cut(device.name),
        "gpud.gpu.memory_bytes": device.total_bytes,
        "gpud.device": int(slot),
    }


def of_turn(moment: TurnMoment, why: str) -> dict[str, Value]:
    """`why`: it is told."""
    found: dict[str, Value] = {
        "gpud.turn.epoch": moment.epoch,
        "gpud.turn.end": moment.end,
        "gpud.turn.overran": moment.overran,
        "gpud.turn.told": why,
    }
    if moment.part:
        found["gpud.turn.part"] = moment.part
    if moment.next_job is not None:
        found["gpud.turn.next_job"] = int(moment.next_job)
    return found


def of_phase(phase: Phase, moment: TurnMoment) -> dict[str, Value]:
    if phase.name == "swap_in":
        return of_swap("in", moment.taken_in, phase.ended_ns - phase.began_ns)
    if phase.name == "swap_out":
        return of_swap("out", moment.let_go, phase.ended_ns - phase.began_ns)
    return {}


def of_swap(direction: str, count: int, took_ns: int) -> dict[str, Value]:
    """`count` bytes in so much time."""
    found: dict[str, Value] = {"gpud.swap.direction": direction, "gpud.swap.bytes": count}
    if took_ns > 0:
        found["gpud.swap.bytes_per_second"] = count * SECOND // took_ns
    return found
