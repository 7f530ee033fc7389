"""What is said of mistakes that come in several shapes: exactly these findings, and nothing that follows from them."""

import pytest

from gpud.policies.diagnostics import Diagnostic
from tests.policies.checking import found_in, quoted

HIGH = 'class high { match label("tier") == "online" }'
LOW = "class low { match any }"
ORDER = "arbitrate preempt { order = [high, low]  resume_after = 3ms }"


def text(body: str, *, high: str = HIGH, low: str = LOW, mode: str = ORDER, more: str = "") -> str:
    return f'gpol 1\npolicy "p" {{\n  {high}\n  {low}\n  {mode}\n  {body}\n}}\n{more}\n'


def said(source: str) -> list[str]:
    """`GP201 'marked' message = help; help` of each."""
    return [_line(one) for one in found_in(source) if not one.is_warning]


def _line(one: Diagnostic) -> str:
    helps = f" = {'; '.join(one.helps)}" if one.helps else ""
    return f"{one.code} '{quoted(one.primary)}' {one.message}{helps}"


# ------------------------------------------------------------------------------------------------ without effect

ARBITERS = {
    "open": 'policy "a" { class all { match any } arbitrate open {} }',
    "preempt": f'policy "a" {{ {HIGH} {LOW} {ORDER} }}',
    "exclusive": 'policy "a" { class all { match any } arbitrate exclusive { max_hold = 9s } }',
}


def limited(binding: str, mode: str = "", head: str = "") -> list[str]:
    """A policy `l` with that binding beside an arbiter; without one if there is no `mode`."""
    names = '"l"' if not mode else '"a", "l"'
    source = f'gpol 1\n{ARBITERS.get(mode, "")}\npolicy "l" {{ {head} class x {{ match any }} {binding} }}\n'
    return said(f"{source}apply {names} to gpu *\n")


@pytest.mark.parametrize(
    ("binding", "mode", "acts"),
    [
        ("x.yield = true", "open", "preempt"),
        ("x.yield = true", "exclusive", "preempt"),
        ("x.max_hold = 3s", "open", "exclusive"),
        ("x.max_hold = 3s", "preempt", "exclusive"),
        ("when x.active { x.max_hold = 3s }", "preempt", "exclusive"),
        ("x.yield = true", "", "preempt"),
        ("x.max_hold = 3s", "", "exclusive"),
    ],
)
def test_a_limiter_s_knob_under_an_arbiter_that_does_not_act_on_it(binding: str, mode: str, acts: str) -> None:
    knob = "x.yield" if "yield" in binding else "x.max_hold"
    assert limited(binding, mode) == [
        f"GP403 '\"l\"' `{knob}` of `l` has no effect under `arbitrate {mode or 'open'}`"
        f" = `{knob[2:]}` acts under `arbitrate {acts}`"
    ]


@pytest.mark.parametrize(
    ("binding", "mode"), [("x.yield = true", "preempt"), ("x.max_hold = 3s", "exclusive"), ("x.max_inflight = 3", "")]
)
def test_it_acts_under_the_right_one(binding: str, mode: str) -> None:
    assert limited(binding, mode) == []


@pytest.mark.parametrize(
    ("binding", "value"),
    [
        ("x.yield = false", "false"),
        ("x.pause = false", "false"),
        ("x.admit = true", "true"),
        ("x.max_inflight = unlimited", "unlimited"),
        ("x.residency = device", "device"),
        ("when x.active { x.yield = false } else { x.yield = false }", "false"),
    ],
)
@pytest.mark.parametrize("mode", ["", "open", "preempt"])
def test_what_a_limiter_only_loosens_acts_under_no_arbiter(binding: str, value: str, mode: str) -> None:
    (found,) = limited(binding, mode)
    assert found.startswith("GP403 'x.")
    assert f"has no effect: a policy without `arbitrate` only tightens, and `{value}` does not" in found


@pytest.mark.parametrize(
    ("binding", "head"),
    [
        ("x.yield = true when x.active { x.yield = false }", ""),
        ("x.max_inflight = 4 each x as t { when t.active { t.max_inflight = unlimited } }", ""),
        ("x.max_inflight = most", "param most = unlimited"),
    ],
)
def test_a_limiter_may_loosen_what_it_tightens_itself(binding: str, head: str) -> None:
    assert limited(binding, "preempt", head) == []


