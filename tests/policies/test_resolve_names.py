"""What names mean where, and what is said of those that mean nothing."""

import pytest

from gpud.policies.ir import Const, HoursRead, LetRead, Op, Read, SignalRef, TenantRead
from gpud.policies.resolve.nearest import distance, nearest
from gpud.policies.types import Type
from tests.policies.resolving import let_value, policy, resolve_text, resolved, said


def test_signals_of_classes_and_devices() -> None:
    ir = resolved("let a = high.busy let b = gpu.busy let c = host.memory_free")
    signals = [let.value.signal for let in ir.lets if isinstance(let.value, Read)]
    assert signals == [
        SignalRef("class", "high", "busy", Type.RATIO),
        SignalRef("gpu", "", "busy", Type.RATIO),
        SignalRef("host", "", "memory_free", Type.BYTES),
    ]


def test_lets_are_numbered_in_text_order_whatever_their_depth() -> None:
    ir = resolved(
        "let a = high.busy when a > 1% { let b = a  when b > 2% { let c = b  low.max_compute = c } } let d = a"
    )
    assert [(let.name, let.depth) for let in ir.lets] == [("a", 0), ("b", 1), ("c", 2), ("d", 0)]
    inner = ir.body.rules[0].body.rules[0].body.bindings[0].value
    assert inner == LetRead(2, "c", Type.RATIO, span=inner.span)


def test_siblings_may_use_one_name_twice() -> None:
    ir = resolved(
        "when high.active { let x = 1 low.max_inflight = x } when low.active { let x = 2 high.max_inflight = x }"
    )
    values = [rule.body.bindings[0].value for rule in ir.body.rules]
    assert [value.index for value in values if isinstance(value, LetRead)] == [0, 1]


def test_hours_and_params_are_values() -> None:
    ir = resolved("hours day = daily 08:00..20:00 param on = true let x = day and on")
    (let,) = ir.lets
    assert let.value == HoursRead(0, let.value.span)  # `and true` is folded away
    assert ir.used_names == {"day", "on"}


def test_classes_and_hours_may_stand_below_their_use() -> None:
    ir = resolve_text(
        'gpol 1 policy "p" { during day { low.pause = true } arbitrate open {} '
        "class low { match any } hours day = daily 08:00..20:00 }"
    )[0]
    assert ir.body.rules[0].hours == 0


def test_used_names_are_remembered() -> None:
    ir = resolved(
        "param a = 1 param b = 2 let x = high.busy let y = gpu.busy low.max_inflight = a"
        " each low as n { when n.active { n.residency = host } }"
    )
    assert ir.used_names == {"a", "high", "low", "n"}


