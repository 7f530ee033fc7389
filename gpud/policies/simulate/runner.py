"""Runs `test` blocks: a simulated run, and what is expected of it. Pure but for reading a recording."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, field

from gpud.policies import ast
from gpud.policies.compile import compile_policy
from gpud.policies.diagnostics import Diagnostic, Label
from gpud.policies.ir import LetRead, Observed, Read
from gpud.policies.library import Library
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import Program
from gpud.policies.simulate.evaluate import Reading, evaluate
from gpud.policies.simulate.failure import failure_of
from gpud.policies.simulate.plan import Change, Check, Feed, Plan
from gpud.policies.simulate.resolve_test import Resolved, resolve_test
from gpud.policies.simulate.results import FAILED, INVALID, PASSED, UNFINISHED, TestResult, at_time
from gpud.policies.simulate.signals import Signals
from gpud.policies.simulate.simulation import BEGIN_NS, MOST_STOPS, Simulation, Unfinished
from gpud.policies.simulate.trace import TraceError, read_lines
from gpud.policies.simulate.worlds import Setup, World, begin_world
from gpud.policies.source import Span

_MOVING = frozenset({"idle_for", "longest_wait", "turn"})
"""Change from moment to moment."""


def _never() -> bool:
    return False


def run_test(
    test: ast.Test,
    file: ast.File,
    library: Library,
    plugins: Plugins,
    *,
    resolved: Resolved | None = None,
    most: int = MOST_STOPS,
    stop: Callable[[], bool] = _never,
    dense: bool = False,
) -> TestResult:
    """One test. `most` bounds its stops and ticks, `stop` is asked now and then whether time is up; `dense` skips no
    tick. `resolved` is kept from test to test by whoever runs several."""
    plan, found = resolve_test(test, file, library, plugins, resolved)
    if plan is None:
        return TestResult(
            name=test.name.text, source=file.source, span=test.name.span, outcome=INVALID, diagnostics=tuple(found)
        )
    return run_plan(plan, test.name.span, most=most, stop=stop, dense=dense)


def run_plan(
    plan: Plan, span: Span, *, most: int = MOST_STOPS, stop: Callable[[], bool] = _never, dense: bool = False
) -> TestResult:
    """A resolved one. `span` is that of the test's name."""
    program = compile_policy(plan.policy, plugins=plan.plugins)
    return run_begun(plan, span, begin(plan, program, most=most, stop=stop, dense=dense))


def run_begun(plan: Plan, span: Span, simulation: Simulation) -> TestResult:
    """What `begin` has made, to its end."""
    run = _Run(plan, simulation)
    outcome, diagnostics = PASSED, []
    try:
        if plan.replay is not None:
            _replay(plan, simulation)
        failed = run.through()
        if failed is not None:
            outcome, diagnostics = FAILED, [failed]
    except Unfinished:
        text = f"this test did not finish: it was stopped {at_time(simulation.now_ns)}"
        outcome = UNFINISHED
        helps = ("expect things at earlier times, or look less closely: `at` instead of `from … to`",)
        diagnostics = [Diagnostic("GP703", text, Label(plan.source, span), helps=helps)]
    except TraceError as error:
        assert plan.replay is not None
        outcome = INVALID
        diagnostics = [Diagnostic("GP701", str(error), Label(plan.source, plan.replay.path.span))]
    return TestResult(
        name=plan.name,
        source=plan.source,
        span=span,
        outcome=outcome,
        checks=len(plan.checks),
        passed=run.passed,
        simulated_ns=max(simulation.now_ns, 0),
        diagnostics=tuple(diagnostics),
        ticks=simulation.ticks,
    )


# --------------------------------------------------------------------------------------------------------- beginning


