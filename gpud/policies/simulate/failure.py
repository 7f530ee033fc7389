"""An expectation that does not hold: where, when, what was there instead, and which line of the policy made it so."""

from typing import Any

from gpud.policies.check.walk import parts
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.ir import HoursRead, IrExpr, LetRead, Observed, Op, Read
from gpud.policies.quantities import show_measured, show_value
from gpud.policies.resolve.arithmetic import COMPARE
from gpud.policies.simulate.evaluate import Look, Reading, evaluate
from gpud.policies.simulate.plan import Check, Plan
from gpud.policies.simulate.results import at_time
from gpud.policies.simulate.simulation import Simulation
from gpud.policies.source import Span


def name_of(reading: Reading, plan: Plan) -> str:
    """As the test writes it."""
    match reading:
        case Read(signal=signal):
            return signal.text
        case LetRead(name=name):
            return name
        case HoursRead(index=index):
            return plan.policy.hours[index].name
        case Observed():
            return f"{reading.of or 'world'}.{reading.name}"


def failure_of(plan: Plan, simulation: Simulation, check: Check, value: Any) -> Diagnostic:
    """GP702 about the check, as things are now."""
    text = plan.source.text[check.span.start : check.span.end]
    condition = " ".join(text.split())
    when = at_time(simulation.now_ns)
    if check.kind == "eventually":
        message = f"`{condition}` was never true from {at_time(check.begin_ns)[3:]} on, {when}"
    else:
        message = f"`{condition}` is {'not known' if value is None else 'false'} {when}"
    digits = _digits(check.condition, simulation.look)
    values = [
        f"{name_of(reading, plan)} is {_shown(simulation.look(reading), reading, digits)}" for reading in check.reads
    ]
    causes = []
    for reading in check.reads:
        if isinstance(reading, Observed) and reading.kind == "knob":
            cause = _cause(plan, simulation, reading)
            if cause is not None:
                causes.append(cause)
    return Diagnostic("GP702", message, Label(plan.source, check.span, ", ".join(values)), tuple(causes))


def _shown(value: Any, reading: Reading, digits: int) -> str:
    """In the language's notation; a knob as the page keeps it."""
    if isinstance(reading, Observed) and reading.kind == "knob":
        return show_value(value, reading.type)
    return show_measured(value, reading.type, digits)


def _digits(condition: IrExpr, look: Look) -> int:
    """So many that no two values that differ look alike: not `990/s` where more than 990/s was expected."""
    comparisons = [part for part in parts(condition) if isinstance(part, Op) and part.op in COMPARE]
    compared = [(one.args[0].type, *(evaluate(side, look) for side in one.args)) for one in comparisons]
    for digits in (3, 4, 6):
        if all(a == b or show_measured(a, type, digits) != show_measured(b, type, digits) for type, a, b in compared):
            return digits
    return 9


def _cause(plan: Plan, simulation: Simulation, reading: Observed) -> Label | None:
    """The line of the policy that sets the knob; None: it is built in."""
    program = simulation.program
    site = simulation.site(reading.of, reading.name)
    if site is None or not program.sites[site].line:
        return None
    line = program.sites[site].line
    source = plan.policy.source
    text = source.line(line)
    start = source.start_of(line) + len(text) - len(text.lstrip())
    because = program.sites[site].because
    said = f"{reading.of}.{reading.name} is set here" + (f': "{because}"' if because else "")
    return Label(source, Span(start, start + len(text.strip())), said)
