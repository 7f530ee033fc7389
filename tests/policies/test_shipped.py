"""The policies that gpud ships, and the texts of the specification."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpud.policies.check.whole import check_library
from gpud.policies.enforce import THIS_VERSION, unenforced
from gpud.policies.format import format_text
from gpud.policies.library import Library, read_directory, read_paths
from gpud.policies.plugins.declare import Class, Duration, Number, Plugin, Signal
from gpud.policies.render import human
from gpud.policies.resolve import resolve_policy
from gpud.policies.simulate.resolve_test import resolve_test
from gpud.policies.simulate.run import record_test
from gpud.policies.simulate.runner import run_test
from gpud.policies.source import Source
from gpud.testing.policy_rig import PolicyRig

ROOT = Path(__file__).parents[2]
SHIPPED = read_directory(ROOT / "policies")
SPECIFIED = read_directory(Path(__file__).parent / "spec")
NAMES = {"preempt-mix", "share-mix", "share-equal", "time-share", "aimd", "tgs", "tidal-mix", "quotas", "turns"}
VLLM = Plugin(
    name="vllm",
    signals=(Signal("queue_depth", Number, scope=Class), Signal("ttft_p99", Duration, scope=Class)),
    open=lambda publish, settings: None,
)
PLUGINS = {"vllm": VLLM}
TICKS = 12_000
"""Of a test that is short enough to be run without skipping any."""


def short_tests(library: Library) -> list[str]:
    names = []
    for test, file in library.tests:
        plan, _ = resolve_test(test, file, library, PLUGINS)
        if plan is not None and plan.end_ns <= TICKS * 5_000_000:
            names.append(test.name.text)
    return names


def source_of(name: str) -> Source:
    return next(source for source in SHIPPED.sources if Path(source.name) == ROOT / "policies" / f"{name}.gpol")


def test_the_set_is_complete() -> None:
    assert set(SHIPPED.policies) == NAMES
    assert {Path(file.source.name).name for _, file in SHIPPED.applies} == {"site.gpol"}


def test_it_has_no_finding_not_even_a_lint() -> None:
    found = check_library(SHIPPED, {})
    assert not found, human(found)


@pytest.mark.parametrize("source", SHIPPED.sources, ids=lambda source: Path(source.name).stem)
def test_it_is_in_canonical_style(source: Source) -> None:
    assert format_text(source) == source.text


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_policy_has_a_heading_a_sentence_and_three_tests(name: str) -> None:
    policy, _ = SHIPPED.policies[name]
    heading = source_of(name).text.partition("\npolicy ")[0]
    assert "# What it does: " in heading
    assert "# When to use it: " in heading
    ir, _ = resolve_policy(policy, SHIPPED.policies[name][1])
    assert ir is not None
    assert ir.doc.endswith(".")
    tests = [test for test, _ in SHIPPED.tests if test.steps[0].applied.policy.text == name]  # type: ignore[union-attr]
    assert len(tests) >= 3


def test_who_has_bursts_is_told_to_preempt() -> None:
    assert "bursts shorter than `falling`, use preempt-mix.gpol" in source_of("aimd").text.replace("\n# ", " ")


def test_what_the_site_applies_is_enforced_by_this_version() -> None:
    applied = [entry.policy.text for apply, _ in SHIPPED.applies for entry in apply.policies]
    assert applied == ["preempt-mix"], "without quotas: an unlabelled job on a fresh machine has the whole device"


def refused(name: str) -> list[str]:
    ir, _ = resolve_policy(*SHIPPED.policies[name])
    assert ir is not None
    return [one.message.split("`")[1] for one in unenforced(ir, THIS_VERSION)]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_is_enforced_by_this_version(name: str) -> None:
    assert refused(name) == []


def test_of_the_specified_time_share_the_disk_is_refused_and_nothing_else() -> None:
    ir, _ = resolve_policy(*SPECIFIED.policies["time-share"])
    assert ir is not None
    assert [one.message.split("`")[1] for one in unenforced(ir)] == ["disk(…)"]


def test_of_the_specified_quotas_what_moves_memory_is_refused_and_nothing_else() -> None:
    """The shipped one does without."""
    ir, _ = resolve_policy(*SPECIFIED.policies["quotas"])
    assert ir is not None
    assert [one.message.split("`")[1] for one in unenforced(ir)] == ["over_memory = spill", "scavenger.residency"]


def test_preempt_mix_says_what_the_specification_says() -> None:
    """And names what the specification writes as numbers."""
    ours, theirs = (resolve_policy(*library.policies["preempt-mix"])[0] for library in (SHIPPED, SPECIFIED))
    assert ours is not None
    assert theirs is not None
    assert ours.arbiter is not None
    assert theirs.arbiter is not None
    said = {name: setting.value for name, setting in ours.arbiter.settings.items()}
    assert said.pop("max_inflight") == 16, "of kernels whose time is not known yet"
    assert said == {name: setting.value for name, setting in theirs.arbiter.settings.items()}
    heads = [" ".join(ir.source.text[slice(*ir.body.rules[0].head)].split()) for ir in (ours, theirs)]
    assert heads[0] == heads[1]


def test_all_tests_together_take_little_time() -> None:
    begin = time.process_time()
    resolved: dict[object, object] = {}
    for test, file in SHIPPED.tests:
        result = run_test(test, file, SHIPPED, {}, resolved=resolved)  # type: ignore[arg-type]
        assert result.outcome == "passed", human(list(result.diagnostics))
    assert time.process_time() - begin < 120


@pytest.mark.parametrize("name", short_tests(SHIPPED))
def test_skipping_ticks_changes_nothing(name: str) -> None:
    """Knobs and lets take the same values at the same times whether a tick at which nothing changes is made or not."""
    test, file = next((test, file) for test, file in SHIPPED.tests if test.name.text == name)
    plan, _ = resolve_test(test, file, SHIPPED, {})
    assert plan is not None
    skipping, first = record_test(plan, test.name.span)
    dense, second = record_test(plan, test.name.span, dense=True)
    assert (first.outcome, second.outcome) == ("passed", "passed")
    assert second.ticks >= second.simulated_ns // 5_000_000
    for one, other in zip(skipping.series, dense.series, strict=True):
        if one.kind == "knob":
            assert (one.times, one.values) == (other.times, other.values), one.name
        assert one.values[-1] == other.values[-1], one.name


# ------------------------------------------------------------------------------------------------ the specification


def test_the_texts_of_the_specification_have_no_finding() -> None:
    found = check_library(SPECIFIED, PLUGINS)
    assert not found, human(found)
    assert set(SPECIFIED.policies) == NAMES - {"tgs", "turns"} | {"vllm-guard"}


@pytest.mark.parametrize("name", [test.name.text for test, _ in SPECIFIED.tests])
def test_the_tests_of_the_specification_pass(name: str) -> None:
    test, file = next((test, file) for test, file in SPECIFIED.tests if test.name.text == name)
    result = run_test(test, file, SPECIFIED, PLUGINS)
    assert result.outcome == "passed", human(list(result.diagnostics))


@pytest.mark.parametrize("name", [test.name.text for test, _ in SPECIFIED.tests])
def test_the_shipped_policies_pass_the_tests_of_the_specification(name: str) -> None:
    mixed = read_paths([ROOT / "policies", *(Path(__file__).parent / "spec").glob("*_tests.gpol")])
    test, file = next((t, f) for t, f in mixed.tests if t.name.text == name and "spec" in f.source.name)
    result = run_test(test, file, mixed, {})
    assert result.outcome == "passed", human(list(result.diagnostics))


# ------------------------------------------------------------------------------------------------------------- aimd


def longest_below(rig: PolicyRig, demand: float, seconds: float) -> float:
    """How long `high` had less than 95 % of its demand at a stretch, in seconds."""
    longest = below = 0.0
    for _ in range(round(seconds * 100)):
        rig.advance(0.01)
        below = below + 0.01 if rig.signal("high.launch_rate") < 0.95 * demand else 0.0
        longest = max(longest, below)
    return longest


@settings(max_examples=5, deadline=None)
@given(
    demand=st.integers(200, 700), low=st.sampled_from([3_000, 10_000, 40_000]), capacity=st.sampled_from([3_000, 4_000])
)
def test_aimd_protects_a_high_whose_demand_doubles_within_a_second(demand: int, low: int, capacity: int) -> None:
    world = f"simulate contention(capacity = {capacity}/s, high_demand = {demand}/s, low_demand = {low}/s)"
    rig = PolicyRig.of(SHIPPED, "aimd", steps=world)
    rig.advance(20)
    rig.set("world.high_demand", 2.0 * demand)
    assert longest_below(rig, 2.0 * demand, 20) <= 1.0
    assert rig.knob("low.max_launch_rate") >= 0.6 * min(low, capacity - 2 * demand), "and low has most of the rest"


def compared(name: str) -> tuple[float, float]:
    """What `low` got a second in two minutes, and how long `high` had less than 95 % of its demand at a stretch."""
    world = "simulate contention(capacity = 3_000/s, high_demand = 1_000/s, low_demand = 10_000/s, blocks = 1000)"
    rig = PolicyRig.of(SHIPPED, name, steps=world)
    rig.advance(1)
    launches = longest = below = 0.0
    for _ in range(1200):
        rig.advance(0.1)
        launches += rig.signal("low.launch_rate") / 10
        below = below + 0.1 if rig.signal("high.launch_rate") < 950 else 0.0
        longest = max(longest, below)
    return launches / 120, longest


def test_aimd_and_tgs_can_be_compared_in_one_world() -> None:
    (ours, hurt), (published, published_hurt) = compared("aimd"), compared("tgs")
    assert ours > 1_700
    assert hurt <= 1
    assert published < 0.8 * ours, "it begins after half a minute, and climbs in steps of five seconds"
    assert published_hurt > 4, "it looks every five seconds"