def test_tenants_are_read_in_match() -> None:
    ir = resolved("", classes='class high { match exe ~ "*/python*" and user in ["a", "b"] } class low { match any }')
    match = ir.classes[0].match
    assert isinstance(match, Op)
    assert [type(arg) for arg in match.args] == [Op, Op]
    glob, member = match.args
    assert isinstance(glob, Op)
    assert isinstance(member, Op)
    assert (glob.op, member.op) == ("~", "in")
    assert glob.args[0] == TenantRead("exe", "", glob.args[0].span)
    assert [arg.value for arg in member.args[1:] if isinstance(arg, Const)] == ["a", "b"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("let x = hihg.busy", "GP201 'hihg' nothing is called `hihg` here = did you mean `high`?"),
        ("let x = high.bussy", "GP201 'bussy' `high` has no signal `bussy` = did you mean `busy`?"),
        ("let x = high.wait", "GP201 'wait' `high` has no signal `wait` = did you mean `wait_p99`?"),
        (
            "let x = high.memory_free",
            "GP201 'memory_free' `high` has no signal `memory_free` = did you mean `gpu.memory_free`?",
        ),
        ("let x = gpu.mem_free", "GP201 'mem_free' `gpu` has no signal `mem_free` = did you mean `memory_free`?"),
        (
            "let x = gpu.memory_used",
            "GP201 'memory_used' `gpu` has no signal `memory_used` = write gpu.memory_total - gpu.memory_free",
        ),
        (
            "let x = gpu.load",
            "GP201 'load' `gpu` has no signal `load` = its signals are `busy`, `memory_free`, `memory_total`, "
            "`waiters`, "
            "`power` and `temperature`",
        ),
        ("let x = high.gpu.busy", "GP201 'gpu' `gpu` does not belong to `high` = write `gpu.busy`"),
        ("let x = high.low.busy", "GP201 'low' `low` does not belong to `high` = write `low.busy`"),
        ("let x = weight", "GP201 'weight' nothing is called `weight` here = `weight` is a function: write weight(…)"),
        ("let x = gpu.wait_p99", "GP201 'wait_p99' `gpu` has no signal `wait_p99` = a class has it: `high.wait_p99`"),
        ("let x = gpu", "GP201 'gpu' nothing is called `gpu` here = name one of its signals: `gpu.memory_free`"),
        ("let x = busy", "GP201 'busy' nothing is called `busy` here = say of which class: `high.busy`"),
        ("let x = high.busy.now", "GP201 'now' `high.busy` has no parts = write `high.busy`"),
        ("param y = 3 let x = y.z", "GP201 'z' `y` has no parts: it is a param = write `y` alone"),
        ("let x = high", "GP202 'high' `high` is a class, not a value = name one of its signals: `high.active`"),
        ("let x = any", "GP201 'any' nothing is called `any` here = `any` stands alone: `match any`"),
        ("let x = yes", "GP201 'yes' nothing is called `yes` here = write true"),
        ("let x = ewna(high.busy, half_life = 1s)", "GP201 'ewna' there is no function `ewna` = did you mean `ewma`?"),
        (
            "let x = high.busy(3)",
            "GP201 'high.busy' there is no function `high.busy` = write `high.busy` without parentheses, if it "
            "is a signal",
        ),
        (
            "low.max_lauch_rate = 3/s",
            "GP201 'max_lauch_rate' `low` has no knob `max_lauch_rate` = did you mean `max_launch_rate`?",
        ),
        ("trainig.pause = true", "GP201 'trainig' nothing is called `trainig` here = there is `high` and `low`"),
        ("lwo.pause = true", "GP201 'lwo' nothing is called `lwo` here = did you mean `low`?"),
        ("pause = true", "GP201 'pause' nothing is called `pause` here = say of which class: `high.pause = …`"),
        ("low = 3", "GP201 'low' `low` is a class, not a knob = write `low.max_compute = …`, for example"),
        ("foo = 3", "GP201 'foo' nothing is called `foo` here = to give a value a name, write `let foo = …`"),
        (
            "low.resume_after = 3ms",
            "GP201 'resume_after' `low` has no knob `resume_after` = `resume_after` is a setting of `arbitrate "
            "preempt`",
        ),
        ("gpu.pause = true", "GP201 'pause' `gpu` has no knob `pause` = knobs belong to classes: `high.pause = …`"),
        (
            "during nigth { low.pause = true }",
            "GP201 'nigth' no hours are called `nigth` = define them: `hours nigth = mon..fri 08:00..22:00`",
        ),
        ("each job as n { }", "GP201 'job' no class is called `job` = there is `high` and `low`"),
        ("each lo as n { }", "GP201 'lo' no class is called `lo` = did you mean `low`?"),
    ],
)  # fmt: skip
def test_unknown_names(body: str, expected: str) -> None:
    assert said(body) == [expected]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ('tier == "online"', "GP201 'tier' nothing is called `tier` here = a label is read with label(\"tier\")"),
        ("all", "GP201 'all' nothing is called `all` here = `match any` takes every job"),
        ("user == alice", "GP201 'alice' nothing is called `alice` here = a text stands in quotes: \"alice\""),
        (
            'user == "alice" or "bob"',
            "GP202 '\"bob\"' `or` needs a condition, but this is a text = a comparison has two sides: write user == "
            "\"bob\"",
        ),
        (
            'exe ~ "*/a" and user == "b" or "c"',
            "GP202 '\"c\"' `or` needs a condition, but this is a text = compare it with `== \"online\"`",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_match(match: str, expected: str) -> None:
    assert said("", classes=f"class high {{ match {match} }} class low {{ match any }}") == [expected]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("let x = y let y = 3", "GP201 'y' `y` is used above its definition = move the definition up"),
        ("let x = y.busy let y = 3", "GP201 'y' `y` is used above its definition = move the definition up"),
        ("param x = y param y = 3", "GP201 'y' `y` is used above its definition = move the definition up"),
        ("let x = x", "GP201 'x' `x` is used above its definition = move the definition up"),
        (
            "when high.active { let x = 1 } let y = x",
            "GP201 'x' `x` ends with the block that defines it"
            " = define it above, where both places see it, or move this into that block",
        ),
        (
            "each low as n { } when n.active { low.pause = true }",
            "GP201 'n' `n` ends with the block that defines it = a rule about one tenant stands inside of `each`",
        ),
        ("param x = 1 let x = 2", "GP205 'x' `x` is defined twice = choose another name for one of them"),
        (
            "let x = 1 let x = 2",
            "GP205 'x' `x` is defined twice = a let is assigned once: give the second another name",
        ),
        (
            "let x = 1 when high.active { let x = 2 }",
            "GP205 'x' `x` is defined twice = a let is assigned once: give the second another name",
        ),
        ("let high = 1", "GP205 'high' `high` is defined twice = choose another name for one of them"),
        ("param x = 1 x = 2", "GP205 'x' `x` has a value already = `apply` can set it; here, define a `let`"),
        ("let x = 1 x = 2", "GP205 'x' `x` has a value already = give the second value another name"),
        (
            "let min = 3",
            "GP104 'min' `min` is the name of a function; a let cannot be called that = choose another name",
        ),
        ("param s = 3", "GP104 's' `s` is a unit; a param cannot be called that = choose another name"),
        (
            "let user = 3",
            "GP104 'user' `user` is a fact of a tenant; a let cannot be called that = choose another name",
        ),
        (
            "hours host = daily",
            "GP104 'host' `host` is the name of a function; hours cannot be called that = choose another name",
        ),
        (
            "each low as gpu { }",
            "GP104 'gpu' `gpu` is a word of the language; a tenant cannot be called that = choose another name",
        ),
    ],
)  # fmt: skip
def test_names_mean_one_thing(body: str, expected: str) -> None:
    assert said(body) == [expected]


