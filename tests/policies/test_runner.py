"""`test` blocks: what they say happens, when it is looked at, and what comes out."""

from pathlib import Path

import pytest

from gpud.policies.library import Library, from_texts
from gpud.policies.plugins.declare import Class, Duration, Plugin, Signal
from gpud.policies.render import human
from gpud.policies.simulate.resolve_test import check_test
from gpud.policies.simulate.results import TestResult, summary
from gpud.policies.simulate.runner import run_test

VLLM = Plugin(
    name="vllm", signals=(Signal("ttft_p99", Duration, scope=Class),), open=lambda publish, settings: None
)  # fmt: skip
POLICIES = """gpol 1
policy "mix" {
  param quiet = 3ms
  timezone "Europe/Berlin"
  hours day = mon..fri 08:00..22:00
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = quiet  max_pause = 2s }
  let smooth = ewma(high.launch_rate, half_life = 1s)
  during day { low.max_inflight = 2 }
  when high.wait_p99 > 2ms for 200ms until high.wait_p99 < 1ms for 1s because "high waits" { low.max_inflight = 1 }
  when high.idle_for > 30min { high.residency = host }
  each low as l { when l.idle_for > 1min { l.residency = host } }
}
policy "cap" {
  class all { match any }
  when gpu.busy > 50% { all.max_launch_rate = 10/s }
}
policy "lock" {
  class job { match any }
  arbitrate exclusive { max_hold = 30s }
}
policy "strict" {
  class job { match any }
  arbitrate exclusive { max_hold = 30s  grace = 2s }
  when gpu.waiters > 1 { job.max_overrun = 5s }
}
"""
GUARD = """gpol 1
use vllm
policy "slow" {
  class serving { match any }
  arbitrate open {}
  guard serving.vllm.ttft_p99 > 300ms until serving.vllm.ttft_p99 < 100ms { serving.pause = true }
}
"""


def library(steps: str, policy: str = '"mix"') -> Library:
    test = f'gpol 1\nuse vllm\ntest "t" {{\n  policy {policy}\n  {steps}\n}}\n'
    read = from_texts({"p.gpol": POLICIES, "q.gpol": GUARD, "t.gpol": test})
    assert not read.diagnostics, human(list(read.diagnostics))
    return read


def run(steps: str, policy: str = '"mix"', **more: object) -> TestResult:
    read = library(steps, policy)
    return run_test(*read.tests[0], read, {"vllm": VLLM}, **more)  # type: ignore[arg-type]


def passes(steps: str, policy: str = '"mix"') -> TestResult:
    """It does so, and just so if no tick is skipped."""
    result = run(steps, policy)
    assert result.outcome == "passed", human(list(result.diagnostics))
    if result.simulated_ns < 300 * 10**9:
        dense = run(steps, policy, dense=True)
        assert (dense.outcome, dense.simulated_ns) == ("passed", result.simulated_ns)
    return result


def fails(steps: str, policy: str = '"mix"') -> str:
    """It does not hold; returns what is said, which is the same if no tick is skipped."""
    result = run(steps, policy)
    assert result.outcome == "failed", human(list(result.diagnostics))
    assert run(steps, policy, dense=True).diagnostics == result.diagnostics
    return human(list(result.diagnostics))


def refused(steps: str, policy: str = '"mix"') -> list[tuple[str, str]]:
    """(code, message) of why it cannot be run."""
    result = run(steps, policy)
    assert result.outcome == "invalid"
    read = library(steps, policy)
    assert check_test(*read.tests[0], read, {"vllm": VLLM}) == list(result.diagnostics), "as `check` says"
    return [(found.code, found.message) for found in result.diagnostics]


# --------------------------------------------------------------------------------------------------------- in time


def test_what_is_set_at_a_moment_counts_at_that_moment() -> None:
    passes("at 1s expect all.max_launch_rate == 10/s  at 1s gpu.busy = 60%", '"cap"')


def test_a_world_ends_who_is_late_as_rules_say() -> None:
    passes(
        "simulate turns(job = 2, late = 1min)  at 1s expect job.max_overrun == unlimited"
        "  at 1min expect world.ended == 0 and world.overrun == 28s"
        "  at 61s world.job = 3  by 61s expect world.ended == 1 and world.overrun == 0s", '"strict"',
    )  # fmt: skip