def test_a_guard_that_loosens_is_said_once() -> None:
    (found,) = limited("guard x.active until x.idle_for > 1s { x.pause = false }")
    assert found.startswith("GP307")


@pytest.mark.parametrize("value", ["fail", "wait(3s)", "spill(host)"])
@pytest.mark.parametrize("memory", ["", "memory = unlimited"])
def test_over_memory_without_a_limit_of_memory(value: str, memory: str) -> None:
    assert said(text("", low=f"class low {{ match any limit {{ {memory} over_memory = {value} }} }}")) == [
        f"GP403 'over_memory = {value}' `over_memory` has no effect: this `limit` does not limit `memory`"
        " = set `memory`, or leave it out"
    ]


def test_over_memory_beside_a_limit_that_is_wrong_or_a_label() -> None:
    (found,) = said(text("", low="class low { match any limit { memory = 3s over_memory = wait(3s) } }"))
    assert found.startswith("GP202 '3s'")
    assert said(text("", low='class low { match any limit { memory = label_bytes("m") over_memory = fail } }')) == []


def test_nothing_is_above_the_first_rank() -> None:
    rising = HIGH.replace("}", " rise_after = 3s }")
    assert said(text("", high=rising)) == [
        "GP403 'rise_after = 3s' `rise_after` has no effect: no rank is above that of `high` = leave it out"
    ]
    assert said(text("high.yield = false when low.active { high.yield = true }")) == [
        "GP403 'high.yield' `high.yield` has no effect: no rank is above that of `high` = leave it out"
    ]
    equal = ORDER.replace("[high, low]", "[[high, low]]")
    assert len(said(text("high.yield = false  low.yield = false", mode=equal))) == 2
    assert said(text("low.yield = false", low="class low { match any rise_after = 3s }")) == []


# ---------------------------------------------------------------------------------------- nothing that follows


@pytest.mark.parametrize("name", ["gpu", "host", "ewma", "ms", "user", "any", "min"])
def test_a_name_that_cannot_be_is_said_once(name: str) -> None:
    for defined in (f"let {name} = 3", f"param {name} = 3"):
        found = said(text(f"{defined}  low.max_inflight = {name}"))
        assert [one[: len(name) + 8] for one in found] == [f"GP104 '{name}'"], found


@pytest.mark.parametrize("name", ["h", "gpu", "ewma", "exe"])
def test_a_class_that_cannot_be_called_that(name: str) -> None:
    found = said(
        text(
            f"{name}.max_inflight = 3  when {name}.active for 1s {{ low.pause = true }}  each {name} as j {{ }}",
            high=HIGH.replace("high", name),
            mode=ORDER.replace("high", name),
        )
    )
    assert [one.partition(" =")[0].partition(" `")[0] for one in found] == [f"GP104 '{name}'"], found


def test_a_tenant_that_cannot_be_called_that() -> None:
    (found,) = said(text("each low as high { high.max_inflight = 1 }"))
    assert found == "GP205 'high' `high` is defined twice = choose another name for one of them"
    (found,) = said(text("each low as h { when h.active { h.max_inflight = 1 } }"))
    assert found.startswith("GP104 'h'")


def test_hours_that_cannot_be_called_that() -> None:
    (found,) = said(text('timezone "UTC" hours gpu = daily 08:00..10:00 during gpu { low.pause = true }'))
    assert found.startswith("GP104 'gpu'")


def test_other_unknown_names_are_still_said() -> None:
    found = said(text("let ms = 3  low.max_inflight = mss"))
    assert [one[:5] for one in found] == ["GP104", "GP201"]


# ------------------------------------------------------------------------------------------------- the right help

