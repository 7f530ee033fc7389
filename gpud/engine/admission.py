"""May a new job come in now? In this order: `admit`, `limit { tenants }`, shares, promised compute and memory. Pure.

A job is let in when every device that it may come to has room for it. Who is in stays in, whatever is decided later.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from gpud.engine.board import Applied, Stack
from gpud.engine.caps import compute_of, limit_of
from gpud.engine.explained import of_word, place
from gpud.engine.in_force import said
from gpud.engine.memory_limits import promise_of, shown
from gpud.engine.shares import share_of
from gpud.engine.standing import member_of
from gpud.engine.state import Resource, State, Tenant
from gpud.model.ids import Slot, uuid_text
from gpud.policies.ir import IrBlock
from gpud.policies.schema import BLOCKS
from gpud.policies.values import EQUAL, Choice, Share

_DEFAULT_COMPUTE: float = next(row.default for row in BLOCKS["admit", ""] if row.name == "compute")
_DEFAULT_MEMORY: float = next(row.default for row in BLOCKS["admit", ""] if row.name == "memory")
_ROUNDING = 1e-9
"""Percentages are added up as floats."""


@frozen
class No:
    """Why not now."""

    text: str
    """As a clause: `the class gold has 2 jobs, as many as it may (quotas.gpol:12)`."""
    resource: Resource
    """What it would need."""
    wait_ns: float
    """How long it may wait in line for it, by `when_full`; 0: it is refused at once."""
    place: str
    """`quotas.gpol:12`, where what there is not enough of stands, or that it waits."""


@frozen(kw_only=True)
class _Case:
    """One job before one policy of one device."""

    state: State
    tenant: Tenant
    slot: Slot | None
    """None: no device is known yet."""
    applied: Applied
    job_class: str
    others: Sequence[Tenant]
    """Who is on the device, or may come to it."""

    def resource(self, step: str, member: str = "") -> Resource:
        return (step, self.applied.program.digest, member, self.slot)

    @property
    def where(self) -> str:
        return "the device" if self.slot is None else f"device {self.slot}"


@frozen
class _Found:
    """What it needs here."""

    resource: Resource
    missing: str | None = None
    """Why there is not enough of it; None: there is."""
    place: str = ""
    """Where that stands, if not in `admit`."""


def judge(state: State, tenant: Tenant, taken: Sequence[Resource] = ()) -> No | None:
    """None: it may come in. `tenant` is sorted, not in the state; `taken`: what those before it in line wait for."""
    places: list[tuple[Slot | None, Stack]] = [(slot, state.stack_on(slot)) for slot in slots_of(state, tenant.gpu)]
    places = places or [(None, state.board.others)]
    members = {slot: list(members_of(state, slot)) for slot, _ in places}
    for check in (_knob, _tenants, _shares, _compute, _memory):
        for slot, stack in places:
            for applied in stack:
                job_class = tenant.placed[applied.program.digest].job_class
                if job_class is None:
                    continue
                case = _Case(
                    state=state, tenant=tenant, slot=slot, applied=applied, job_class=job_class, others=members[slot]
                )
                found = check(case)
                if found is None or (found.missing is None and found.resource not in taken):
                    continue
                before = f"others wait before it for {_WORDS.get(found.resource[0], '')} on {case.where}"
                where = found.place or _admits_at(applied)
                return No(found.missing or before, found.resource, _wait_ns(applied), where)
    return None


_WORDS = {"tenants": "a place", "shares": "a share", "compute": "compute", "memory": "memory"}


def slots_of(state: State, gpu: str) -> list[Slot]:
    """The devices that a job may come to. `gpu`: as CUDA_VISIBLE_DEVICES has it; "": all."""
    wanted = [part.strip() for part in gpu.split(",") if part.strip()]
    named = [
        slot
        for slot, device in sorted(state.devices.items())
        if any(part == str(device.index) or uuid_text(device.uuid).startswith(part) for part in wanted)
    ]
    return named or sorted(state.devices)


def members_of(state: State, slot: Slot | None) -> Iterator[Tenant]:
    """Jobs on a device, or that may come to it; None: all jobs."""
    for tenant in state.tenants.values():
        if slot is None or slot in (state.slots_of(tenant) or slots_of(state, tenant.gpu)):
            yield tenant


def _wait_ns(applied: Applied) -> float:
    choice = _setting(applied.program.ir.admit, "when_full", "reject")
    return float(choice.argument) if isinstance(choice, Choice) else 0.0  # type: ignore[arg-type]


def _admits_at(applied: Applied) -> str:
    ir = applied.program.ir
    return f"{ir.source.name}:{ir.source.position(ir.admit.span.start)[0]}" if ir.admit is not None else ""


def _setting(block: IrBlock | None, name: str, default: Any) -> Any:
    return block.settings[name].value if block is not None and name in block.settings else default


def _knob(case: _Case) -> _Found | None:
    if case.slot is None or case.slot not in case.state.runs:
        return None
    for word in said(case.state, case.tenant, case.slot, "admit"):
        if word.applied is case.applied and not word.value:
            explained = of_word(word)
            why = f": {explained.because}" if explained.because else ""
            rule = f", {explained.rule}" if explained.line and explained.rule else ""
            text = f"the class {case.job_class} takes no new jobs now{why} ({place(explained)}{rule})"
            return _Found(case.resource("admit", case.job_class), text, place(explained))
    return None


def _tenants(case: _Case) -> _Found | None:
    most = limit_of(case.applied, case.tenant, "tenants")
    if most is None or most == math.inf:
        return None
    unit = unit_of(case.applied, case.tenant)
    resource = case.resource("tenants", unit)
    count = sum(unit_of(case.applied, other) == unit for other in case.others)
    if count < most:
        return _Found(resource)
    limit = case.applied.program.ir.class_named(case.job_class).limit
    assert limit is not None
    source = case.applied.program.ir.source
    line = source.position(limit.settings["tenants"].span.start)[0]
    has = "1 job" if count == 1 else f"{count} jobs"
    where = f"{source.name}:{line}"
    return _Found(resource, f"{_unit_text(case)} has {has} on {case.where}, as many as it may ({where})", where)


def _shares(case: _Case) -> _Found | None:
    arbiter, applied = case.applied.arbiter, case.applied
    if arbiter is None or arbiter.mode not in ("share", "preempt"):
        return None
    own = _share(case, case.job_class)
    if own.kind != "fixed":
        return None
    rank = arbiter.ranks.get(case.job_class, 0)
    percents: dict[str, int] = {}
    for one in (case.tenant, *case.others):
        job_class = one.placed[applied.program.digest].job_class
        if job_class is not None and arbiter.ranks.get(job_class, 0) == rank:
            share = _share(case, job_class)
            percents[unit_of(applied, one)] = share.percent if share.kind == "fixed" else 0
    resource, total = case.resource("shares", str(rank)), sum(percents.values())
    if total <= 100:
        return _Found(resource)
    free = max(100 - total + own.percent, 0)
    return _Found(resource, f"its share of {own.percent}% does not fit on {case.where}: {free}% are not promised yet")


def _share(case: _Case, job_class: str) -> Share:
    """In force for a class now; where nothing runs yet, what the class says."""
    run = case.state.runs.get(case.slot) if case.slot is not None else None
    if run is not None and case.applied in run.stack:
        ran = run.ran[run.stack.index(case.applied)]
        if ran.knobs.values:
            return share_of(case.applied, ran, job_class)
    setting = case.applied.program.ir.class_named(job_class).settings.get("share")
    return setting.value if setting is not None else EQUAL


def _compute(case: _Case) -> _Found | None:
    block, own = case.applied.program.ir.admit, _promise(case.applied, case.tenant)
    if block is None or not own:
        return None
    room: float = _setting(block, "compute", _DEFAULT_COMPUTE)
    promised = 0.0
    for other in case.others:  # sum() adds floats otherwise since Python 3.12
        promised += _promise(case.applied, other)
    resource = case.resource("compute")
    if promised + own <= room + _ROUNDING:
        return _Found(resource)
    text = f"{own:.0%} of compute do not fit on {case.where}: {promised:.0%} of {room:.0%} are promised"
    return _Found(resource, f"{text} (policy {case.applied.name})")


def _memory(case: _Case) -> _Found | None:
    block, own = case.applied.program.ir.admit, promise_of(case.applied, case.tenant)
    if block is None or not own or case.slot is None:
        return None
    ratio: float = _setting(block, "memory", _DEFAULT_MEMORY)
    total = case.state.devices[case.slot].total_bytes
    if ratio == math.inf or not total:
        return None
    room = int(total * ratio + _ROUNDING)
    promised = sum(promise_of(case.applied, other) for other in case.others)
    resource = case.resource("memory")
    if promised + own <= room:
        return _Found(resource)
    text = f"{shown(own)} of memory do not fit on {case.where}: {shown(promised)} of {shown(room)} are promised"
    return _Found(resource, f"{text} (policy {case.applied.name})")


def _promise(applied: Applied, tenant: Tenant) -> float:
    """What `limit { compute }` promises a job; 0: nothing."""
    limit = compute_of(applied, tenant)
    return limit[0] if limit is not None else 0.0


def unit_of(applied: Applied, tenant: Tenant) -> str:
    """What tells the job's unit from others of the policy; "": no class takes it."""
    placed = tenant.placed.get(applied.program.digest)
    if placed is None or placed.job_class is None:
        return ""
    return f"{placed.job_class}/{member_of(tenant, applied.program.ir.class_named(placed.job_class).per)}"


def _unit_text(case: _Case) -> str:
    per = case.applied.program.ir.class_named(case.job_class).per
    member = member_of(case.tenant, per)
    return f"{per.removeprefix('label:')} {member} of {case.job_class}" if member else f"the class {case.job_class}"