def test_rules_are_looked_at_every_five_milliseconds() -> None:
    passes(
        "at 1001ms gpu.busy = 60%  at 1004ms expect all.max_launch_rate == unlimited"
        "  at 1005ms expect all.max_launch_rate == 10/s", '"cap"',
    )  # fmt: skip


def test_an_edge_is_looked_at_at_once() -> None:
    passes(
        "at 1001ms gpu.busy = 60%  at 1001ms all.active = true  at 1001ms expect all.max_launch_rate == 10/s", '"cap"'
    )


def test_a_dwell_begins_at_the_tick_that_sees_it() -> None:
    passes(
        "at 1s high.wait_p99 = 3ms"
        "  from 0s to 1195ms expect low.max_inflight != 1  at 1200ms expect low.max_inflight == 1"
    )


def test_steps_need_not_be_in_order() -> None:
    passes("at 3s expect all.max_launch_rate == unlimited  at 1s gpu.busy = 60%"
           "  at 2s gpu.busy = 10%  at 1s expect all.max_launch_rate == 10/s", '"cap"')  # fmt: skip


def test_always_looks_at_every_moment_ends_included() -> None:
    steps = "at 2s gpu.busy = 60%  at {}ms gpu.busy = 10%  from 1s to 3s expect all.max_launch_rate == unlimited"
    for back in (2005, 2900, 3000):
        assert "is false at 2s" in fails(steps.format(back), '"cap"')
    passes("at 3005ms gpu.busy = 60%  from 0s to 3s expect all.max_launch_rate == unlimited", '"cap"')
    assert "is false at 3s" in fails("at 3s gpu.busy = 60%  from 1s to 3s expect all.max_launch_rate > 10/s", '"cap"')


def test_eventually_looks_from_the_line_above_on() -> None:
    passes("at 2s gpu.busy = 60%  by 3s expect all.max_launch_rate == 10/s", '"cap"')
    said = fails(
        "at 2s gpu.busy = 60%  at 3s expect gpu.busy > 50%  by 4s expect all.max_launch_rate == unlimited", '"cap"'
    )
    assert "`all.max_launch_rate == unlimited` was never true from 3s on, at 4s" in said


def test_values_that_move_between_decisions_are_seen() -> None:
    passes("feed high.launch_rate every 1s = 0/s, 1000/s  by 2005ms expect smooth > 500/s and smooth < 502/s")
    passes("at 1s high.active = true  at 2s high.active = false  by 3500ms expect high.idle_for > 1490ms"
           "  from 3s to 4s expect high.idle_for >= 1s and high.idle_for <= 2s")  # fmt: skip


def test_hours_and_the_clock() -> None:
    passes('clock "2026-03-02 07:59"  at 59s expect low.max_inflight == unlimited  at 60s expect low.max_inflight == 2'
           "  at 60s expect day")  # fmt: skip
    passes('clock "2026-03-07 12:00"  at 0s expect low.max_inflight == unlimited and not day')
    passes("at 0s expect not day  at 8h expect day")  # a Monday begins
    # clocks go forward in the night to Sunday, so Monday's eight o'clock comes an hour earlier
    passes('clock "2026-03-29 00:00"  at 30h expect not day  at 31h expect day')


def test_an_idle_class_counts_on() -> None:
    passes("at 1s expect high.idle_for == unlimited and high.residency == host")
    passes(
        "at 0s high.active = true  at 10s expect high.idle_for == 0s"
        "  at 10s high.active = false  at 40s expect high.idle_for == 30s"
        "  at 1810s expect high.residency == device  at 1810005ms expect high.residency == host"
    )
    passes("at 10s high.idle_for = 29min  at 65s expect high.residency == device  at 71s expect high.residency == host")


def test_rates_make_a_class_active_until_a_test_says_otherwise() -> None:
    passes("feed high.launch_rate every 1s = 5/s, 0/s  at 0s expect high.active  at 3s expect high.idle_for == 2s")
    passes("at 0s high.active = false  at 1s high.busy = 50%  at 2s expect not high.active")


