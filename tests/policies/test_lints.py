"""GP901 … GP907: what is not wrong and probably not meant."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpud.policies.check import week
from gpud.policies.check.whole import check_library
from gpud.policies.ir import IrDays, IrHours
from gpud.policies.library import read_directory
from gpud.policies.source import NOWHERE
from tests.policies.checking import codes, found_in, policy_text, quoted
from tests.policies.goldens import VLLM

SPEC = Path(__file__).parent / "spec"
SHIPPED = Path(__file__).parent.parent.parent / "policies"
BERLIN = 'timezone "Europe/Berlin"\n'


@pytest.mark.parametrize("directory", [SPEC, SHIPPED], ids=["specification", "shipped"])
def test_complete_policies_check_without_a_finding(directory: Path) -> None:
    assert check_library(read_directory(directory), {"vllm": VLLM}) == []


def test_a_guard_without_until() -> None:
    (one,) = found_in(policy_text("guard high.wait_p99 > 20ms for 1s { low.pause = true }"))
    assert one.code == "GP901"
    assert quoted(one.primary) == "guard high.wait_p99 > 20ms for 1s"
    assert codes(policy_text("guard high.wait_p99 > 20ms until high.wait_p99 < 5ms { low.pause = true }")) == []
    assert codes(policy_text("guard true { low.pause = true }")) == []


# ------------------------------------------------------------------------------------------------------------- GP902


def test_labels_that_anybody_may_claim() -> None:
    classes = (
        'class high { match label("tier") == "online" or user == "ann" }  class low { match label("app") == "x" }\n'
    )
    text = policy_text("", classes=classes, mode="preempt { order = [high, low]  resume_after = 3ms }")
    assert codes(text) == []
    assert codes(text, claims=frozenset()) == []
    (one,) = found_in(text, claims=frozenset({"tier", "plan"}))
    assert (one.code, quoted(one.primary)) == ("GP902", 'label("tier")')
    assert codes(text, claims=frozenset({"tier", "app"})) == ["GP902", "GP902"]


# ---------------------------------------------------------------------------------------------------- GP903 and GP904


def calendar(hours: str, body: str) -> list[tuple[str, str, str]]:
    found = found_in(policy_text(f"{BERLIN}{hours}\n{body}"))
    return [(one.message, quoted(one.primary), one.primary.text) for one in found if one.code == "GP903"]


DAY_NIGHT = "during day { low.max_inflight = 4 }  during night { low.max_inflight = 9 }"


@pytest.mark.parametrize(
    ("hours", "message", "when"),
    [
        ("hours day = daily 08:00..22:00  hours night = daily 23:00..08:00", "leave a gap", "daily 22:00..23:00"),
        ("hours day = daily 08:00..22:00  hours night = daily 21:30..08:00", "overlap", "daily 21:30..22:00"),
        (
            "hours day = mon..fri 08:00..22:00, sat 10:00..22:00, sun 10:00..22:00"
            "  hours night = mon..thu 22:00..08:00, fri..sat 22:00..10:00, sun 22:00..07:00",
            "leave a gap",
            "mon 07:00..08:00",
        ),
        ("hours day = daily 00:00..23:00  hours night = sat..sun 23:00..24:00", "leave a gap", "mon..fri 23:00..24:00"),
        (
            "hours day = daily 08:00..22:00  hours night = daily 22:30..07:30",
            "leave a gap",
            "daily 07:30..08:00, daily 22:00..22:30",
        ),
    ],
)
def test_hours_that_look_meant_to_share_out_the_week(hours: str, message: str, when: str) -> None:
    assert calendar(hours, DAY_NIGHT) == [(f"`day` and `night` {message}", "during night", when)]


def test_a_gap_is_named_once_whatever_many_knobs_are_set_around_it() -> None:
    hours = "hours day = daily 08:00..22:00  hours night = daily 23:00..08:00"
    both = "low.max_inflight = 4  low.max_launch_rate = 9/s"
    text = policy_text(f"{BERLIN}{hours}\nduring day {{ {both} }}  during night {{ {both} }}")
    (found,) = [one for one in found_in(text) if one.code == "GP903"]
    assert [(quoted(label), label.text) for label in found.labels] == [("during day", "sets `low.max_inflight` too")]


@pytest.mark.parametrize(
    ("hours", "body"),
    [
        ("hours day = daily 08:00..22:00  hours night = daily 22:00..08:00", DAY_NIGHT),
        ("hours day = daily 08:00..12:00  hours night = daily 22:00..23:00", DAY_NIGHT),  # not meant to be all
        ("hours day = daily 08:00..22:00  hours night = daily 09:00..10:00", DAY_NIGHT),  # one inside the other
        (
            "hours day = daily 08:00..22:00  hours night = daily 22:30..08:00",
            "during day { low.max_inflight = 4 }  during night { mid.max_inflight = 9 }",
        ),
        (
            "hours day = daily 08:00..22:00  hours night = daily 22:30..08:00",
            "during day { low.max_inflight = 4 } else { low.max_inflight = 9 }  during night { mid.max_inflight = 9 }",
        ),
        (
            "hours day = daily 08:00..22:00  hours night = daily 22:00..08:00",
            "during day early 15min { low.max_inflight = 4 }  during night { low.max_inflight = 9 }",
        ),
    ],
)
def test_hours_that_need_not_share_out_the_week(hours: str, body: str) -> None:
    assert calendar(hours, body) == []


def test_three_hours_inside_a_rule() -> None:
    hours = "hours a = daily 00:00..08:00  hours b = daily 08:00..16:00  hours c = daily 16:30..24:00"
    rules = " ".join(f"during {name} {{ low.max_inflight = {n} }}" for n, name in enumerate("abc", 1))
    assert calendar(hours, f"when high.active {{ {rules} }}") == [
        ("`a`, `b` and `c` leave a gap", "during c", "daily 16:00..16:30")
    ]


def test_an_overlap_on_a_share_is_an_error_and_said_once() -> None:
    hours = "hours day = daily 08:00..22:00  hours night = daily 21:30..08:00"
    body = "during day { low.share = equal }  during night { low.share = weight(2) }"
    assert codes(policy_text(f"{BERLIN}{hours}\n{body}")) == ["GP301"]


def test_hours_without_a_time_zone() -> None:
    hours = "hours day = daily 08:00..22:00\n hours off = sat..sun\n during day { low.pause = true }"
    (one,) = found_in(policy_text(hours + "during off { low.pause = true }"))
    assert one.code == "GP904"
    assert quoted(one.primary) == "hours day = daily 08:00..22:00"


SPANS = st.builds(
    lambda days, begin, end: IrDays(tuple(sorted(days)), begin, end, NOWHERE),
    st.sets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(0, 1440),
)
HOURS = st.lists(SPANS, min_size=1, max_size=3).map(lambda spans: IrHours("x", tuple(spans), NOWHERE))


def minutes(hours: IrHours, early: int = 0) -> set[int]:
    found = set()
    for span in hours.spans:
        end = span.end_min if span.end_min > span.begin_min else span.end_min + 1440
        for day in span.days:
            found |= {(day * 1440 + minute) % 10080 for minute in range(span.begin_min - early, end)}
    return found


def as_set(spans: week.Week) -> set[int]:
    assert all(begin < end for begin, end in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    return {minute for begin, end in spans for minute in range(begin, end)}


@given(HOURS, HOURS, st.integers(0, 12_000))
def test_sets_of_minutes(one: IrHours, other: IrHours, early: int) -> None:
    left, right = week.week_of(one), week.week_of(other, early)
    assert as_set(left) == minutes(one)
    assert as_set(right) == minutes(other, min(early, 10080))
    assert as_set(week.union((left, right))) == as_set(left) | as_set(right)
    assert set(range(10080)) - as_set(left) == as_set(week.rest(left))
    both = week.common(left, right)
    assert {minute for begin, end in both for minute in range(begin, end)} == as_set(left) & as_set(right)
    assert week.length(left) == len(minutes(one))


@pytest.mark.parametrize(
    ("spans", "shown"),
    [
        (((0, 1440),), "mon 00:00..24:00"),
        (((9600, 10080), (0, 60)), "sun 16:00..01:00"),
        (((60, 120), (1500, 1560), (2940, 3000)), "mon..wed 01:00..02:00"),
        (((60, 120), (2940, 3000)), "mon, wed 01:00..02:00"),
        (((1380, 1500),), "mon 23:00..01:00"),
        (((60, 2940),), "mon 01:00..01:00 2 days later"),
        (((0, 10), (1500, 1510), (2990, 3000)), "mon 00:00..00:10, tue 01:00..01:10, wed 01:50..02:00"),
        (
            ((0, 10), (1500, 1510), (2990, 3000), (4400, 4410)),
            "mon 00:00..00:10, tue 01:00..01:10, wed 01:50..02:00, and 1 more",
        ),
    ],
)
def test_how_a_week_is_shown(spans: week.Week, shown: str) -> None:
    assert week.show(tuple(sorted(spans))) == shown


# ------------------------------------------------------------------------------------------------------------- GP905


def unused(body: str, **more: str) -> list[str]:
    return [one.message for one in found_in(policy_text(body, **more)) if one.code == "GP905"]


def test_what_nothing_uses() -> None:
    body = """
      timezone "UTC"
      param p1 = 3ms    param p2 = 5%
      hours h1 = daily  hours h2 = daily 08:00..09:00
      let l1 = low.busy  let l2 = high.busy
      each low as n { let l3 = n.busy  let l4 = n.active  when l4 { n.residency = host } }
      when h2 and l2 > p2 { low.pause = true }
    """
    assert unused(body) == [
        "param `p1` is never used",
        "hours `h1` is never used",
        "let `l1` is never used",
        "let `l3` is never used",
    ]


def test_tests_use_what_they_read() -> None:
    body = "let quick = high.busy > 5%  let slow = high.busy < 5%  let other = low.busy"
    text = policy_text(body) + 'test "t" { policy "p"  at 1s expect not quick }\n'
    text += 'policy "q" { class a { match any } arbitrate open {} let other = a.busy }\n'
    text += 'test "u" { policy "q"  at 1s high.busy = 3%  at 1s expect other < 5% }\n'.replace("high", "a")
    assert [one.message for one in found_in(text)] == ["let `slow` is never used", "let `other` is never used"]


def test_a_class_without_any_effect() -> None:
    only = "  class a { match any }\n"
    two = '  class a { match user == "x" }\n' + "  class b { match any }\n"
    assert unused("", classes=only, mode="open {}") == []
    assert unused("", classes=two, mode="open {}") == []
    assert unused("a.pause = true", classes=two, mode="open {}") == ["class `b` is never used"]
    assert unused("b.pause = true", classes=two, mode="open {}") == [], "it keeps its members out of `b`"
    assert unused("a.pause = true", classes=two, mode="") == ["class `b` is never used"]
    assert unused("a.pause = true", classes=two.replace("any", "any limit { tenants = 3 }"), mode="open {}") == []
    assert unused("a.pause = true", classes=two) == [], "under `share` it has one"
    assert unused("when b.active { a.pause = true }", classes=two, mode="open {}") == []


def test_no_warning_beside_an_error_that_may_be_its_reason() -> None:
    assert codes(policy_text("let speed = low.launch_rate\n when speeed > 3/s { low.pause = true }")) == ["GP201"]
    assert codes(policy_text("let speed = low.launch_rate") + 'test "x" { policy "p" at 1s expect speed > }') == [
        "GP101"
    ]


# ------------------------------------------------------------------------------------------------------------- GP906

QUOTAS = """
  class gold    { match label("plan") == "gold"  limit { memory = label_bytes("m", default = 2GiB)  tenants = 2 } }
  class scratch { match label("plan") == "none"  limit { memory = 2GiB  tenants = 8 } }
  class batch   { match user == "b"              limit { memory = 1GiB  tenants = 4 } }
  class each_   { match user == "c"  per = user  limit { memory = 1GiB  tenants = 4 } }
  class rest    { match any                      limit { memory = 1GiB } }
