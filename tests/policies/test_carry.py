"""State over a reload: by identity and types."""

import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpud.policies.compile import compile_policy
from gpud.policies.program import Program
from tests.policies.arbitrary import SIGNALS, policies, traces
from tests.policies.programs import MS, SPEC, TICK, Run, S, body, program, resolved

AIMD = (SPEC / "aimd.gpol").read_text()


def reloaded(run: Run, new: Program) -> tuple[Run, tuple[str, ...]]:
    after = Run(new, run.wall)
    after.now, after.values, after.tenants = run.now, dict(run.values), dict(run.tenants)
    after.values = {signal.text: run.values.get(signal.text) for signal in new.signals}
    after.state, anew = new.carry(run.state, run.program, new.initial)
    return after, anew


def settled(text: str = AIMD) -> Run:
    run = Run(program(text))
    run.set({"high.launch_rate": 1_000.0, "high.idle_for": 0})
    return run.run(5 * S)


def test_other_numbers_keep_all_that_was_learned() -> None:
    run = settled()
    run.set({"high.launch_rate": 950.0})
    run.run(run.now + 1 * S)
    assert run["hurt"]
    before = run["low.max_launch_rate"]
    after, anew = reloaded(run, program(AIMD.replace("add      = 25/s", "add      = 50/s").replace("= 3%", "= 2%")))
    assert anew == ()
    assert after.next_change() == run.now + 1  # the new rules are asked at once
    after.tick(run.now + TICK)
    assert after["baseline"] == 1_000
    assert after["low.max_launch_rate"] <= before
    after.set({"high.launch_rate": 1_000.0})
    after.run(after.now + 3 * S)
    low = after["low.max_launch_rate"]
    after.run(after.now + 100 * MS)
    assert after["low.max_launch_rate"] == low + 50


def test_another_name_starts_anew_and_is_named() -> None:
    after, anew = reloaded(settled(), program(AIMD.replace("baseline", "normal")))
    assert anew == ("aimd.normal",)
    after.tick(after.now + TICK)
    assert after["normal"] == 1_000


def test_another_type_starts_anew() -> None:
    old = body("let x = ewma(high.launch_rate, half_life = 1s) when x > 10/s { low.pause = true }")
    new = body("let x = ewma(high.busy, half_life = 1s) when x > 10% { low.pause = true }")
    _, anew = reloaded(Run(old).tick(high__launch_rate=5.0), new)
    assert anew == ("p.x",)


def test_a_held_rule_goes_on() -> None:
    text = "when high.busy > 60% for 300ms until high.busy < 20% for 1s {{ low.max_inflight = {} }}"
    run = Run(body(text.format(1)))
    run.set({"high.busy": 0.7})
    run.run(200 * MS)
    after, _ = reloaded(run, body(text.format(2)))
    after.run(300 * MS)
    assert after["low.max_inflight"] == float("inf")
    after.run(305 * MS)
    assert after["low.max_inflight"] == 2
    after.set({"high.busy": 0.3})
    after.run(500 * MS)
    again, _ = reloaded(after, body(text.format(2).replace("60%", "65%")))
    again.tick(505 * MS)
    assert again["low.max_inflight"] == 2  # it is on: 30 % would not have turned it on


def test_tenants_keep_theirs() -> None:
    text = "each low as n {{ when n.idle_for > 1s for {} until n.active {{ n.residency = host }} }}"
    run = Run(body(text.format("100ms")))
    run.tenants = {4: ("low", {"idle_for": 2 * S, "active": False})}
    run.run(200 * MS)
    after, anew = reloaded(run, body(text.format("5s")))
    assert anew == ()
    after.tick(205 * MS)
    assert after.of_tenant(4, "low.residency") == "host"
    lets = "each low as n { let calm = ewma(n.busy, half_life = 1s) when calm > 1% { n.residency = host } }"
    _, anew = reloaded(run, body(lets))
    assert anew == ("p.calm",)


def test_nothing_in_common_is_a_fresh_start() -> None:
    run = settled()
    new = body("when high.active { low.pause = true }")
    after, anew = reloaded(run, new)
    assert anew == ()
    assert after.state == new.initial


NUMBER = re.compile(r"(?<= )(\d+)(ms|s|%|/s)(?=[ ,)])")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=policies, trace=traces, more=st.integers(1, 3))
def test_a_reload_that_only_changes_numbers_keeps_every_state(text: str, trace, more: int) -> None:
    """`for`, thresholds and arguments differ; the state after the reload is the state before it."""

    def other(found: re.Match[str]) -> str:
        number = int(found[1]) + more
        return f"{min(number, 99) if found[2] == '%' else number}{found[2]}"

    head, brace, rules = text.partition("dusk = daily 00:02..00:03")
    changed = head + brace + NUMBER.sub(other, rules)
    old, new = compile_policy(resolved(text)), compile_policy(resolved(changed))
    assert [slot.key for slot in old.slots] == [slot.key for slot in new.slots]
    run = Run(old)
    run.values = {name: values[0] for name, values in SIGNALS.items()}
    for later, values in trace:
        run.values |= values
        run.tick(run.now + later)
    state, anew = new.carry(run.state, old, new.initial)
    assert anew == ()
    for slot, before, after in zip(new.slots, run.state, state, strict=True):
        assert after == (before if slot.key else slot.initial), slot