def test_a_feed_keeps_its_last_value_and_may_miss_one() -> None:
    result = passes("feed gpu.busy every 100ms = 60% times 3, missing, 20%  at 250ms expect all.max_launch_rate == 10/s"
                    "  at 10min expect gpu.busy == 20%", '"cap"')  # fmt: skip
    assert result.ticks < 20


def test_what_is_missing_is_not_known() -> None:
    assert "is not known at 2s" in fails("at 1s gpu.busy = missing  at 2s expect gpu.busy > 50%", '"cap"')
    passes("at 0s gpu.busy = 60%  at 1s gpu.busy = missing  at 1900ms expect all.max_launch_rate == 10/s"
           "  at 2100ms expect all.max_launch_rate == unlimited", '"cap"')  # fmt: skip


def test_signals_of_plugins_are_missing_until_they_are_set() -> None:
    passes("at 1s expect not serving.pause  at 2s serving.vllm.ttft_p99 = 400ms  at 2s expect serving.pause"
           "  at 3s serving.vllm.ttft_p99 = missing  at 1h expect serving.pause", '"slow"')  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- tenants


def test_attached_tenants() -> None:
    passes(
        'attach a { labels = ["tier=online"] }  attach b { labels = []  exe = "/bin/x" }  attach c {}'
        "  at 0s expect a.class == high and b.class == low and low.tenants == 2 and high.tenants == 1"
        "  at 0s b.active = true  at 1s c.active = true  at 5s c.active = false"
        "  at 6s expect low.active and not c.active"
        "  at 60s b.active = false  at 64s expect low.idle_for == 4s and c.residency == device"
        "  at 66s expect c.residency == host and b.residency == device and low.residency == device"
        "  at 66s expect b.max_inflight == unlimited"
    )


def test_signals_of_a_class_are_those_of_its_members_together() -> None:
    passes(
        "attach a {}  attach b {}"
        "  at 0s a.launch_rate = 5/s  at 0s b.launch_rate = 7/s  at 0s expect low.launch_rate == 12/s and low.active"
        "  at 1s b.wait_p99 = 7ms  at 1s expect low.wait_p99 == 7ms"
        "  at 2s a.memory_used = 1GiB  at 2s expect low.memory_used == 1GiB"
    )
    assert "is not known" in fails("attach a {}  attach b {}  at 0s a.queued = missing  at 1s expect low.queued > 0")


def test_a_tenant_at_the_gate() -> None:
    passes(
        'attach a { labels = ["tier=online"] }  attach b {}  attach c {}'
        "  at 1s a.active = true  at 1s expect b.held and c.held and not a.held and low.held"
        "  at 2s a.active = false  at 2002ms expect b.held  at 2003ms expect not b.held"
    )


# ------------------------------------------------------------------------------------------------------------- gate


def test_the_gate_is_looked_at_every_millisecond() -> None:
    passes("at 11ms high.active = true  at 12ms high.active = false  from 11ms to 14ms expect low.held"
           "  at 15ms expect not low.held", '"mix"(quiet = 3ms)')  # fmt: skip


def test_max_pause_lets_one_launch_through_at_a_time() -> None:
    result = passes("at 0s high.active = true  at 10min expect low.passed == 300 and low.held")
    assert result.ticks < 1000


# -------------------------------------------------------------------------------------------------- worlds, replays


def test_a_world_can_be_poked_fed_and_read() -> None:
    passes(
        "simulate memory(total = 40GiB, all = 10GiB)  at 1s expect gpu.memory_free == 30GiB and world.all == 10GiB"
        "  at 2s world.all = 20GiB  at 2s expect gpu.memory_free == 20GiB and world.total == 40GiB"
        "  feed world.total every 3s = 40GiB, 50GiB  at 3s expect gpu.memory_free == 30GiB", '"cap"',
    )  # fmt: skip


