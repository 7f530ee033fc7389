"""Is a `test` block one that can be run? Resolves its names and types; runs nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic, has_errors
from gpud.policies.ir import Const, IrPolicy, Observed, Read
from gpud.policies.library import Library, names_of
from gpud.policies.plugins.declare import Plugins
from gpud.policies.resolve import resolve_policy
from gpud.policies.resolve.expressions import resolve
from gpud.policies.resolve.findings import Findings
from gpud.policies.resolve.nearest import did_you_mean
from gpud.policies.resolve.scope import Place, fixed
from gpud.policies.resolve.wants import Want
from gpud.policies.schema import KNOBS, SIGNALS, UNLIMITED
from gpud.policies.simulate.attached import classes_of, resolve_attached
from gpud.policies.simulate.evaluate import Reading, readings
from gpud.policies.simulate.grains import GRAIN_NS
from gpud.policies.simulate.naming import GATE, TestScope
from gpud.policies.simulate.plan import Change, Check, Feed, Plan, Poke, WorldPlan
from gpud.policies.simulate.resolve_world import in_range, not_driven, resolve_world, world_names
from gpud.policies.simulate.wall import DEFAULT_CLOCK, wall_time
from gpud.policies.types import CAPS, Type

Resolved = dict[tuple[str, str], tuple[IrPolicy | None, tuple[Diagnostic, ...]]]
"""(policy, its arguments as written) → what came of it, so that many tests of one policy resolve it once."""


def check_test(
    test: ast.Test, file: ast.File, library: Library, plugins: Plugins, resolved: Resolved | None = None
) -> list[Diagnostic]:
    """What is wrong with one test."""
    return resolve_test(test, file, library, plugins, resolved)[1]


def resolve_test(
    test: ast.Test, file: ast.File, library: Library, plugins: Plugins, resolved: Resolved | None = None
) -> tuple[Plan | None, list[Diagnostic]]:
    """The plan, and what is wrong; None if anything is, or if its policy has errors (reported elsewhere)."""
    findings = Findings(file.source)
    maker = _Maker(test, file, findings, plugins)
    plan = maker.make(library, {} if resolved is None else resolved)
    return (None if has_errors(findings.found) else plan), findings.found


@define
class _Maker:
    """One test under way."""

    test: ast.Test
    file: ast.File
    findings: Findings
    plugins: Plugins
    scope: TestScope = field(init=False)
    world: WorldPlan | None = None
    pokes: list[Poke] = field(factory=list)
    feeds: list[Feed] = field(factory=list)
    checks: list[Check] = field(factory=list)
    since_ns: int = 0
    """When the step before began: from then on an `eventually` looks."""

    def make(self, library: Library, resolved: Resolved) -> Plan | None:
        use = self._single(ast.UsePolicy, "policy", needed=True)
        clock, simulate = self._single(ast.Clock, "clock"), self._single(ast.Simulate, "simulate")
        replay = self._single(ast.Replay, "replay")
        if replay is not None and simulate is not None:
            self.findings.add(
                "GP701", replay.span, "a test replays a recording or simulates a world, not both",
                also=((simulate.span, "a world"),), helps=("make two tests of it",),
            )  # fmt: skip
        policy = self._policy(use, library, resolved) if use is not None else None
        if policy is None:
            return None
        self.scope = TestScope.of(policy, self.findings, self.plugins)
        attached = self._all(ast.Attach)
        tenants = resolve_attached(attached, self.scope)
        self.scope.tenants = members = classes_of(policy, attached, tenants, self.findings)
        if simulate is not None:
            self.world = resolve_world(simulate, self.scope)
            if self.world is None:
                return None
            self.scope.world, self.scope.world_names = self.world.kind, world_names(self.world)
        for step in self.test.steps:
            self._step(step)
        if not self.checks and not self.findings.found:
            self.findings.add(
                "GP701", self.test.name.span, "this test expects nothing", helps=("add a line like `at 1s expect …`",)
            )
        return Plan(
            name=self.test.name.text,
            source=self.file.source,
            policy=policy,
            plugins=self.plugins,
            wall_ns=self._wall(clock, policy.timezone),
            has_clock=clock is not None,
            tenants=tenants,
            members=members,
            world=self.world,
            replay=replay,
            pokes=tuple(self.pokes),
            feeds=tuple(self.feeds),
            checks=tuple(self.checks),
            fed=signal_types(policy, self.plugins, members),
        )

    # ------------------------------------------------------------------------------------------------ what it needs

    def _all(self, kind: type[Any]) -> list[Any]:
        return [step for step in self.test.steps if isinstance(step, kind)]

    def _single(self, kind: type[Any], word: str, needed: bool = False) -> Any:
        steps = self._all(kind)
        if len(steps) > 1:
            self.findings.add(
                "GP701", steps[1].span, f"a test has one `{word}` line", "the second",
                also=((steps[0].span, "the first"),), helps=("make two tests of it",),
            )  # fmt: skip
        if not steps and needed:
            self.findings.add(
                "GP701", self.test.name.span, "this test does not say which policy it is about",
                helps=('begin it with a line like `policy "preempt-mix"`',),
            )  # fmt: skip
        return steps[0] if steps else None

    def _policy(self, use: ast.UsePolicy, library: Library, resolved: Resolved) -> IrPolicy | None:
        name = use.applied.policy.text
        found = library.policies.get(name)
        if found is None:
            if name not in library.broken:
                self.findings.add(
                    "GP701", use.applied.policy.span, f"no policy is called `{name}`",
                    helps=did_you_mean(name, library.policies) or names_of(library),
                )  # fmt: skip
            return None
        written = self.file.source.text[use.applied.policy.span.end : use.applied.span.end]
        key = (name, " ".join(written.split()))
        if key not in resolved:
            policy, diagnostics = resolve_policy(
                *found, arguments=use.applied.args, plugins=self.plugins, argument_source=self.file.source
            )
            resolved[key] = (None if has_errors(diagnostics) else policy), tuple(diagnostics)
            # Of the arguments; what is wrong with the policy itself is said where that is checked.
            self.findings.found += [found for found in diagnostics if found.primary.source is self.file.source]
        return resolved[key][0]

    def _wall(self, clock: ast.Clock | None, zone: str | None) -> int:
        text = clock.text.text if clock is not None else DEFAULT_CLOCK
        try:
            return wall_time(text, zone)
        except ValueError as error:
            assert clock is not None
            self.findings.add("GP207", clock.text.span, str(error), helps=('for example `clock "2026-03-02 07:40"`',))
            return 0

    # --------------------------------------------------------------------------------------------------------- steps

    def _step(self, step: ast.Step) -> None:
        if isinstance(step, ast.At):
            t_ns = self._begin(step.time)
            if isinstance(step.action, ast.Expect):
                self._check("at", t_ns, t_ns, step.action.condition)
            else:
                self._poke(t_ns, step.action)
        elif isinstance(step, ast.Always):
            begin, end = self._begin(step.begin), self._time(step.end)
            if begin is not None and end is not None and end < begin:
                self.findings.add("GP701", step.end.span, "this ends before it begins", helps=("swap the two times",))
            self._check("always", begin, end, step.condition)
        elif isinstance(step, ast.Eventually):
            begin, end = self.since_ns, self._begin(step.time)
            if end is not None and end < begin:
                self.findings.add(
                    "GP701", step.time.span, "this is before the line above it",
                    helps=("`by` looks from the time of the line above on: move it up, or write a later time",),
                )  # fmt: skip
            self._check("eventually", begin, end, step.condition)
        elif isinstance(step, ast.Feed):
            self._feed(step)

    def _poke(self, t_ns: int | None, poke: ast.Poke) -> None:
        change = self._change(poke.target)
        if t_ns is not None and change is not None:
            self.pokes.append(Poke(t_ns, change[0], self._value(poke.value, *change)))

    def _time(self, expr: ast.Expr) -> int | None:
        found = resolve(expr, self.scope.at(fixed("a time")), Want("a time", Type.DURATION))
        if not isinstance(found, Const) or found.value is None:
            return None
        if found.value < 0:
            self.findings.add("GP206", expr.span, "this is before the test begins")
            return None
        if found.value % GRAIN_NS:
            self.findings.add(
                "GP501", expr.span, "time passes in whole milliseconds here",
                helps=(f"write {found.value // GRAIN_NS}ms or {found.value // GRAIN_NS + 1}ms",),
            )  # fmt: skip
            return None
        return int(found.value)

    def _begin(self, expr: ast.Expr) -> int | None:
        """A time from which a later `by` looks."""
        t_ns = self._time(expr)
        if t_ns is not None:
            self.since_ns = t_ns
        return t_ns

    def _check(self, kind: str, begin: int | None, end: int | None, expr: ast.Expr) -> None:
        condition = resolve(expr, self.scope, Want("`expect`", Type.BOOL))
        if condition is None or begin is None or end is None:
            return
        seen: dict[Any, Reading] = {}
        for reading in readings(condition):
            seen.setdefault(_same(reading), reading)
        self.checks.append(Check(kind, begin, end, condition, expr.span, tuple(seen.values())))

    def _feed(self, step: ast.Feed) -> None:
        change = self._change(step.signal)
        every = self._time(step.every)
        if every == 0:
            self.findings.add("GP206", step.every.span, "samples need some time between them", helps=("at least 1ms",))
        if change is None:
            return
        if any(feed.change == change[0] for feed in self.feeds):
            self.findings.add(
                "GP701",
                step.signal.span,
                f"`{step.signal.text}` is fed twice",
                helps=("write one line of all samples",),
            )
        runs = []
        for run in step.runs:
            if run.times == 0:
                self.findings.add("GP206", run.span, "zero times is never", helps=("leave it out",))
            runs.append((self._value(run.value, *change), 1 if run.times is None else run.times))
        if every:
            self.feeds.append(Feed(change[0], every, tuple(runs)))

    # ------------------------------------------------------------------------------------------------- what is set

    def _change(self, ref: ast.Ref) -> tuple[Change, Type] | None:
        """What `high.launch_rate = …` sets, and its type."""
        first, last = ref.parts[0].text, ref.parts[-1].text
        if len(ref.parts) == 2 and (last in KNOBS or last in GATE) and first not in ("gpu", "host", "world"):
            self.findings.add(
                "GP701", ref.span, f"`{last}` is what the policy decides; a test sets signals",
                helps=(f"to look at it: `expect {ref.text} …`",),
            )  # fmt: skip
            return None
        found = self.scope.read(ref)
        match found:
            case None:
                return None
            case Read(signal=signal):
                change, type = Change(signal.job_class or signal.scope, signal.name), signal.type
            case Observed(kind="signal"):
                change, type = Change(found.of, found.name), found.type
            case Observed(kind="world") if found.name in self._settable():
                change, type = Change("", found.name), found.type
            case _:
                self.findings.add(
                    "GP701",
                    ref.span,
                    f"`{ref.text}` cannot be set",
                    helps=("a test sets signals: `high.active = true`",),
                )
                return None
        if change.owner in self.scope.tenants.values() and SIGNALS["class", change.name].of_tenant:
            names = [name for name, job_class in self.scope.tenants.items() if job_class == change.owner]
            self.findings.add(
                "GP701", ref.span, f"`{change.owner}` has attached tenants; set it of those",
                helps=(f"write `{names[0]}.{change.name}`",),
            )  # fmt: skip
            return None
        if self.world is not None and change.owner and not not_driven(self.findings, ref.span, change.key, self.world):
            return None
        return change, type

    def _settable(self) -> tuple[str, ...]:
        assert self.world is not None
        readable = {name for name, _, _ in self.world.kind.readings}
        return tuple(name for name in self.scope.world_names if name not in readable)

    def _value(self, expr: ast.Expr, change: Change, type: Type) -> Any:
        world = self.world.kind if self.world is not None and not change.owner else None
        unlimited = type in CAPS if world is None else world.range_of(change.name).holds(UNLIMITED)
        found = resolve(expr, self.scope.at(Place("step", f"`{change.key}`")), Want(f"`{change.key}`", type, unlimited))
        if found is None:
            return None
        if not isinstance(found, Const):
            self.findings.add("GP202", expr.span, f"`{change.key}` needs a constant value")
            return None
        if found.value is None:
            if world is not None:
                self.findings.add("GP701", expr.span, "the world always has its values", helps=("write a value",))
        elif world is not None:
            in_range(self.findings, expr.span, change.name, found, world)
        elif type in CAPS and found.value < 0:
            self.findings.add("GP206", expr.span, f"`{change.key}` is less than nothing")
        return found.value


def _same(reading: Reading) -> Any:
    """Readings are equal if they read the same, wherever they stand."""
    match reading:
        case Read():
            return reading.signal
        case Observed():
            return reading.kind, reading.of, reading.name
        case _:
            return type(reading), reading.index


def signal_types(policy: IrPolicy, plugins: Plugins, members: Mapping[str, str]) -> dict[str, Type]:
    """`high.launch_rate` → its type, of all that can be set."""
    found = {}
    classes: Sequence[str] = [job_class.name for job_class in policy.classes]
    for (scope, name), row in SIGNALS.items():
        for owner in classes if scope == "class" else [scope]:
            found[f"{owner}.{name}"] = row.type
        if scope == "class" and row.of_tenant:
            found |= {f"{member}.{name}": row.type for member in members}
    for plugin in (plugins[name] for name in policy.uses if name in plugins):
        for signal in plugin.signals:
            for owner in classes if signal.scope == "class" else [signal.scope]:
                found[f"{owner}.{plugin.name}.{signal.name}"] = signal.type
    return found
