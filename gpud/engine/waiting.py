"""Jobs that wait in line to be let in, and what becomes of them. Pure.

The first comes first. Who needs nothing that somebody before it waits for goes ahead.
"""

import math
from collections.abc import Sequence

from gpud.engine.admission import judge
from gpud.engine.classify import admit, place_everywhere, read_launch
from gpud.engine.devices_asked import choose
from gpud.engine.state import Resource, State, Tenant, Waiting
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model import refusals
from gpud.model.effects import Effect
from gpud.model.errors import Refused
from gpud.model.units import format_duration

_NOTHING_NEW = (ev.Tick, ev.WentActive, ev.WentIdle, ev.PluginSample, ev.DriverTold, ev.PeersMapped, ev.Mapped)
"""Room comes with none of these by itself; with a tick, when a rule changes a knob."""


def enter(state: State, tenant: Tenant, event: ev.LaunchAsked | ev.AttachAsked, now: int) -> list[Effect] | None:
    """For a job that wants in; None: it may come. Else it waits in line, or is refused."""
    taken = [one.resource for one in state.waiting]
    choose(state, tenant, taken)
    no = judge(state, tenant, taken)
    if no is None:
        return None
    who = f"job {tenant.id} ({tenant.name}) of {tenant.who.user}"
    if no.wait_ns <= 0:
        return [
            _refuse(event, no.text),
            do.Record(level="info", text=f"{who} is not let in: {no.text}", kind="refuse", job=tenant.id),
        ]
    one = Waiting(
        tenant=tenant,
        event=event,
        since_ns=now,
        until_ns=now + no.wait_ns,
        text=no.text,
        resource=no.resource,
        board_generation=state.board_generation,
        by=no.place,
    )
    state.waiting.append(one)
    wait_ns = None if one.until_ns == math.inf else int(no.wait_ns)
    queued = do.SendQueued(session=event.session, wait_ns=wait_ns, text=no.text)
    return [queued, do.Record(level="info", text=f"{who} {sentence(one)}", kind="queue", job=tenant.id)]


def may_move(state: State, event: ev.Event, effects: Sequence[Effect]) -> bool:
    """Is it worth looking at the line after this?"""
    if not state.waiting:
        return False
    return not isinstance(event, _NOTHING_NEW) or any(isinstance(effect, do.KnobChanged) for effect in effects)


def move(state: State) -> tuple[Waiting | None, list[Effect]]:
    """Takes the first who may come in now out of the line, and those that must not come in any more. None: nobody else
    may."""
    effects: list[Effect] = []
    taken: list[Resource] = []
    for one in list(state.waiting):
        wrong = _sort_anew(state, one)
        if wrong:
            state.waiting.remove(one)
            effects.append(_refuse(one.event, wrong))
            continue
        is_in = isinstance(one.event, ev.AttachAsked) and state.tenant_of(one.event.who) is not None
        choose(state, one.tenant, taken)
        no = None if is_in else judge(state, one.tenant, taken)
        if no is None:
            state.waiting.remove(one)
            return one, effects
        one.text, one.resource, one.by = no.text, no.resource, no.place
        taken.append(one.resource)
    return None, effects


def expire(state: State, now: int) -> list[Effect]:
    """Those that have waited for as long as they may are refused."""
    effects: list[Effect] = []
    for one in [one for one in state.waiting if one.until_ns <= now]:
        state.waiting.remove(one)
        waited = format_duration(int(one.until_ns) - one.since_ns)
        text = f"job {one.tenant.id} ({one.tenant.name}) has waited for {waited} and is not let in: {one.text}"
        effects += [
            _refuse(one.event, f"it has waited for {waited}: {one.text}"),
            do.Record(level="info", text=text, kind="refuse", job=one.tenant.id),
        ]
    return effects


def leave(state: State, session: int) -> None:
    """Its process has ended, or it waits no more."""
    state.waiting = [one for one in state.waiting if one.event.session != session]


def send_away(state: State, text: str) -> list[Effect]:
    """All of them: the daemon ends."""
    line, state.waiting = state.waiting, []
    return [do.Refuse(session=one.event.session, code=refusals.DRAINING, text=text) for one in line]


def sentence(one: Waiting) -> str:
    """What it waits for, and for how long at most."""
    most = "" if one.until_ns == math.inf else f", up to {format_duration(int(one.until_ns) - one.since_ns)}"
    return f"waits in line{most}: {one.text}"


def _sort_anew(state: State, one: Waiting) -> str:
    """After a change of policies. Returns why it must not come in at all; "": it may."""
    if one.board_generation == state.board_generation:
        return ""
    one.board_generation = state.board_generation
    if isinstance(one.event, ev.AttachAsked):
        one.tenant.placed = place_everywhere(state.board, one.tenant.facts, one.tenant.pin)
        return ""
    try:
        asked = read_launch(one.event.asked, one.event.who.command)
        one.tenant.placed = admit(state.board, asked, one.event.who, state.claims, state.system)
    except Refused as refused:
        return str(refused)
    return ""


def _refuse(event: ev.LaunchAsked | ev.AttachAsked, text: str) -> Effect:
    code = refusals.POLICY if isinstance(event, ev.LaunchAsked) else refusals.ADMISSION
    return do.Refuse(session=event.session, code=code, text=text)
