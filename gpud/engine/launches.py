"""What a launcher asks for → the job that it would be. Pure."""

from gpud.engine import devices_asked
from gpud.engine.classify import admit, facts_of, read_launch
from gpud.engine.state import State, Tenant
from gpud.model import effects as do
from gpud.model import traceparent
from gpud.model.effects import Effect
from gpud.model.events import LaunchAsked
from gpud.model.ids import JobId
from gpud.model.rulings import By, Ruling


def tenant_of(state: State, event: LaunchAsked, now: int) -> Tenant:
    """The job of `gpud run`, which is not in the state yet, with the next number. Raises Refused with a sentence for
    the user: what it asks for is not allowed, or is not there."""
    asked = read_launch(event.asked, event.who.command)
    placed = admit(state.board, asked, event.who, state.claims, state.system)
    gpu = devices_asked.named(state, asked.gpu or "")
    devices_asked.check_count(state, asked.gpus)
    return Tenant(
        id=JobId(state.next_job),
        name=asked.name,
        command=asked.command,
        exe=asked.exe,
        labels=asked.labels,
        pin=asked.pin,
        who=event.who,
        facts=facts_of(event.who, asked.labels, asked.exe),
        placed=placed,
        launcher=True,
        launcher_alive=True,
        session=event.session,
        began_ns=now,
        gpu=gpu,
        gpus=asked.gpus,
        memory=_limit(state, event, now, asked.memory_bytes),
        compute=_limit(state, event, now, asked.compute_ppm),
        caller=asked.traceparent if traceparent.parse(asked.traceparent) else "",
    )


def trace_of(state: State, tenant: Tenant) -> traceparent.Context | None:
    """The span of a job; None: no traces are kept."""
    if not state.trace_seed:
        return None
    return traceparent.of_job(state.trace_seed, tenant.id, tenant.began_ns, traceparent.parse(tenant.caller))


def environment(state: State, tenant: Tenant) -> tuple[tuple[str, str], ...]:
    """What the program of a job gets beside its caller's variables."""
    span = trace_of(state, tenant)
    devices = (("CUDA_VISIBLE_DEVICES", tenant.gpu),) if tenant.gpu else ()
    return (*state.environment, *devices, *(((traceparent.VARIABLE, span.text()),) if span is not None else ()))


def remarks(tenant: Tenant, event: LaunchAsked) -> list[Effect]:
    """What of a launch is passed over."""
    said = dict(event.asked).get("traceparent", "")
    if not said or tenant.caller:
        return []
    text = f"the TRACEPARENT of job {tenant.id} ({tenant.name}) is passed over: {said[:80]!r} names no span"
    return [do.Record(level="warning", text=text, job=tenant.id)]


def _limit(state: State, event: LaunchAsked, now: int, value: int | None) -> Ruling | None:
    """Its owner has said so: an operator may change it, and the owner too."""
    if value is None:
        return None
    who = By(name=f"{event.who.user} (uid {event.who.uid})", operator=False)
    return Ruling(by=who, at_ns=now + state.wall_offset_ns, value=value)
