"""What must hold for any policy and any trace."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gpud.policies.combine import is_tighter
from gpud.policies.compile import compile_policy, program_source
from gpud.policies.program import Program
from gpud.policies.schema import KNOBS
from tests.policies.arbitrary import SIGNALS, VALUES, Trace, guards, held, parts, policies, policy, rules, traces
from tests.policies.programs import SPEC, TICK, Run, resolved

relaxed = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
CONSTANT = [
    knob for knob in VALUES if knob not in ("low.max_launch_rate", "low.max_inflight", "high.max_inflight_time")
]
"""Knobs whose bindings here are constants."""


def compiled(text: str) -> Program:
    return compile_policy(resolved(text))


def started(program: Program) -> Run:
    run = Run(program)
    run.values = {name: values[0] for name, values in SIGNALS.items()}
    return run


def along(runs: list[Run], trace: Trace):
    """Ticks all of them through a trace, and yields after each tick."""
    for run in runs:
        run.tick(0)
    yield
    for later, changed in trace:
        end = runs[0].now + later
        while runs[0].now < end:
            last = runs[0].now + TICK >= end
            for run in runs:
                if last:
                    run.values |= changed
                run.tick(run.now + TICK)
            yield


def decided(run: Run) -> dict[str, object]:
    assert run.knobs is not None
    return {knob.text: value for knob, value in zip(run.program.knobs, run.knobs.values, strict=True)}


# --------------------------------------------------------------------------------------------------------- skipping


@relaxed
@given(text=policies, trace=traces)
def test_skipped_ticks_would_have_changed_nothing(text: str, trace: Trace) -> None:
    program = compiled(text)
    dense, sparse = started(program), started(program)
    sparse.tick(0)
    for _ in along([dense], trace):
        due = sparse.next_change()
        if dense.snapshot() != sparse.snapshot() or (due is not None and due <= dense.now):
            sparse.values = dict(dense.values)
            sparse.tick(dense.now)
        assert sparse.knobs == dense.knobs
        assert program.let_values(sparse.state) == program.let_values(dense.state)


def test_skipping_does_skip() -> None:
    """The property above would hold as well if every tick were due."""
    rule = "when high.busy > 60% for 2500ms until high.busy < 20% for 1s { low.pause = true }"
    run = started(compiled(policy(rule)))
    run.tick(0)
    assert run.next_change() is None
    run.tick(TICK, high__busy=0.7)
    assert run.next_change() == TICK + 2_500_000_000
    run.tick(TICK + 2_500_000_000)
    assert run["low.pause"]
    assert run.next_change() is None
    run = started(compiled(policy(f"during day {{ {rule} }}")))
    run.tick(0)
    assert run.next_change() == 60 * 1_000_000_000


# ----------------------------------------------------------------------------------------------------------- guards


@relaxed
@given(found=parts(), extra=guards(()), trace=traces)
def test_a_guard_never_loosens(found: tuple[list[str], list[str], list[str]], extra: str, trace: Trace) -> None:
    lets, members, others = found
    assume("aimd(" not in " ".join(members + others) + extra)  # a controller under a guard stands still: see below
    without, guarded = (
        started(compiled(policy(*lets, *members, *others))),
        started(compiled(policy(*lets, *members, *others, extra))),
    )
    for run in (without, guarded):
        run.values = dict(guarded.values)
    for _ in along([without, guarded], trace):
        loose = decided(without)
        for knob, value in decided(guarded).items():
            assert not is_tighter(KNOBS[knob.partition(".")[2]].combine, loose[knob], value), knob


@relaxed
@given(held=held(()), trace=traces)
def test_a_guard_over_a_controller_never_loosens(held: str, trace: Trace) -> None:
    run = started(compiled(policy(f"low.max_launch_rate = {VALUES['low.max_launch_rate'][-1]}",
                                  f"guard {held} {{ low.max_launch_rate = 100/s }}")))  # fmt: skip
    for _ in along([run], trace):
        if run.site("low.max_launch_rate").startswith("guard"):
            assert run["low.max_launch_rate"] == 100
        else:
            assert run["low.max_launch_rate"] <= 2_000


# ------------------------------------------------------------------------------------------------------------ order


@relaxed
@given(
    members=st.lists(rules((), 1, CONSTANT), min_size=2, max_size=4),
    others=st.lists(guards((), CONSTANT), max_size=2),
    trace=traces,
    shuffle=st.randoms(use_true_random=False),
)
def test_the_order_of_rules_means_nothing(
    members: list[str], others: list[str], trace: Trace, shuffle: random.Random
) -> None:
    first = started(compiled(policy(*members, *others)))
    moved = [*members, *others]
    shuffle.shuffle(moved)
    second = started(compiled(policy(*moved)))
    for _ in along([first, second], trace):
        assert decided(first) == decided(second)


# ---------------------------------------------------------------------------------------------------- during changes


@relaxed
@given(wrapped=rules((), 1, CONSTANT), others=st.lists(rules((), 1, CONSTANT), max_size=2), trace=traces)
def test_during_changes_only_when_a_rule_holds(wrapped: str, others: list[str], trace: Trace) -> None:
    bare = started(compiled(policy(wrapped, *others)))
    without = started(compiled(policy(*others)))
    always = started(compiled(policy("hours open = daily 00:00..24:00", f"during open {{ {wrapped} }}", *others)))
    never = started(compiled(policy("hours open = sun 00:00..00:01", f"during open {{ {wrapped} }}", *others)))
    for run in (without, always, never):
        run.values = dict(bare.values)
    for _ in along([bare, without, always, never], trace):
        assert decided(always) == decided(bare)
        assert decided(never) == decided(without)


@relaxed
@given(others=st.lists(rules((), 1, ["low.max_inflight"]), max_size=2), trace=traces)
def test_a_rule_stays_in_force_beside_any_other(others: list[str], trace: Trace) -> None:
    """§2.6: `when high.delay_p99 > 2ms { low.max_inflight = 1 }` stays in force beside `during night { … }`."""
    run = started(compiled(policy("when high.busy > 60% { low.max_inflight = 1 }", *others)))
    for _ in along([run], trace):
        if (run.values["high.busy"] or 0) > 0.6:
            assert run["low.max_inflight"] == 1


# ------------------------------------------------------------------------------------------------------ determinism

SCRIPT = """
import sys
from pathlib import Path
from gpud.policies.compile import compile_policy, program_source
from gpud.policies.explain import explain_policy
from gpud.policies.parse import parse
from gpud.policies.program import Now
from gpud.policies.resolve.policy import resolve_policy
from gpud.policies.source import Source
from hashlib import sha256
digest = sha256()
for path in sorted(Path(sys.argv[1]).glob("*.gpol")):
    file, found = parse(Source(path.name, path.read_text()))
    for policy in file.policies:
        if file.uses:
            continue
        ir, found = resolve_policy(policy, file)
        program = compile_policy(ir)
        state = program.initial
        digest.update(program_source(ir).encode() + explain_policy(program).encode() + program.digest.encode())
        for n in range(400):
            values = tuple(
                None if (n + i) % 97 == 0
                else n % 3 > 1 if signal.type.name == "BOOL"
                else ((n * 7919 + i) % 1009) * 1.1
                for i, signal in enumerate(program.signals)
            )
            tenants = {t: ("job", *((n % 5 > 2 if s.type.name == "BOOL" else n * t * 10**10)
                                    for s in program.tenant_signals[1:])) for t in (3, 1, 2)}
            now = Now(n * 5_000_000, 1_772_409_600_000_000_000 + n * 10**11)
            state, knobs = program.tick(state, values, now, tenants if program.tenant_signals else {})
            digest.update(repr((state, knobs, program.next_change(state, now))).encode())