def test_unknown_functions_are_answered_with_those_there_are() -> None:
    (found,) = said("let x = fooo()")
    assert found.startswith("GP201 'fooo' there is no function `fooo` = there are `min`, `max`, `fixed`,")
    assert "`aimd`" in found


def test_what_follows_from_an_error_is_not_reported() -> None:
    assert said("let a = nothing let b = a + 3ms let c = b > 2 when c and b { low.max_inflight = b }") == [
        "GP201 'nothing' nothing is called `nothing` here"
    ]


def test_each_error_is_reported_once_and_all_at_once() -> None:
    found = said("low.puase = true when hihg.busy > 3% for 3 { low.max_inflight = 1ms }")
    assert [line.split()[0] for line in found] == ["GP201", "GP201", "GP103", "GP202"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "when label(\"tier\") == \"batch\" { low.pause = true }",
            "GP401 'label(\"tier\")' `label()` reads one tenant's labels; a rule sees whole classes"
            " = put it in a class's `match` or `limit`",
        ),
        (
            'let x = user == "bob"',
            "GP401 'user' `user` is known of one tenant; a rule sees whole classes = put it in a class's `match`",
        ),
        (
            "when high.active for high.wait_p99 { low.pause = true }",
            "GP401 'high.wait_p99' `high.wait_p99` changes while the policy runs; the time after `for` is fixed when it"
            " is loaded = write a constant or a `param`",
        ),
        (
            "let x = 3ms let y = ewma(high.busy, half_life = x)",
            "GP401 'x' `x` changes while the policy runs; `half_life` of `ewma` is fixed when it is loaded"
            " = write a constant or a `param`",
        ),
        (
            "param x = high.busy",
            "GP401 'high.busy' `high.busy` changes while the policy runs; param `x` is fixed when it is loaded"
            " = write a constant or a `param`",
        ),
        (
            "low.launch_rate = 10/s",
            "GP402 'low.launch_rate' `launch_rate` is measured, it cannot be set = the knob is `low.max_launch_rate`",
        ),
        ("low.busy = 10%", "GP402 'low.busy' `busy` is measured, it cannot be set = the knob is `low.max_compute`"),
        ("gpu.busy = 10%", "GP402 'gpu.busy' `busy` is measured, it cannot be set"),
        (
            "low.tenants = 3",
            "GP402 'low.tenants' `tenants` is measured, it cannot be set"
            " = limit them in the class: `limit { tenants = … }`, or set `low.admit`",
        ),
        (
            "let x = low.max_launch_rate",
            "GP402 'low.max_launch_rate' `max_launch_rate` is set, it cannot be read = the signal is `low.launch_rate`",
        ),
        (
            "let x = low.pause",
            "GP402 'low.pause' `pause` is set, it cannot be read"
            " = use what sets it; with `let` it can have a name",
        ),
    ],
)  # fmt: skip
def test_signals_facts_and_knobs_have_their_places(body: str, expected: str) -> None:
    assert said(body) == [expected]


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (
            "gpu.busy > 80%",
            "GP401 'gpu.busy' `gpu.busy` changes while the tenant runs; `match` is decided once, when it attaches"
            " = match on label(…), cgroup, exe, user, namespace or pod; to react to it, use a `when` rule",
        ),
        (
            "day",
            "GP401 'day' `day` changes while the tenant runs; `match` is decided once, when it attaches"
            " = match on label(…), cgroup, exe, user, namespace or pod; to react to it, use a `when` rule",
        ),
        ("label(tier) == \"x\"", "GP201 'tier' nothing is called `tier` here = a text stands in quotes: \"tier\""),
        ("user == bob", "GP201 'bob' nothing is called `bob` here = a text stands in quotes: \"bob\""),
        ("any and true", "GP201 'any' nothing is called `any` here = `any` stands alone: `match any`"),
        (
            "user",
            "GP202 'user' `match` needs a condition, but this is a text = for example label(\"tier\") == "
            '"online", or any',
        ),
        (
            'label("a b") == "x"',
            "GP206 '\"a b\"' no label can be called that = for example label(\"tier\") for a label tier=online",
        ),
        (
            "peak(3) > 2",
            "GP209 'peak(3)' `peak` keeps a state from tick to tick; it cannot stand in `match`"
            " = it can stand in `let` and in bindings of knobs",
        ),
    ],
)  # fmt: skip
def test_what_match_may_read(match: str, expected: str) -> None:
    classes = f"hours day = daily class high {{ match {match} }} class low {{ match any }}"
    assert said("", classes=classes) == [expected]


