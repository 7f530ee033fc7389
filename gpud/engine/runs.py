"""The policies of each device at work: they begin, tick, are carried over to another set. Pure; whatever a policy does
wrong stays in it.
"""

import math
from typing import Any

from gpud.engine import signals, watchdog
from gpud.engine.board import Applied, Stack
from gpud.engine.caps import TOTALS
from gpud.engine.explained import Change, OwnChange
from gpud.engine.standing import forget
from gpud.engine.state import Ran, Run, State
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.ids import JobId, Slot
from gpud.model.knobs import Knobs as KnobsInForce
from gpud.policies.program import Knobs, Now


def keep_up(state: State, now: int) -> list[Effect]:
    """Every device has its policies, ticked at least once; those of devices that are gone are forgotten."""
    if state.runs.keys() == state.devices.keys():
        return []
    for slot in [slot for slot in state.runs if slot not in state.devices]:
        del state.runs[slot]
        for tenant in state.tenants.values():
            forget(tenant, slot)
    effects: list[Effect] = []
    for slot, device in state.devices.items():
        if slot not in state.runs:
            state.runs[slot] = begin(state.stack_for(device))
            effects += tick_device(state, slot, now)
    return effects


def begin(stack: Stack) -> Run:
    """Nothing remembered."""
    return Run(stack=stack, ran=[Ran(state=applied.program.initial) for applied in stack])


def carry(run: Run, stack: Stack) -> tuple[Run, tuple[str, ...]]:
    """The same device with another stack, and what starts anew. A policy that is the same goes on untouched, unless it
    was put out of action: then it has another chance. Of one that has changed, what can be carried over is."""
    by_digest = {applied.program.digest: ran for applied, ran in zip(run.stack, run.ran, strict=True)}
    by_name = {applied.name: (applied, ran) for applied, ran in zip(run.stack, run.ran, strict=True)}
    anew: list[str] = []
    ran: list[Ran] = []
    for applied in stack:
        same = by_digest.get(applied.program.digest)
        if same is not None and not same.failed:
            ran.append(same)
            continue
        fresh = Ran(state=applied.program.initial)
        if applied.name in by_name and same is None:
            old, before = by_name[applied.name]
            try:
                fresh.state, lost = applied.program.carry(before.state, old.program, fresh.state)
                anew += lost
            except Exception as error:
                anew.append(f"{applied.name} ({error!r})")
        ran.append(fresh)
    return Run(stack=stack, ran=ran, idle_since=run.idle_since), tuple(anew)


def tick_device(state: State, slot: Slot, now: int, held: dict[JobId, KnobsInForce] | None = None) -> list[Effect]:
    """Every policy of the device decides. Returns what has changed, explained; the pages are the caller's matter.
    `held`: filled with what was in force for tenants, where one has decided otherwise than before."""
    run = state.runs[slot]
    run.ticked_ns = now
    effects: list[Effect] = []
    for applied, ran in zip(run.stack, run.ran, strict=True):
        if ran.failed:
            continue
        before = ran.knobs
        effects += _tick(state, run, slot, applied, ran, now)
        if ran.knobs != before and not only_amounts(applied, before, ran.knobs):
            for tenant in state.tenants.values():
                knobs = tenant.in_force.pop(slot, None)
                if knobs is not None and held is not None:
                    held.setdefault(tenant.id, knobs)
    return effects


def only_amounts(applied: Applied, before: Knobs, after: Knobs) -> bool:
    """Is all that differs how large totals are? No word of a client says that: only its device is divided otherwise."""
    if before.tenants != after.tenants or len(before.values) != len(after.values):
        return False
    rows = zip(applied.program.knobs, before.values, after.values, before.sites, after.sites, strict=True)
    return all(
        (old == new and was == site) or (knob.name in TOTALS and old < math.inf and new < math.inf)
        for knob, old, new, was, site in rows
    )