def test_a_world_of_other_classes() -> None:
    read = from_texts({"p.gpol": """gpol 1
policy "p" {
  class service { match label("a") == "b" }
  class batch { match any }
  arbitrate open {}
  batch.max_launch_rate = 100/s
}
test "t" {
  policy "p"
  simulate contention(capacity = 3_000/s, high = service, low = batch, high_demand = 1/s, low_demand = 1000/s)
  at 1s expect batch.launch_rate == 100/s and service.launch_rate == 1/s
}
"""})  # fmt: skip
    result = run_test(*read.tests[0], read, {})
    assert result.outcome == "passed", human(list(result.diagnostics))


RECORDED = """{"gpud_trace": 1, "start": "2026-03-02T07:59:00+01:00"}
{"t": 0, "high.wait_p99": "1ms", "low.max_inflight": 3, "nobody.busy": 0.5}
{"t": 1, "high.wait_p99": "3ms", "gpu.busy": 0.25}
{"t": 2, "high.wait_p99": null}
"""


def test_a_recording(tmp_path: Path) -> None:
    def result(recorded: str, steps: str) -> TestResult:
        (tmp_path / "p.gpol").write_text(POLICIES)
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / "a.jsonl").write_text(recorded)
        text = f'gpol 1\ntest "t" {{ policy "mix" replay "a.jsonl" {steps} }}'
        (tmp_path / "tests" / "t.gpol").write_text(text)
        from gpud.policies.library import read_directory

        read = read_directory(tmp_path)
        return run_test(*read.tests[0], read, {})

    good = result(
        RECORDED, "at 1100ms expect low.max_inflight == unlimited  "
        "at 1500ms expect low.max_inflight == 1 and gpu.busy == 25%  "
        "at 10s expect low.max_inflight == unlimited  at 1min expect low.max_inflight == 2",
    )  # fmt: skip
    assert good.outcome == "passed", human(list(good.diagnostics))
    later = result(RECORDED, 'clock "2026-03-02 12:00"  at 0s expect low.max_inflight == 2')
    assert later.outcome == "passed", "the test's own clock counts"
    for broken, said in (
        ("x", "not a recording of gpud"),
        (RECORDED + '{"t": 1}\n', "time goes back"),
        (RECORDED.replace('"1ms"', '"1GiB"'), "a.jsonl:2: `high.wait_p99` is a duration; this is"),
        ('{"gpud_trace": 1}\n{"t": 1, "gpu.power": 5}\n', "nothing in it is read by the policy"),
    ):
        wrong = result(broken, "at 10s expect true")
        assert wrong.outcome == "invalid"
        assert said in wrong.diagnostics[0].message
        assert wrong.diagnostics[0].code == "GP701"
    (tmp_path / "tests" / "a.jsonl").unlink()
    result("", "at 1s expect true")
    (tmp_path / "tests" / "a.jsonl").unlink()
    read = from_texts({"p.gpol": POLICIES, "t.gpol": 'gpol 1\ntest "t" { policy "mix" replay "b" at 1s expect true }'})
    assert "there is no such file" in run_test(*read.tests[0], read, {}).diagnostics[0].message


# -------------------------------------------------------------------------------------------------------- what is said


def test_a_failure_shows_the_place_the_values_and_the_line_that_decided() -> None:
    said = fails("at 1s high.wait_p99 = 3ms\n  at 90500ms expect low.max_inflight > high.wait_p99 / 1ms")
    assert said == FAILURE


FAILURE = """\
error[GP702]: `low.max_inflight > high.wait_p99 / 1ms` is false at 1min 30.5s
  --> t.gpol:6:21
   |
 6 |   at 90500ms expect low.max_inflight > high.wait_p99 / 1ms
   |                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ low.max_inflight is 1, high.wait_p99 is 3ms
  ::: p.gpol:11:3
   |
11 |   when high.wait_p99 > 2ms for 200ms until high.wait_p99 < 1ms for 1s because "high waits" { low.max_inflight = 1 }
   |   DASHES low.max_inflight is set here: "high waits"
""".replace("DASHES", "-" * 113)


