"""Changes of one job that a person asks for: its class, its limits, pause and resume. Pure.

What is said of limits holds beside the policies, the tightest wins. What an operator has said only an operator changes.
"""

from typing import assert_never

from gpud.engine import pins
from gpud.engine.in_words import percent
from gpud.engine.standing import class_text
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.events import PauseAsked, ResumeAsked, SetAsked
from gpud.model.rulings import By, Ruling
from gpud.policies.quantities import show_value
from gpud.policies.types import Type

LEAST_BYTES, MOST_BYTES = 1 << 20, (1 << 63) - 1
LEAST_PPM, MOST_PPM = 1, 1_000_000
KEYS = ("class", "memory", "compute")
Asked = SetAsked | PauseAsked | ResumeAsked


def find(state: State, job: int) -> Tenant:
    """A job that is in. Raises Refused."""
    tenant = next((tenant for tenant in state.tenants.values() if tenant.id == job), None)
    if tenant is not None:
        return tenant
    if any(one.tenant.id == job for one in state.waiting):
        raise Refused(
            f"job {job} waits in line to be let in; change it once it is in, or end it with `gpud kill {job}`"
        )
    raise Refused(f"there is no job {job}")


def judge(state: State, event: Asked) -> Tenant:
    """The job that is to be changed. Raises Refused: then nothing of it happens."""
    tenant = find(state, event.job)
    match event:
        case SetAsked():
            for key, value in event.changes:
                _judge_change(state, tenant, key, value, event.by)
        case PauseAsked():
            pass
        case ResumeAsked():
            if tenant.paused is None:
                raise Refused(f"job {tenant.id} is not paused")
            _judge_rank(tenant, "it is paused", tenant.paused, event.by)
        case _:
            assert_never(event)
    return tenant


def rule(state: State, event: Asked, now: int) -> list[Effect]:
    """All of it, or nothing. It is in the pages, and on file, before anybody hears of it."""
    try:
        tenant = judge(state, event)
    except Refused as refused:
        return [do.Record(level="warning", text=f"job {event.job} is not changed: {refused}")]
    said = Ruling(by=event.by, at_ns=now + state.wall_offset_ns)
    texts = []
    match event:
        case SetAsked():
            texts = [_change(tenant, key, value, event.by, said.at_ns) for key, value in event.changes]
        case PauseAsked():
            if tenant.paused is None or (event.by.operator and not tenant.paused.by.operator):
                tenant.paused = said
            texts = ["paused"]
        case ResumeAsked():
            tenant.paused = None
            texts = ["resumed"]
    before = class_text(state, tenant)
    effects = pins.sort_anew(state, tenant, now)
    after = class_text(state, tenant)
    moved = f", {before or 'no class'} → {after or 'no class'}" if before != after else ""
    text = f"job {tenant.id} ({tenant.name}) is {' and '.join(texts)} by {event.by.name}{moved}"
    return [*effects, do.SaveState(), do.Record(level="info", text=text)]


def _judge_change(state: State, tenant: Tenant, key: str, value: str | int | None, by: By) -> None:
    if key == "class" and not isinstance(value, int):
        pins.judge(state, tenant, value, by)
        return
    if key not in KEYS[1:] or isinstance(value, str | bool):
        raise Refused(f"nothing of a job is called {key[:40]!r}, or not {value!r:.80}; known are {', '.join(KEYS)}")
    before = tenant.memory if key == "memory" else tenant.compute
    if before is not None:
        _judge_rank(tenant, f"its {key} is limited", before, by)
    if value is None:
        return
    if key == "memory" and not LEAST_BYTES <= value <= MOST_BYTES:
        raise Refused(f"memory: {value} bytes are less than 1MiB, or more than there can be; write 1MiB or more")
    if key == "compute" and not LEAST_PPM <= value <= MOST_PPM:
        raise Refused(f"compute: {value} millionths of a device are not 1 to 1,000,000; write 0.0001% to 100%")


def _judge_rank(tenant: Tenant, what: str, said: Ruling, by: By) -> None:
    if said.by.operator and not by.operator:
        raise Refused(f"job {tenant.id}: {what} by {said.by.name}, an operator; only an operator takes that back")


def _change(tenant: Tenant, key: str, value: str | int | None, by: By, at_ns: int) -> str:
    """Does it; what it is then, in words."""
    said = Ruling(by=by, at_ns=at_ns, value=value if isinstance(value, int) else 0)
    if key == "class":
        assert not isinstance(value, int)
        before = tenant.pinned_by
        if before is not None and before.by.operator and not by.operator:
            said = before  # an owner who steps lower does not become who has the last word
        tenant.pin, tenant.pinned_by = value, said if value is not None else None
        return f"pinned to {value}" if value is not None else "sorted by its labels again"
    if key == "memory":
        tenant.memory = said if value is not None else None
        shown = show_value(said.value, Type.BYTES)
    else:
        tenant.compute = said if value is not None else None
        shown = percent(said.value)
    return f"limited to {shown} of {key}" if value is not None else f"not limited in {key} any more"