print(digest.hexdigest())
"""


def _python(version: str) -> str | None:
    """One that starts."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for found in [shutil.which(f"python{version}"), *sorted(map(str, kept.glob(f"{version}.*/bin/python")))]:
        if found and not subprocess.run([found, "-c", "pass"], capture_output=True, timeout=60).returncode:
            return found
    return None


def _output(python: str, seed: str) -> str | None:
    """None: this Python has not what gpud needs."""
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *(path for path in sys.path if "site-packages" in path)])
    environment = {"PYTHONPATH": paths, "PYTHONHASHSEED": seed, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [python, "-c", SCRIPT, str(SPEC)], env=environment, capture_output=True, text=True, timeout=60
    )
    if python != sys.executable and ("ModuleNotFoundError" in done.stderr or "ImportError" in done.stderr):
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_same_bytes_in_every_process() -> None:
    outputs = {_output(sys.executable, seed) for seed in ("0", "1", "4711")}
    assert len(outputs) == 1


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_same_bytes_in_every_python(version: str) -> None:
    python = _python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    other = _output(python, "0")
    if other is None:
        pytest.skip(f"Python {version} does not run with these packages")
    assert other == _output(sys.executable, "0")


def test_the_source_is_the_same_each_time() -> None:
    text = (SPEC / "tidal-mix.gpol").read_text()
    assert program_source(resolved(text)) == program_source(resolved(text))
