"""One policy through simulated time, kept as series: what `gpud policy sim` draws."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from attrs import define, field

from gpud.policies import ast
from gpud.policies.compile import compile_policy
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.ir import IrPolicy, LetRead, Observed, Read
from gpud.policies.library import Library
from gpud.policies.parse import parse
from gpud.policies.plugins.declare import Plugins
from gpud.policies.schema import KNOBS
from gpud.policies.simulate.plan import Plan
from gpud.policies.simulate.replay import replay
from gpud.policies.simulate.resolve_test import resolve_test, signal_types
from gpud.policies.simulate.results import TestResult, at_time
from gpud.policies.simulate.runner import begin, run_begun
from gpud.policies.simulate.series import Recording, Series
from gpud.policies.simulate.signals import COUNTING, Signals
from gpud.policies.simulate.simulation import MOST_STOPS, Simulation, Unfinished
from gpud.policies.simulate.wall import DEFAULT_CLOCK, wall_time
from gpud.policies.source import Source, Span
from gpud.policies.types import Type

Stop = Callable[[], bool]
_SYNTHETIC = "<sim>"
_FINEST = 400
"""Parts of a run in which what counts on is drawn."""


def _never() -> bool:
    return False


def record_test(
    plan: Plan,
    span: Span,
    *,
    only: Sequence[str] = (),
    most: int = MOST_STOPS,
    stop: Stop = _never,
    dense: bool = False,
) -> tuple[Recording, TestResult]:
    """A test, resolved: its series up to its end, or to what fails. `only`: names of series; empty: what matters."""
    program = compile_policy(plan.policy, plugins=plan.plugins)
    simulation = begin(plan, program, most=most, stop=stop, dense=dense, use_gate=plan.policy.mode == "preempt")
    keeper = _Keeper.of(simulation, only, _touched(plan))
    result = run_begun(plan, span, simulation)
    notes = [f"{found.message}: {found.primary.text}" for found in result.diagnostics]
    what = plan.name if plan.source.name == _SYNTHETIC else f'test "{plan.name}"'
    return keeper.recording(f'policy "{plan.policy.name}", {what}', notes), result


def record_trace(
    policy: IrPolicy,
    plugins: Plugins,
    lines: Iterable[str],
    name: str,
    *,
    only: Sequence[str] = (),
    most: int = MOST_STOPS,
    stop: Stop = _never,
) -> Recording:
    """A recording, from its beginning to its end. Raises TraceError."""
    program = compile_policy(policy, plugins=plugins)
    signals = Signals(tuple(job_class.name for job_class in policy.classes), {})
    simulation = Simulation(
        program, wall_time(DEFAULT_CLOCK, policy.timezone), signals, use_gate=policy.mode == "preempt", most=most,
        stop=stop,
    )  # fmt: skip
    start_ns = replay(simulation, lines, name, signal_types(policy, plugins, {})).start_ns
    if start_ns is not None:
        simulation.wall_ns = start_ns
    active = [(f"{job_class.name}.active", Type.BOOL) for job_class in policy.classes if simulation.use_gate]
    keeper = _Keeper.of(simulation, only, active)
    notes = []
    try:
        while simulation.next_event_ns is not None:
            simulation.advance(simulation.next_event_ns)
    except Unfinished:
        notes.append(f"the recording goes on: stopped {at_time(simulation.now_ns)}")
    return keeper.recording(f'policy "{policy.name}", {name}', notes)


def plan_of(
    applied: str, steps: str, duration: str, library: Library, plugins: Plugins
) -> tuple[Plan | None, ast.Test | None, list[Diagnostic]]:
    """What has no test yet: `"aimd"(tolerance = 5%)`, lines as tests have them (`simulate …`, `at 5s …`), and `60s`.
    The diagnostics show the lines that this makes of it."""
    text = f'gpol 1\n\ntest "{duration} simulated" {{\n  policy {applied}\n  {steps}\n  at {duration} expect true\n}}\n'
    file, found = parse(Source(_SYNTHETIC, text))
    if file is None or found or len(file.tests) != 1:
        return None, None, found
    plan, more = resolve_test(file.tests[0], file, library, plugins)
    return plan, file.tests[0], more


def _touched(plan: Plan) -> list[tuple[str, Type]]:
    """Signals that the test sets, looks at, or has a world set."""
    keys = [poke.change.key for poke in plan.pokes] + [feed.change.key for feed in plan.feeds]
    for check in plan.checks:
        for reading in check.reads:
            if isinstance(reading, Read):
                keys.append(reading.signal.text)
            elif isinstance(reading, Observed) and reading.kind == "signal":
                keys.append(f"{reading.of}.{reading.name}")
    if plan.world is not None:
        keys += plan.world.kind.drives(plan.world.arguments, plan.world.members)
    return [(key, plan.fed[key]) for key in dict.fromkeys(keys) if key in plan.fed]


# ----------------------------------------------------------------------------------------------------------- keeping


@define
class _Keeper:
    """Notes everything down at each stop."""

    simulation: Simulation
    rows: list[tuple[Series, Callable[[], Any]]] = field(factory=list)
    only: Sequence[str] = ()

    @classmethod
    def of(cls, simulation: Simulation, only: Sequence[str], more: Iterable[tuple[str, Type]]) -> "_Keeper":
        """`more`: signals beside those that the program reads."""
        keeper = cls(simulation, only=only)
        program, signals = simulation.program, simulation.signals
        for key, type in dict([(signal.text, signal.type) for signal in program.signals] + list(more)).items():
            keeper._add(key, type, "signal", partial(keeper._signal, key))
        for name in signals.members:
            for signal in program.tenant_signals[1:]:
                if signal.job_class == signals.members[name]:
                    key = f"{name}.{signal.name}"
                    keeper._add(key, signal.type, "signal", partial(keeper._signal, key))
        for index, let in enumerate(program.ir.lets):
            read = LetRead(index, let.name, let.value.type)
            keeper._add(let.name, let.value.type, "let", partial(simulation.look, read))
        if simulation.gate is not None:
            for launcher in simulation.gate.launchers.values():
                keeper._add(f"{launcher.name}.held", Type.BOOL, "gate", partial(getattr, launcher, "held"))
        for knob in program.knobs:
            keeper._knob(knob.job_class, knob.name)
        for name, job_class in signals.members.items():
            for knob in program.tenant_knobs:
                if knob.job_class == job_class:
                    keeper._knob(name, knob.name)
        simulation.on_stop = keeper._stop
        return keeper

    def _knob(self, owner: str, name: str) -> None:
        row = KNOBS.get(name)
        self._add(
            f"{owner}.{name}", row.type if row else Type.NUMBER, "knob", lambda: self.simulation.knob(owner, name)
        )

    def _add(self, name: str, type: Type, kind: str, look: Callable[[], Any]) -> None:
        if (not self.only or name in self.only) and all(series.name != name for series, _ in self.rows):
            self.rows.append((Series(name, type, kind), look))

    def _signal(self, key: str) -> Any:
        return self.simulation.signals.read(key, self.simulation.mono_ns)

    def _stop(self, simulation: Simulation) -> None:
        for series, look in self.rows:
            series.add(simulation.now_ns, look())

    def recording(self, title: str, notes: Iterable[str]) -> Recording:
        """All series that were asked for; else those that say something: knobs that nothing sets are left out."""
        program = self.simulation.program
        set_somewhere = {f"{site.knob.job_class}.{site.knob.name}" for site in program.sites if site.line}
        set_somewhere |= {
            f"{name}.{knob.name}" for name in self.simulation.signals.members for knob in program.tenant_knobs
        }
        end_ns = max(self.simulation.now_ns, 1)
        kept = [
            _counted(series, end_ns) if series.name.partition(".")[2] in COUNTING else series
            for series, _ in self.rows
            if self.only or series.kind != "knob" or series.name in set_somewhere or len(series.values) > 1
        ]
        return Recording(title=title, end_ns=end_ns, series=tuple(kept), notes=tuple(notes))


def _counted(series: Series, end_ns: int) -> Series:
    """With the values between two stops, of a signal that counted on meanwhile."""
    filled = Series(series.name, series.type, series.kind)
    step = max(end_ns // _FINEST, 1)
    for index, (t_ns, value) in enumerate(zip(series.times, series.values, strict=True)):
        if index and value is not None:
            since, before = series.times[index - 1], series.values[index - 1]
            if before is not None and value == before + t_ns - since:
                for between in range((since // step + 1) * step, t_ns, step):
                    filled.add(between, before + between - since)
        filled.add(t_ns, value)
    return filled