def compare(slot: Slot, before: Run, after: Run) -> list[Effect]:
    """What another set decides otherwise: knobs of classes that are in both."""
    was = {applied.name: (applied, ran) for applied, ran in zip(before.stack, before.ran, strict=True)}
    effects: list[Effect] = []
    for applied, ran in zip(after.stack, after.ran, strict=True):
        old, old_ran = was.get(applied.name, (applied, ran))
        if ran is old_ran or not ran.knobs.values or not old_ran.knobs.values:
            continue
        for key, index in applied.knobs.items():
            old_index = old.knobs.get(key)
            if old_index is not None and old_ran.knobs.values[old_index] != ran.knobs.values[index]:
                change = Change(old, old_ran.copy(), old_index, applied, ran.copy(), index)
                effects.append(do.KnobChanged(slot=slot, tell=change.tell))
    return effects


def _tick(state: State, run: Run, slot: Slot, applied: Applied, ran: Ran, now: int) -> list[Effect]:
    program = applied.program
    members = signals.Members(state, slot, applied)
    snapshot = signals.snapshot(state, run, slot, applied, members, now)
    tenants = signals.of_tenants(state, slot, applied, members, now) if applied.each else {}
    moment = Now(now, now + state.wall_offset_ns)
    try:
        began = state.cpu_ns()
        after, knobs = program.tick(ran.state, snapshot, moment, tenants)
        spent = state.cpu_ns() - began
        if spent > watchdog.LONGEST_NS:
            # The collector may have come between, or the hypervisor. A tick is pure: it is asked once more, and what is
            # slow by itself is slow again.
            began = state.cpu_ns()
            program.tick(ran.state, snapshot, moment, tenants)
            spent = min(spent, state.cpu_ns() - began)
    except Exception as error:
        return watchdog.failed(applied, ran, f"it failed: {error!r}", state.board_generation)
    before = ran.copy()
    ran.state, ran.knobs, ran.snapshot, ran.tenants = after, knobs, snapshot, tenants
    effects = _known(slot, applied, before.snapshot, snapshot)
    effects += _changes(slot, applied, before, ran, sorted(tenants))
    return effects + watchdog.judge(state, applied, ran, spent, now)


def unknown(applied: Applied, snapshot: tuple[Any, ...]) -> tuple[str, ...]:
    """Signals that should be known and are not."""
    return tuple(ref.text for ref, value in zip(applied.program.signals, snapshot, strict=False) if value is None)


def _known(slot: Slot, applied: Applied, before: tuple[Any, ...], after: tuple[Any, ...]) -> list[Effect]:
    """One line for each signal that is lost, or here again. At the first look nothing is lost."""
    effects: list[Effect] = []
    for ref, was, value in zip(applied.program.signals, before, after, strict=False):
        if (was is None) == (value is None):
            continue
        of = f"{ref.text}, which the policy {applied.name} reads on device {slot},"
        text = f"{of} is not known any more: in a second its rules let go, guards hold on"
        effects.append(
            do.Record(level="warning", text=text, slot=slot)
            if value is None
            else do.Record(level="info", text=f"{of} is known again", slot=slot)
        )
    return effects


def _changes(slot: Slot, applied: Applied, before: Ran, after: Ran, tenants: list[int]) -> list[Effect]:
    """One for each knob whose value is another than before. The first decisions are no changes. `tenants`: those that
    have rules about them."""
    if not before.knobs.values or before.knobs == after.knobs:
        return []
    effects: list[Effect] = []
    after = after.copy()
    for index, value in enumerate(after.knobs.values):
        if before.knobs.values[index] != value:
            change = Change(applied, before, index, applied, after, index)
            effects.append(do.KnobChanged(slot=slot, tell=change.tell))
    if before.knobs.tenants == after.knobs.tenants:
        return effects
    old, new = ({number: values for number, values, _ in ran.knobs.tenants} for ran in (before, after))
    nothing = (None,) * len(applied.program.tenant_knobs)
    for number in tenants:
        for index, (was, value) in enumerate(zip(old.get(number, nothing), new.get(number, nothing), strict=True)):
            if was != value:
                own = OwnChange(applied, before, after, number, index)
                effects.append(do.KnobChanged(slot=slot, job=JobId(number), tell=own.tell))
    return effects