def begin(
    plan: Plan,
    program: Program,
    *,
    most: int = MOST_STOPS,
    stop: Callable[[], bool] = _never,
    dense: bool = False,
    use_gate: bool = False,
) -> Simulation:
    """The run of a plan, at its beginning."""
    classes = tuple(job_class.name for job_class in plan.policy.classes)
    signals = Signals(classes, plan.members, began_ns=BEGIN_NS)
    gate = use_gate or any(
        isinstance(read, Observed) and read.kind == "gate" for check in plan.checks for read in check.reads
    )
    simulation = Simulation(
        program, plan.wall_ns, signals, _world(plan), use_gate=gate, most=most, stop=stop, dense=dense
    )
    for poke in plan.pokes:
        simulation.schedule(iter([(poke.t_ns, _setter(simulation, poke.change, poke.value))]))
    for feed in plan.feeds:
        simulation.schedule(_samples(simulation, feed))
    return simulation


def _world(plan: Plan) -> World | None:
    if plan.world is None:
        return None
    classes = {job_class.name: job_class.name for job_class in plan.policy.classes} | dict(plan.members)
    members = {name: classes[name] for name in plan.world.members}
    return begin_world(
        plan.world.kind,
        Setup(policy=plan.policy, arguments=plan.world.arguments, members=members, attached=plan.tenants, now=BEGIN_NS),
    )


def _setter(simulation: Simulation, change: Change, value: Any) -> Callable[[], None]:
    if change.owner:
        return lambda: simulation.set(change.key, value)
    return lambda: simulation.set_world(change.name, value)


def _samples(simulation: Simulation, feed: Feed) -> Iterator[tuple[int, Callable[[], None]]]:
    """A sample that is as the one before sets nothing."""
    moments = count(0, feed.every_ns)
    last: Any = object()
    for value, times in feed.runs:
        for _, t_ns in zip(range(times), moments, strict=False):
            if value != last:
                yield t_ns, _setter(simulation, feed.change, value)
            last = value


def _replay(plan: Plan, simulation: Simulation) -> None:
    from gpud.policies.simulate.replay import replay

    assert plan.replay is not None
    path = Path(plan.source.name).parent / plan.replay.path.text
    start_ns = replay(simulation, read_lines(path), str(path), plan.fed).start_ns
    if start_ns is not None and not plan.has_clock:
        simulation.wall_ns = start_ns


# ----------------------------------------------------------------------------------------------------------- running


@define
class _Run:
    """Expectations of a plan while it runs."""

    plan: Plan
    simulation: Simulation
    passed: int = 0
    _waiting: list[Check] = field(init=False)
    """Not begun, by begin."""
    _open: list[Check] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self._waiting = sorted(self.plan.checks, key=lambda check: check.begin_ns, reverse=True)

    def through(self) -> Diagnostic | None:
        """To the end, or to what fails first. Raises Unfinished and TraceError."""
        while self._waiting or self._open:
            limits = [check.end_ns for check in self._open]
            if self._waiting:
                limits.append(self._waiting[-1].begin_ns)
            self.simulation.advance(min(limits))
            failed = self._look(self.simulation.now_ns)
            if failed is not None:
                return failed
        return None

    def _look(self, now: int) -> Diagnostic | None:
        while self._waiting and self._waiting[-1].begin_ns <= now:
            self._open.append(self._waiting.pop())
        still = []
        for check in self._open:
            value = evaluate(check.condition, self.simulation.look)
            if value is True and (check.kind != "always" or now >= check.end_ns):
                self.passed += 1
            elif value is not True and (check.kind == "always" or now >= check.end_ns):
                return failure_of(self.plan, self.simulation, check, value)
            else:
                still.append(check)
        self._open = still
        self.simulation.watch_closely = any(_moves(reading) for check in still for reading in check.reads)
        return None


def _moves(reading: Reading) -> bool:
    """May it change although no knob does and nothing is set?"""
    if isinstance(reading, Read):
        return reading.signal.name in _MOVING
    return isinstance(reading, LetRead) or (isinstance(reading, Observed) and reading.name in _MOVING)