def test_what_was_measured_is_rounded_as_far_as_it_stays_clear() -> None:
    steps = (
        "feed high.launch_rate every 1s = 0/s, 1000/s  at 2005ms expect smooth > {}"  # it is 1000/s * (1 - 0.5^1.005)
    )
    assert "smooth is 502/s\n" in fails(steps.format("600/s"))
    assert "smooth is 501.7/s\n" in fails(steps.format("502/s"))
    assert "high.wait_p99 is 1.2345ms\n" in fails("at 0s high.wait_p99 = 1.2345ms  at 1s expect high.wait_p99 > 2ms")


def test_the_lines_of_a_run() -> None:
    good = run("at 1s expect not low.pause  at 90s expect true")
    bad = run("at 1s expect not low.pause  at 2s expect low.pause  at 3s expect true")
    endless = run("from 0s to 10000h expect smooth < 1/s", most=1000)
    wrong = run("")
    assert good.line(0.214) == "PASS t  (2 checks, 90s simulated in 0.21s)"
    assert bad.line(1) == "FAIL t  (1 of 3 checks, 2s simulated in 1.00s)"
    assert endless.line(2) == "STOP t  (0 of 1 checks, 2s simulated in 2.00s)"
    assert wrong.line(0) == "FAIL t  (cannot be run)"
    assert summary([good, bad, endless, wrong]) == "1 passed, 2 failed, 1 not finished"
    assert summary([good] * 13) == "13 passed, 0 failed"


def test_a_test_that_never_ends_is_stopped() -> None:
    endless = run("by 10000h expect smooth > 1/s", most=10_000)
    assert endless.outcome == "unfinished"
    (found,) = endless.diagnostics
    assert (found.code, found.is_warning) == ("GP703", True)
    assert found.message.startswith("this test did not finish: it was stopped at ")
    asked = []
    stopped = run("from 0s to 10000h expect smooth < 1/s", stop=lambda: bool(asked.append(1)) or len(asked) > 3)
    assert stopped.outcome == "unfinished"
    assert len(asked) == 4


def test_waiting_costs_nothing() -> None:
    assert passes_quickly("at 10000h expect low.max_inflight == unlimited or day") < 50_000
    assert passes_quickly("at 260s expect not low.pause") < 10