IN_A_CLASS = "`{0}` is a knob; bind it in the policy: `low.{0} = …`"
BODIES = [
    # blocks in rules
    *(
        (f"{head} {{ {block} }}", f"GP101 '{word}'", f"`{word}` does not stand in {where}: write it in the policy")
        for head, where in (("when low.active", "a rule"), ("guard low.active", "a guard"), ("each low as j", "a rule"))
        for word, block in (
            ("arbitrate", "arbitrate share { period = 2ms }"),
            ("arbitrate", "low.pause = true arbitrate open {}"),
            ("swap", "swap { keep = 2GiB }"),
            ("admit", "low.residency = host admit { memory = 100% }"),
            ("failsafe", "failsafe { daemon_lost = open }"),
        )
    ),
    ("when high.active { limit { memory = 2GiB } }", "GP101 'limit'", "`limit` stands in a class"),
    ("when high.active { low { pause = true } }", "GP101 '{'", "knobs are set one by one: `low.pause = …`"),
    ("low { pause = true }", "GP204 'low'", "set its knobs one by one: `low.pause = …`"),
    # `for` ends a condition
    (
        "when high.active for 1s and high.queued > 3 { low.pause = true }", "GP202 '1s and high.queued > 3'",
        "write `when A and B for 1s`, or put one condition into a rule of its own",
    ),
    (
        "when high.active until low.active for 3s or low.queued < 2 { low.pause = true }",
        "GP202 '3s or low.queued < 2'", "write `until A or B for 3s`",
    ),
    (
        "guard high.active for 1s and low.queued > 1 or low.active until high.idle_for > 1s { low.pause = true }",
        "GP202 '1s and low.queued > 1 or low.active'", "write `guard A or B for 1s`",
    ),
    ("when high.active for 1s and low.active for 2s { low.pause = true }", "GP101 'for'", "one `for` ends a condition"),
    ("when high.active after 1s { low.pause = true }", "GP101 'after'", "write `for 1s`"),
    ("when high.active { low.pause = true } until low.active", "GP101 'until'", "`until` stands before the `{`"),
    ('when high.active { low.pause = true } because "x"', "GP101 'because'", "`because` stands before the `{`"),
    ("high.low.pause = true", "GP201 'low'", "write `low.pause`"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "start", "helped"), BODIES, ids=[body for body, _, _ in BODIES])
def test_one_finding_with_the_help(body: str, start: str, helped: str) -> None:
    (found,) = said(text(body))
    assert found.startswith(start)
    assert helped in found


def test_for_twice_is_right_on_both_sides_of_until() -> None:
    assert said(text("when high.active for 1s until low.active for 2s { low.pause = true }")) == []


def test_other_mistakes_behind_for_are_still_said() -> None:
    found = said(text("when high.active for 1s and hihg.queued > 3 { low.pause = true }"))
    assert [one[:5] for one in found] == ["GP202", "GP201"]


@pytest.mark.parametrize(
    ("low", "start", "helps"),
    [
        ("class low { match any max_inflight = 1 }", "GP204 'max_inflight'",
         f"{IN_A_CLASS.format('max_inflight')}; `max_inflight` is a setting of `arbitrate preempt`"),
        ("class low { match any max_hold = 1s }", "GP204 'max_hold'",
         f"{IN_A_CLASS.format('max_hold')}; `max_hold` is a setting of `arbitrate exclusive`"),
        ("class low { match any pause = true }", "GP204 'pause'", IN_A_CLASS.format("pause")),
        ('class low { match label.tier == "a" }', "GP201 'label.tier'", 'write `label("tier")`'),
        ('class low { match label("t") == ["a", "b"] }', "GP202 '[\"a\", \"b\"]'", 'write `label("t") in ["a", "b"]`'),
        ('class low { match user != ["a"] }', "GP202 '[\"a\"]'", 'write `not user in ["a"]`'),
        ("class low { match any limit { memory = 2GiB over_memory = spill(disk) } }", "GP206 'disk'",
         "write spill(host)"),
    ],
)  # fmt: skip
def test_in_a_class(low: str, start: str, helps: str) -> None:
    (found,) = said(text("", low=low))
    assert found.startswith(start)
    assert found.endswith(f" = {helps}")


def test_a_label_of_an_attached_tenant() -> None:
    test = 'test "t" { policy "p" attach a { tier = "online" } at 0s expect low.pause == false }'
    (found,) = said(text("", more=test))
    assert found == "GP204 'tier' a tenant has no `tier` = a label stands in a list: `labels = [\"tier=online\"]`"


@pytest.mark.parametrize("name", ["", "  "])
def test_a_policy_has_a_name(name: str) -> None:
    (found,) = said(text("").replace('"p"', f'"{name}"'))
    assert found == f'GP101 \'"{name}"\' a policy needs a name = for example policy "preempt-mix"'