"""


def flaps(body: str) -> list[tuple[str, tuple[str, ...]]]:
    found = found_in(policy_text(body, mode="", classes=QUOTAS))
    return [(one.message, one.helps) for one in found if one.code == "GP906"]


@pytest.mark.parametrize(
    ("way_back", "freed", "enough"),
    [
        ("gpu.memory_free > 6GiB", "16GiB", "18GiB"),
        ("gpu.memory_free > 17GiB for 1min", "16GiB", "18GiB"),
        ("gpu.memory_free >= 17GiB", "16GiB", "18GiB"),
        ("6GiB < gpu.memory_free", "16GiB", "18GiB"),
        ("gpu.memory_free > 6GiB or gold.active", "16GiB", "18GiB"),
        ("not gpu.memory_free < 6GiB", "16GiB", "18GiB"),
    ],
)
def test_a_way_back_within_reach(way_back: str, freed: str, enough: str) -> None:
    for kind in ("guard", "when"):
        body = f"{kind} gpu.memory_free < 2GiB for 500ms until {way_back} {{ scratch.residency = host }}"
        ((message, helps),) = flaps(body)
        assert message == f"moving `scratch` out frees up to {freed} by itself: that is enough to end this `{kind}`"
        assert helps == (f"let it end above {enough} at the earliest: until gpu.memory_free > {enough}",)


@pytest.mark.parametrize(
    "body",
    [
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 20GiB { scratch.residency = host }",
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 18GiB { scratch.residency = host }",
        "guard gpu.memory_free <= 2GiB until gpu.memory_free > 18GiB { scratch.residency = host }",
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 6GiB { scratch.pause = true }",
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 6GiB and not gold.active { scratch.residency = host }",
        # how much these free is not known
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 6GiB { gold.residency = host }",
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 6GiB { each_.residency = host }",
        "guard gpu.memory_free < 2GiB until gpu.memory_free > 6GiB { rest.residency = host }",
        # begins for another reason
        "when gold.active until not gold.active { scratch.residency = host }",
        "when gpu.memory_free > 2GiB until gpu.memory_free < 1GiB { scratch.residency = host }",
        "when gold.active until gpu.memory_free > 1GiB { scratch.residency = host }",
        "when scratch.memory_used > 9GiB until scratch.idle_for > 1min { scratch.residency = host }",
    ],
)
def test_a_way_back_beyond_reach(body: str) -> None:
    assert flaps(body) == []


def test_several_classes_add_up() -> None:
    body = (
        "guard gpu.memory_free < 2GiB until gpu.memory_free > %s { scratch.residency = host  batch.residency = disk }"
    )
    assert flaps(body % "22GiB") == []
    ((message, helps),) = flaps(body % "21GiB")
    assert message.startswith("moving `scratch` and `batch` out frees up to 20GiB")
    assert "22GiB" in helps[0]


def test_without_a_way_back_anything_freed_is_enough() -> None:
    for name in ("scratch", "rest"):
        ((message, _),) = flaps(f"when gpu.memory_free < 2GiB {{ {name}.residency = host }}")
        assert "enough to end this `when`" in message


@pytest.mark.parametrize(
    "body",
    [
        "when rest.memory_used > 9GiB until rest.memory_used < 1GiB { rest.residency = host }",
        "when rest.memory_used > 9GiB { rest.residency = disk }",
        "each rest as n { when n.memory_used > 1GiB until n.memory_used < 500MiB { n.residency = host } }",
    ],
)
def test_what_a_class_holds_is_nothing_once_it_is_out(body: str) -> None:
    ((message, helps),) = flaps(body)
    assert message.startswith("moving `rest` out is enough to end this `when`")
    assert helps == ("end it by something that it does not change itself",)


# ------------------------------------------------------------------------------------------------------------- GP907

AIMD = "period = 100ms, start = 100/s, floor = 20/s, ceiling = 50_000/s, add = 25/s, multiply = 92%"


@pytest.mark.parametrize(
    ("lets", "hurt", "marked"),
    [
        ("let top = peak(high.busy, span = 60s)", "high.busy < top * 97%", "peak(high.busy, span = 60s)"),
        ("let top = peak(high.busy, span = 1h)  let bad = high.busy < top  let hurt = bad or low.active", "hurt", None),
        ("let top = peak(high.launch_rate)", "high.launch_rate < top", ""),
        ("let top = peak(high.launch_rate, span = unlimited, forget = high.active)", "high.launch_rate < top", ""),
        ("let top = peak(high.launch_rate, span = 9s)  let x = top > 3/s", "high.busy > 3% and not mid.active", ""),
    ],
)  # fmt: skip
def test_a_baseline_that_forgets_by_age(lets: str, hurt: str, marked: str | None) -> None:
    found = found_in(policy_text(f"{lets}\nlow.max_launch_rate = aimd(hurt = {hurt}, {AIMD})"))
    found = [one for one in found if one.code != "GP905"]
    if marked == "":
        assert found == []
        return
    (one,) = found
    assert one.code == "GP907"
    assert quoted(one.primary).startswith("peak(")
    assert quoted(one.labels[0]).startswith("aimd")
    if marked:
        assert quoted(one.primary) == marked