def passes_quickly(steps: str) -> int:
    result = run(steps)
    assert result.outcome == "passed", human(list(result.diagnostics))
    return result.ticks


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.mark.parametrize(
    ("steps", "code", "said"),
    [
        ("", "GP701", "this test expects nothing"),
        ("at 1s gpu.busy = 5%", "GP701", "this test expects nothing"),
        ('policy "cap"  at 1s expect true', "GP701", "a test has one `policy` line"),
        ('clock "2026-03-02 07:40"  clock "2026-03-02 07:40"  at 1s expect true', "GP701",
         "a test has one `clock` line"),
        ('clock "tomorrow"  at 1s expect true', "GP207", "`tomorrow` is no date and time"),
        ('clock "2026-02-30 07:40"  at 1s expect true', "GP207", "`2026-02-30 07:40` is no date and time"),
        ('clock "2026-03-29 02:30"  at 1s expect true', "GP207",
         "there is no 2026-03-29 02:30 in Europe/Berlin: the clocks go forward there"),
        ("at 5 expect true", "GP103", "a time needs a duration, and `5` has no unit"),
        ("at 5/s expect true", "GP202", "a time needs a duration, but this is a rate"),
        ("at 1s - 2s expect true", "GP206", "this is before the test begins"),
        ("at 1500us expect true", "GP501", "time passes in whole milliseconds here"),
        ("from 2s to 1s expect true", "GP701", "this ends before it begins"),
        ("at 2s expect true  by 1s expect true", "GP701", "this is before the line above it"),
        ("at 1s expect low.max_inflight", "GP202", "`expect` needs a condition, but this is a plain number"),
        ("at 1s expect lo.pause", "GP201", "nothing is called `lo` here"),
        ("at 1s expect low.paus", "GP201", "`low` has no signal `paus`"),
        ("at 1s expect missing == 3", "GP701", "what is missing is not known: nothing is equal to it"),
        ("at 1s expect high.wait_p99 == missing", "GP701", "what is missing is not known: nothing is equal to it"),
        ("at 1s low.pause = true  at 1s expect true", "GP701",
         "`pause` is what the policy decides; a test sets signals"),
        ("at 1s low.held = true  at 1s expect true", "GP701", "`held` is what the policy decides; a test sets signals"),
        ("at 1s smooth = 3/s  at 1s expect true", "GP701", "`smooth` cannot be set"),
        ("at 1s day = true  at 1s expect true", "GP701", "`day` cannot be set"),
        ("at 1s high.wait_p99 = 3/s  at 1s expect true", "GP202",
         "`high.wait_p99` needs a duration, but this is a rate"),
        ("at 1s high.wait_p99 = 3ms - 4ms  at 1s expect true", "GP206", "`high.wait_p99` is less than nothing"),
        ("at 1s high.wait_p99 = low.wait_p99  at 1s expect true", "GP401",
         "`low.wait_p99` changes while the test runs; `high.wait_p99` is set to a value that is written here"),
        ("feed high.wait_p99 every 0ms = 3ms  at 1s expect true", "GP206", "samples need some time between them"),
        ("feed high.wait_p99 every 1ms = 3ms times 0  at 1s expect true", "GP206", "zero times is never"),
        ("feed high.wait_p99 every 1ms = 3ms  feed high.wait_p99 every 2ms = 3ms  at 1s expect true", "GP701",
         "`high.wait_p99` is fed twice"),
        ("at 1s expect world.x > 3", "GP701", "this test simulates no world"),
        ("simulate moon(x = 3)  at 1s expect true", "GP701", "there is no world `moon`"),
        ("simulate contention(capacity = 3/s)  at 1s expect true", "GP701",
         "`contention` does not know what arbitrate preempt does"),
        ("simulate memory()  at 1s expect true", "GP203", "`memory` also needs `total`"),
        ("simulate memory(total = 1GiB)  at 1s expect true", "GP203",
         "`memory` needs a class or an attached tenant, with memory that it wants"),
        ("simulate memory(total = 1GiB, 5)  at 1s expect true", "GP204", "arguments of a world have names"),
        ("simulate memory(total = 1GiB, lo = 1GiB)  at 1s expect true", "GP204", "`memory` has no `lo`"),
        ("simulate memory(total = 1GiB, total = 1GiB)  at 1s expect true", "GP303", "`total` is given twice"),
        ("simulate memory(total = 1/s, low = 1GiB)  at 1s expect true", "GP202",
         "`total` needs an amount of memory, but this is a rate"),
        ("simulate memory(total = 1GiB, low = 1GiB)  at 1s gpu.memory_free = 0B  at 1s expect true", "GP701",
         "`gpu.memory_free` comes from the world `memory`"),
        ("simulate memory(total = 1GiB, low = 1GiB)  at 1s world.lo = 0B  at 1s expect true", "GP201",
         "the world `memory` has no `lo`"),
        ("simulate memory(total = 1GiB, low = 1GiB)  at 1s world.low = missing  at 1s expect true", "GP701",
         "the world always has its values"),
        ("simulate memory(total = unlimited, low = 1GiB)  at 1s expect true", "GP206", "`total` cannot be `unlimited`"),
        ("simulate memory(total = 1GiB, low = unlimited)  at 1s expect true", "GP206", "`low` cannot be `unlimited`"),
        ("simulate memory(total = 1GiB, low = 1GiB)  at 1s world.low = unlimited  at 1s expect true", "GP206",
         "`world.low` cannot be `unlimited`"),
        ("simulate memory(total = 1GiB, low = 1GiB - 2GiB)  at 1s expect true", "GP206", "`low` is less than nothing"),
        ('simulate memory(total = 1GiB, low = 1GiB)  replay "a"  at 1s expect true', "GP701",
         "a test replays a recording or simulates a world, not both"),
        ("attach a {}  attach a {}  at 1s expect true", "GP205", "`a` is attached twice"),
        ("attach low {}  at 1s expect true", "GP205", "`low` has a meaning already: a tenant cannot be called that"),
        ("attach gpu {}  at 1s expect true", "GP205", "`gpu` has a meaning already: a tenant cannot be called that"),
        ('attach a { labels = "tier" }  at 1s expect true', "GP202", "`labels` needs a list of texts"),
        ('attach a { labels = ["tier"] }  at 1s expect true', "GP202", "a label is a text like `key=value`"),
        ('attach a { labels = ["k=1", "k=2"] }  at 1s expect true', "GP303", "the label `k` is given twice"),
        ("attach a { label = [] }  at 1s expect true", "GP204", "a tenant has no `label`"),
        ("attach a { exe = 3 }  at 1s expect true", "GP202", "`exe` needs a text"),
        ("attach a {}  at 1s expect a.clas == low", "GP201", "`a` has no signal `clas`"),
        ("attach a {}  at 1s expect a", "GP202", "`a` is a tenant, not a value"),
        ("attach a {}  at 1s expect a.tenants > 3", "GP405", "`tenants` is measured of a class, not of one tenant"),
        ("attach a {}  at 1s low.active = true  at 1s expect true", "GP701",
         "`low` has attached tenants; set it of those"),
        ("attach a {}  at 1s a.class = low  at 1s expect true", "GP701", "`a.class` cannot be set"),
        ("attach a {}  simulate memory(total = 1GiB, low = 1GiB)  at 1s expect true", "GP701",
         "`low` has attached tenants; the world needs those"),
    ],
)  # fmt: skip
def test_tests_that_cannot_be_run(steps: str, code: str, said: str | None) -> None:
    if not code:
        assert fails(steps)
        return
    found = refused(steps)
    assert [each for each, _ in found] == [code]
    if said is not None:
        assert found[0][1] == said


