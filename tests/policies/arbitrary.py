"""Any policy, and anything it may see: strategies for property tests. Texts are correct but for what `check` finds."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from tests.policies.programs import TICK

CLASSES = 'class high { match label("tier") == "online" } class low { match any }'
HOURS = 'timezone "UTC" hours day = mon..fri 00:00..00:01, sat..sun 10:00..22:00 hours dusk = daily 00:02..00:03'
"""`day` ends a minute after a test's Monday begins."""

DURATIONS = ["5ms", "20ms", "50ms", "300ms", "1s", "2500ms"]
SIGNALS: dict[str, list[Any]] = {
    "high.active": [True, False, None],
    "high.busy": [0.0, 0.1, 0.3, 0.7, 1.0, None],
    "gpu.busy": [0.0, 0.25, 0.5, 1.0, None],
    "high.launch_rate": [0.0, 10.0, 700.0, 1_000.0, 1_130.0, 2_000.0, None],
    "high.idle_for": [0, 300_000_000, 2_000_000_000, float("inf"), None],
    "gpu.memory_free": [0, 1 << 30, 1 << 34, None],
}
SOMETIMES_UNKNOWN = {name: [*values[:-1], *values] for name, values in SIGNALS.items()}


@st.composite
def conditions(draw: st.DrawFn, lets: Sequence[str] = (), depth: int = 2) -> str:
    if depth and draw(st.booleans()):
        parts = [draw(conditions(lets, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        if len(parts) == 1:
            return f"not ({parts[0]})"
        return "(" + f" {draw(st.sampled_from(['and', 'or']))} ".join(parts) + ")"
    return draw(
        st.sampled_from(
            [
                "high.active",
                "not high.active",
                "high.busy < 20%",
                "high.busy > 60%",
                "gpu.busy > high.busy",
                "high.busy + gpu.busy >= 100%",
                "high.launch_rate > 900/s",
                "high.launch_rate * 100ms >= 100",
                "high.launch_rate / high.launch_rate == 1",
                "high.idle_for > 1s",
                "high.idle_for - high.idle_for == 0s",
                "min(high.busy, gpu.busy) < 30%",
                "gpu.memory_free < 2GiB",
                "day",
                "not dusk",
                "true",
                *lets,
            ]
        )
    )


@st.composite
def held(draw: st.DrawFn, lets: Sequence[str]) -> str:
    text = draw(conditions(lets))
    if draw(st.booleans()):
        text += f" for {draw(st.sampled_from(DURATIONS))}"
    if draw(st.booleans()):
        text += f" until {draw(conditions(lets))}"
        if draw(st.booleans()):
            text += f" for {draw(st.sampled_from(DURATIONS))}"
    return text


VALUES = {
    "low.pause": ["true", "false"],
    "low.admit": ["true", "false"],
    "low.yield": ["true", "false"],
    "low.residency": ["device", "host", "disk"],
    "low.max_inflight": ["1", "3", "8", "unlimited", "gpu.busy / 10%"],
    "low.max_launch_rate": [
        "100/s",
        "5_000/s",
        "unlimited",
        "high.launch_rate * 2",
        "min(high.launch_rate, 900/s)",
        "ewma(high.launch_rate, half_life = 20ms) * 50%",
        "aimd(hurt = high.busy > 60%, settle = 300ms, period = 100ms, start = 100/s, floor = 20/s, ceiling = 5_000/s, "
        "add = 25/s, multiply = 92%, ramp = 1.5)",
        "aimd(hurt = high.active, period = 50ms, start = 900/s, floor = 50/s, ceiling = 2_000/s, add = 10/s, "
        "multiply = 50%)",
    ],
    "high.max_launch_rate": ["7_000/s", "50/s"],
    "high.max_inflight_time": ["2ms", "unlimited", "high.idle_for / 3"],
}


@st.composite
def bindings(draw: st.DrawFn, knobs: Sequence[str] = tuple(VALUES), most: int = 3) -> str:
    chosen = draw(st.lists(st.sampled_from(knobs), unique=True, max_size=most))
    return " ".join(f"{knob} = {draw(st.sampled_from(VALUES[knob]))}" for knob in chosen)


@st.composite
def rules(draw: st.DrawFn, lets: Sequence[str], depth: int, knobs: Sequence[str] = tuple(VALUES)) -> str:
    kind = draw(st.sampled_from(["during", "when", "when"]))
    if kind == "during":
        hours = draw(st.sampled_from(["day", "dusk"]))
        early = draw(st.sampled_from(["", "", f" early {draw(st.sampled_from(DURATIONS))}"]))
        text = f"during {hours}{early}"
    else:
        text = f"when {draw(held(lets))}"
    text += f" {{ {draw(bodies(lets, depth, knobs))} }}"
    if draw(st.integers(0, 3)) == 0:
        text += f" else {{ {draw(bodies(lets, depth, knobs))} }}"
    return text


@st.composite
def bodies(draw: st.DrawFn, lets: Sequence[str], depth: int, knobs: Sequence[str] = tuple(VALUES)) -> str:
    inner = [draw(rules(lets, depth - 1, knobs)) for _ in range(draw(st.integers(0, 2)))] if depth else []
    return " ".join([draw(bindings(knobs)), *inner])


LETS = [
    ("calm", "ewma(high.launch_rate, half_life = 50ms)"),
    ("busier", "ewma(high.busy, half_life = 20ms) > 50%"),
    ("moved", "shifted(high.launch_rate, more_than = 12%, rising = 20ms, falling = 300ms)"),
    ("top", "peak(high.launch_rate, span = 640ms)"),
    ("forgetful", "peak(high.launch_rate, forget = high.active) > 900/s"),
    ("recent", "peak(high.busy, span = 1s, forget = gpu.busy > 40%) > 50%"),
    ("usual", "level(high.launch_rate, over = 200ms, forget = high.active)"),
    ("steered", "aimd(hurt = high.active, settle = 50ms, period = 20ms, start = 10%, floor = 5%, ceiling = 90%, "
     "add = 5%, multiply = 50%, ramp = 2) > 40%"),
]  # fmt: skip
CONDITION_LETS = {"busier", "moved", "forgetful", "recent", "steered"}


@st.composite
def guards(draw: st.DrawFn, lets: Sequence[str], knobs: Sequence[str] = tuple(VALUES)) -> str:
    return f"guard {draw(held(lets))} {{ {draw(bodies(lets, 1, knobs))} }}"


@st.composite
def parts(draw: st.DrawFn, knobs: Sequence[str] = tuple(VALUES)) -> tuple[list[str], list[str], list[str]]:
    """(lets, then bindings and rules, guards)"""
    chosen = draw(st.lists(st.sampled_from(LETS), unique=True, max_size=3))
    names = [name for name, _ in chosen if name in CONDITION_LETS]
    lets = [f"let {name} = {value}" for name, value in chosen]
    for name in ("this", "that")[: draw(st.integers(0, 2))]:  # a value that is looked at as it is
        lets.append(f"let {name} = {draw(conditions(names))}")
        names.append(name)
    members = [draw(bindings(knobs)), *(draw(rules(names, 2, knobs)) for _ in range(draw(st.integers(0, 3))))]
    return lets, members, [draw(guards(names, knobs)) for _ in range(draw(st.integers(0, 2)))]


def policy(*members: str) -> str:
    return f'gpol 1 policy "p" {{ {CLASSES} {HOURS} {" ".join(members)} }}'


policies = parts().map(lambda found: policy(*found[0], *found[1], *found[2]))

Trace = list[tuple[int, dict[str, Any]]]
"""(nanoseconds later, signals that are another then)"""

traces = st.lists(
    st.tuples(
        st.sampled_from([TICK, TICK, 2 * TICK, 10 * TICK, 60 * TICK, 110 * TICK, 400 * TICK]),
        st.fixed_dictionaries({}, optional={name: st.sampled_from(SOMETIMES_UNKNOWN[name]) for name in SIGNALS}),
    ),
    max_size=15,
)
"""Moments lie on the grid of ticks."""