def test_in_each_only_the_tenant_is_set_and_only_what_is_known_of_it_is_read() -> None:
    assert said(
        "each low as n { let x = n.tenants when n.active and high.active { n.pause = true low.residency = host } }"
    ) == [
        "GP405 'n.tenants' `tenants` is measured of a class, not of one tenant = write `low.tenants`",
        "GP405 'n.pause' `pause` holds for a whole class, not for one tenant"
        " = in `each` you can set `n.max_inflight`, `n.max_inflight_time`, `n.max_hold`, `n.max_overrun` and "
        "`n.residency`",
        "GP405 'low.residency' a rule about one tenant sets knobs of `n` only"
        " = set `low.residency` in a rule outside of `each`",
    ]


def test_lets_in_each_are_its_own() -> None:
    ir = resolved(
        "let calm = gpu.busy < 5%"
        " each low as n { let long = n.idle_for > 1h when long and calm { n.residency = host } }"
    )
    (each,) = ir.eaches
    assert [let.name for let in ir.lets] == ["calm"]
    assert [let.name for let in each.lets] == ["long"]
    held = each.body.rules[0].condition
    assert held is not None
    assert isinstance(held.condition, Op)
    assert [(read.index, read.tenant) for read in held.condition.args if isinstance(read, LetRead)] == [
        (0, True),
        (0, False),
    ]
    long = each.lets[0].value
    assert isinstance(long, Op)
    assert isinstance(long.args[0], Read)
    assert long.args[0].signal == SignalRef("class", "low", "idle_for", Type.DURATION, tenant=True)


