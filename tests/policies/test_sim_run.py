"""One policy through simulated time: which series are kept, and what they say."""

import pytest

from gpud.policies.library import from_texts
from gpud.policies.render import human
from gpud.policies.resolve import resolve_policy
from gpud.policies.simulate.plot import draw_svg
from gpud.policies.simulate.run import plan_of, record_test, record_trace
from gpud.policies.simulate.series import Recording
from gpud.policies.simulate.terminal import draw
from gpud.policies.simulate.trace import TraceError

S = 10**9
LIBRARY = from_texts({"p.gpol": """gpol 1
policy "p" {
  param most = 4
  class high { match label("tier") == "online" }
  class low  { match any }
  arbitrate preempt { order = [high, low]  resume_after = 3ms }
  let slow = high.wait_p99 > 2ms
  when slow { low.max_inflight = most }
  when high.idle_for > 10s { low.max_inflight = 8 }
  each low as l { when l.queued > 5 { l.residency = host } }
}
policy "q" { class a { match any }  arbitrate open {}  a.max_launch_rate = 5/s }
"""})  # fmt: skip


def simulated(steps: str, duration: str = "20s", applied: str = '"p"', only: tuple[str, ...] = ()) -> Recording:
    plan, test, found = plan_of(applied, steps, duration, LIBRARY, {})
    assert plan is not None, human(found)
    assert test is not None
    recording, result = record_test(plan, test.name.span, only=only)
    assert result.outcome == "passed"
    return recording


def values(recording: Recording, name: str) -> list[tuple[int, object]]:
    series = next(series for series in recording.series if series.name == name)
    return list(zip(series.times, series.values, strict=True))


def test_what_matters_is_kept() -> None:
    recording = simulated("at 1s high.active = true  at 2s high.wait_p99 = 3ms  at 3s high.wait_p99 = missing")
    assert recording.title == 'policy "p", 20s simulated'
    assert {series.name: series.kind for series in recording.series} == {
        "high.wait_p99": "signal", "high.idle_for": "signal", "high.active": "signal",
        "slow": "let", "high.held": "gate", "low.held": "gate", "low.max_inflight": "knob", "low.residency": "knob",
    }  # fmt: skip
    inf = float("inf")
    assert values(recording, "high.wait_p99") == [(0, 0), (2 * S, 3_000_000), (3 * S, None)]
    assert values(recording, "slow") == [(0, False), (2 * S, True), (3 * S, None)]
    assert values(recording, "low.held") == [(0, False), (1 * S, True)]
    assert values(recording, "low.max_inflight") == [(0, 8), (1 * S, inf), (2 * S, 4), (4 * S, inf)]
    assert recording.end_ns == 20 * S


def test_what_counts_on_is_drawn_as_a_slope() -> None:
    recording = simulated("at 0s high.active = true  at 2s high.active = false")
    counted = values(recording, "high.idle_for")
    assert len(counted) > 300
    assert all(value == max(0, t_ns - 2 * S) for t_ns, value in counted)


def test_arguments_tenants_and_names() -> None:
    recording = simulated("attach a {}  at 1s a.queued = 9  at 2s high.wait_p99 = 3ms", applied='"p"(most = 2)',
                          only=("a.residency", "low.max_inflight", "a.queued"))  # fmt: skip
    assert [series.name for series in recording.series] == ["a.queued", "low.max_inflight", "a.residency"]
    assert values(recording, "a.residency") == [(0, "device"), (1 * S, "host")]
    assert values(recording, "low.max_inflight") == [(0, 8), (2 * S, 2)], "the smaller of two"


def test_mistakes_show_the_lines_that_were_made_of_it() -> None:
    for applied, steps, duration, said in (
        ('"r"', "", "5s", "no policy is called `r`"),
        ('"p"', "simulate moon()", "5s", "there is no world `moon`"),
        ('"p"', "", "five", "nothing is called `five` here"),
        ('"p"', "}", "5s", " --> <sim>:"),
        ("p", "", "5s", " --> <sim>:"),
    ):
        plan, _, found = plan_of(applied, steps, duration, LIBRARY, {})
        assert plan is None
        assert said in human(found)


def test_a_test_that_fails_is_drawn_up_to_there() -> None:
    text = 'gpol 1\ntest "t" { policy "p" at 1s high.wait_p99 = 3ms at 2s expect not slow at 9s expect true }'
    library = from_texts({"p.gpol": LIBRARY.sources[0].text, "t.gpol": text})
    from gpud.policies.simulate.resolve_test import resolve_test

    plan, _ = resolve_test(*library.tests[0], library, {})
    assert plan is not None
    recording, result = record_test(plan, library.tests[0][0].name.span)
    assert result.outcome == "failed"
    assert recording.end_ns == 2 * S
    assert recording.title == 'policy "p", test "t"'
    assert recording.notes == ("`not slow` is false at 2s: slow is true",)
    assert recording.notes[0] in draw(recording)
    assert "`not slow` is false at 2s" in draw_svg(recording)


def test_a_recording_of_a_device() -> None:
    lines = ['{"gpud_trace": 1}\n', '{"t": 1, "high.wait_p99": "3ms", "high.active": true}\n',
             '{"t": 5, "high.x": 1}\n', '{"t": 7.0025, "high.wait_p99": 0}\n', '{"t": 9, "gpu.busy": 0}\n']  # fmt: skip
    ir, found = resolve_policy(*LIBRARY.policies["p"])
    assert ir is not None
    assert not found
    recording = record_trace(ir, {}, lines, "a.jsonl")
    assert recording.title == 'policy "p", a.jsonl'
    assert recording.end_ns == 9 * S
    assert values(recording, "low.max_inflight") == [(0, 8), (1 * S, 4), (7_005_000_000, float("inf"))]
    assert values(recording, "low.held") == [(0, False), (1 * S, True)]
    stopped = record_trace(ir, {}, lines, "a.jsonl", most=3)
    assert stopped.notes[0].startswith("the recording goes on: stopped at ")
    with pytest.raises(TraceError, match="nothing in it is read by the policy"):
        record_trace(ir, {}, lines[:1] + lines[4:], "a.jsonl")
    other, _ = resolve_policy(*LIBRARY.policies["q"])
    assert other is not None
    assert values(record_trace(other, {}, lines, "a.jsonl"), "a.max_launch_rate") == [(0, 5.0)]