def test_tests_of_no_policy_or_of_a_wrong_one() -> None:
    def found(text: str) -> list[tuple[str, str]]:
        read = from_texts({"p.gpol": POLICIES, "t.gpol": f"gpol 1\n{text}"})
        result = run_test(*read.tests[0], read, {})
        assert result.outcome == "invalid"
        return [(each.code, each.message) for each in result.diagnostics]

    assert found('test "t" { at 1s expect true }') == [("GP701", "this test does not say which policy it is about")]
    assert found('test "t" { policy "mixx" at 1s expect true }') == [("GP701", "no policy is called `mixx`")]
    (wrong,) = found('test "t" { policy "mix"(quiet = 3GiB) at 1s expect true }')
    assert wrong[0] == "GP202"
    assert found('policy "bad" { class a { match any } x = } test "t" { policy "bad" at 1s expect true }') == [], (
        "what is wrong with the policy is said there"
    )


def test_the_lock_holds_not_the_gate() -> None:
    def why(steps: str, policy: str = '"mix"') -> str:
        ((code, said),) = refused(steps, policy)
        assert code == "GP701"
        return said

    assert why("at 1s expect job.held", '"lock"') == "`held` says nothing under this arbiter"
    assert why("at 1s expect all.passed == 3", '"cap"') == "`passed` says nothing under this arbiter"
    assert why("at 1s expect all.share == equal", '"cap"') == "a policy without `arbitrate` sets no shares"
    assert why("at 1s expect low.max_hold == 3s") == "`max_hold` has no effect under `arbitrate preempt`"
    passes("at 1s expect not all.held", '"cap"')


def test_a_world_has_bounds() -> None:
    assert refused("simulate turns(job = 1001)  at 1s expect true", '"lock"') == [("GP206", "`job` is too large here")]
    assert refused("simulate turns(job = 1)  at 1s world.job = 1001  at 1s expect true", '"lock"') == [
        ("GP206", "`job` is too large here")
    ]


def test_several_mistakes_are_found_in_one_pass() -> None:
    found = refused("at 1 expect true  at 1s expect lo.pause  at 1s low.pause = true")
    assert [code for code, _ in found] == ["GP103", "GP201", "GP701"]


def test_the_same_each_time() -> None:
    steps = "feed high.launch_rate every 10ms = 1/s, 7/s times 3, 2/s  from 0s to 3s expect smooth < 1900/h"
    assert human(list(run(steps).diagnostics)) == human(list(run(steps).diagnostics)) != ""
