"""Why a policy's knob has its value, in words. Pure."""

from typing import Any

from attrs import evolve, frozen

from gpud.engine.board import Applied
from gpud.engine.in_force import Said
from gpud.engine.state import Ran
from gpud.model.knobs import Explained
from gpud.policies.explain import explain_tenant_knob
from gpud.policies.ir import KnobRef
from gpud.policies.program import Site
from gpud.policies.quantities import show_value
from gpud.policies.schema import KNOBS


def of_class(applied: Applied, ran: Ran, index: int) -> Explained:
    """Of a class's knob, by its index in `Program.knobs`."""
    program, knobs = applied.program, ran.knobs
    try:
        return _short(program.explain(index, knobs, ran.snapshot, ran.state))
    except Exception:  # a plugin's value that cannot be shown must not cost the decision
        return _of_site(applied, program.knobs[index], program.sites[knobs.sites[index]], knobs.values[index])


def of_tenant(applied: Applied, ran: Ran, number: int, index: int) -> Explained:
    """Of one tenant's knob, by its index in `Program.tenant_knobs`: what `each` says, else what holds for its class."""
    program = applied.program
    knob = program.tenant_knobs[index]
    for tenant, values, sites in ran.knobs.tenants:
        if tenant == number and values[index] is not None:
            seen = ran.tenants.get(number, ())
            try:
                return _short(explain_tenant_knob(program, number, index, ran.knobs, ran.snapshot, seen, ran.state))
            except Exception:
                return _of_site(applied, knob, program.sites[sites[index]], values[index])
    return of_class(applied, ran, applied.knobs[knob.job_class, knob.name])


def _short(found: Explained) -> Explained:
    """That a base stands on its line need not be said twice."""
    return evolve(found, rule="") if found.rule.startswith("line ") else found


def of_word(word: Said) -> Explained:
    """Of what `said` found."""
    if word.own:
        return of_tenant(word.applied, word.ran, word.tenant, word.index)
    return of_class(word.applied, word.ran, word.index)


def _of_site(applied: Applied, knob: KnobRef, site: Site, value: Any) -> Explained:
    """Without what it depends on."""
    return Explained(
        policy=applied.name,
        file=applied.program.ir.source.name,
        line=site.line,
        knob=knob.text,
        value=shown(knob, value),
        rule=site.text,
        inside=site.inside,
        because=site.because,
    )


def shown(knob: KnobRef, value: Any) -> str:
    """A value as the language writes it."""
    return show_value(value, KNOBS[knob.name].type) if knob.name in KNOBS else str(value)


@frozen
class Change:
    """Of a class's knob, for whoever wants to read of it. What it is made of must not be written any more."""

    old: Applied
    before: Ran
    old_index: int
    applied: Applied
    after: Ran
    index: int

    def tell(self) -> tuple[str, Explained]:
        """What it was, and why it is otherwise."""
        was = shown(self.old.program.knobs[self.old_index], self.before.knobs.values[self.old_index])
        return was, of_class(self.applied, self.after, self.index)


@frozen
class OwnChange:
    """Likewise of one tenant's knob."""

    applied: Applied
    before: Ran
    after: Ran
    tenant: int
    index: int

    def tell(self) -> tuple[str, Explained]:
        """What it was, and why it is otherwise."""
        was = of_tenant(self.applied, self.before, self.tenant, self.index).value
        return was, of_tenant(self.applied, self.after, self.tenant, self.index)


def place(explained: Explained) -> str:
    """`tidal-mix.gpol:34`, or the policy's name where no line is."""
    return f"{explained.file}:{explained.line}" if explained.line else f"policy {explained.policy}"


def sentence(explained: Explained) -> str:
    """`low.max_inflight = 1 (preempt-mix.gpol:24, when high.wait_p99 > 2ms for 200ms, “…”; high.wait_p99 = 3ms)`"""
    parts = [place(explained)]
    if explained.line and explained.rule:
        parts.append(explained.rule)
    if explained.because:
        parts.append(f"“{explained.because}”")
    inputs = ", ".join(f"{name} = {value}" for name, value in explained.inputs)
    inside = f"{', '.join(parts)}; {inputs}" if inputs else ", ".join(parts)
    return f"{explained.knob} = {explained.value} ({inside})"