def test_text_around_changes_no_identity() -> None:
    body = "let x = ewma(high.busy, half_life = {}) low.max_compute = max(x, peak(x, span = {})) {}"
    one, other = (
        resolved(body.format("1s", "1min", "")),
        resolved(body.format("2s", "5min", "when high.busy > 3% for 1s { low.pause = true }")),
    )
    assert one.lets[0].value.identity == other.lets[0].value.identity == "x/ewma#1"  # type: ignore[union-attr]
    assert other.body.bindings[0].value.args[1].identity == "low.max_compute/peak#1"  # type: ignore[union-attr]


def test_operators_with_one_owner_are_numbered() -> None:
    value = let_value("max(ewma(high.busy, half_life = 1s), ewma(low.busy, half_life = 1s))")
    assert [arg.identity for arg in value.args] == ["x/ewma#1", "x/ewma#2"]  # type: ignore[union-attr]


def test_rules_keep_their_identity_while_numbers_change() -> None:
    body = (
        "when high.busy > {} for {} until high.busy < {} {{ when low.active {{ low.pause = true }} }}"
        " guard high.active {{ low.pause = true }}"
    )
    one, other = resolved(body.format("20%", "1s", "10%")), resolved(body.format("40%", "3s", "5%"))
    identities = [one.body.rules[0].identity, one.body.rules[0].body.rules[0].identity, one.guards[0].identity]
    assert identities == [
        "when high.busy > # for # until high.busy < #",
        "when high.busy > # for # until high.busy < #/when low.active",
        "guard high.active",
    ]
    assert [
        other.body.rules[0].identity,
        other.body.rules[0].body.rules[0].identity,
        other.guards[0].identity,
    ] == identities


def test_equal_rules_are_numbered() -> None:
    ir = resolved("when high.busy > 1% { low.max_inflight = 2 } when high.busy > 9% { low.max_inflight = 1 }")
    assert [rule.identity for rule in ir.body.rules] == ["when high.busy > #", "when high.busy > # (2)"]


def test_heads_are_what_screens_quote() -> None:
    text = policy(
        "hours day = daily during day early 1min { low.pause = true } "
        'guard high.wait_p99 > 20ms for 1s until not high.active because "slow" { low.pause = true }'
    )
    ir, found = resolve_text(text)
    assert not found
    heads = [text[rule.head.start : rule.head.end] for rule in (ir.body.rules[0], ir.guards[0])]
    assert heads == ["during day", "guard high.wait_p99 > 20ms for 1s"]
    assert ir.guards[0].because == "slow"
    assert ir.body.rules[0].early_ns == 60_000_000_000


# --------------------------------------------------------------------------------------------------- nearest names


@pytest.mark.parametrize(
    ("word", "names", "expected"),
    [
        ("lo", ["high", "low"], "low"),
        ("wait_p9", ["wait_p99", "delay_p99"], "wait_p99"),
        ("hgih", ["high", "low"], "high"),
        ("idle", ["active", "idle_for"], "idle_for"),
        ("x", ["y", "z"], None),
        ("ab", ["cd"], None),
        ("completely", ["different"], None),
        ("trainings", ["training"], "training"),
        ("High", ["high"], "high"),
        ("", ["high"], None),
    ],
)  # fmt: skip
def test_nearest_name(word: str, names: list[str], expected: str | None) -> None:
    assert nearest(word, names) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("abc", "abc", 0),
        ("abc", "acb", 1),
        ("abc", "abd", 1),
        ("abc", "ab", 1),
        ("ab", "ba", 1),
        ("kitten", "sitting", 3),
    ],
)
def test_distance(left: str, right: str, expected: int) -> None:
    assert distance(left, right) == distance(right, left) == expected


def test_a_thousand_wrong_names_are_found_fast() -> None:
    body = " ".join(f"let name{number} = nome{number}" for number in range(3000))
    _, found = resolve_text(policy(body))
    assert len(found) == 3000
    assert sum(bool(diagnostic.helps) for diagnostic in found) <= 50  # guesses cost time
