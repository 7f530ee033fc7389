"""Blocks and classes: what their settings become, what is missing, unknown, twice, or without effect."""

import math

import pytest

from gpud.policies.schema import BLOCKS, CLASS_SETTINGS, CONSTRUCTORS, KNOBS, OPERATORS, Range
from gpud.policies.values import EQUAL, Choice, LabelValue, Share, Tier
from tests.policies.resolving import PREEMPT, policy, resolve_text, resolved, said

SHARE = "share { period = 20ms }"
EXCLUSIVE = "exclusive { max_hold = 30s }"


def limit(text: str) -> dict[str, object]:
    found = resolved("", classes=f"class low {{ match any limit {{ {text} }} }}").classes[0].limit
    assert found is not None
    return {name: setting.value for name, setting in found.settings.items()}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("memory = 24_576MiB", 24 * 2**30),
        ("memory = unlimited", math.inf),
        ('memory = label_bytes("gpud.io/memory", default = 8GiB)', LabelValue("bytes", "gpud.io/memory", 8 * 2**30)),
        ('memory = label_bytes("m")', LabelValue("bytes", "m", None)),
        ("compute = 40%", 0.4),
        ("compute = soft(30%)", Choice("soft", 0.3)),
        ('compute = label_percent("c", default = 15%)', LabelValue("percent", "c", 0.15)),
        ("tenants = 2", 2),
    ],
)
def test_limits(text: str, value: object) -> None:
    assert limit(text) == {text.split()[0]: value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("fail", "fail"),
        ("wait(max = 10s)", Choice("wait", 10_000_000_000)),
        ("wait(10s)", Choice("wait", 10_000_000_000)),
        ("spill(host)", Choice("spill", "host")),
    ],
)
def test_over_memory(text: str, value: object) -> None:
    assert limit(f"memory = 8GiB  over_memory = {text}") == {"memory": 8 * 2**30, "over_memory": value}


def test_settings_of_all_blocks() -> None:
    ir = resolved(
        'swap { tiers = [host(max = 64GiB), disk(path = "/swap", max = unlimited)] evict = largest keep = 512MiB } '
        "admit { memory = 150% compute = 2 * 100% when_full = queue(max = 5min) } "
        "failsafe { daemon_lost = hold after = 30s }",
        mode="preempt { order = [high, [mid, low]] resume_after = quiet max_pause = unlimited max_inflight = 4 }",
        classes='param quiet = 3ms class high { match label("a") == "1" per = label("team") rise_after = 1h } '
        'class mid { match label("a") == "2" per = tenant share = weight(2) } class low { match any }',
    )
    values = {
        block.kind: {name: setting.value for name, setting in block.settings.items()}
        for block in (ir.arbiter, ir.swap, ir.admit, ir.failsafe)
        if block is not None
    }
    assert values == {
        "arbitrate": {
            "order": (("high",), ("mid", "low")), "resume_after": 3_000_000, "max_pause": math.inf, "max_inflight": 4,
        },
        "swap": {
            "tiers": (Tier("host", 64 * 2**30), Tier("disk", math.inf, "/swap")), "evict": "largest", "keep": 2**29,
        },
        "admit": {"memory": 1.5, "compute": 2.0, "when_full": Choice("queue", 300_000_000_000)},
        "failsafe": {"daemon_lost": "hold", "after": 30_000_000_000},
    }  # fmt: skip
    assert ir.mode == "preempt"
    assert [job_class.per for job_class in ir.classes] == ["label:team", "tenant", "class"]
    settings = [{name: s.value for name, s in job_class.settings.items()} for job_class in ir.classes]
    assert settings == [{"rise_after": 3_600_000_000_000}, {"share": Share("weight", weight=2)}, {}]


@pytest.mark.parametrize("per", ["class", "tenant", "user", "group", "namespace"])
def test_units_of_sharing(per: str) -> None:
    assert resolved("", classes=f"class low {{ match any per = {per} }}").classes[0].per == per


def test_shares_of_classes() -> None:
    ir = resolved(
        "", mode=SHARE, classes='class a { match user == "x" share = equal } class b { match any share = fixed(30%) }'
    )
    assert [job_class.settings["share"].value for job_class in ir.classes] == [EQUAL, Share("fixed", percent=30)]


def test_every_default_of_the_schema_is_in_its_own_range() -> None:
    rows = [*CLASS_SETTINGS, *(row for rows in BLOCKS.values() for row in rows)]
    parameters = [p for operator in OPERATORS.values() for p in operator.parameters]
    parameters += [p for arguments in CONSTRUCTORS.values() for p in arguments]
    checked = 0
    for row in [*rows, *parameters, *KNOBS.values()]:
        default = row.default
        if isinstance(default, int | float) and not isinstance(default, bool):
            finite = Range(row.range.least, row.range.above)
            assert (row.range if default != math.inf else finite).holds(default), row.name
            checked += 1
    assert checked > 20


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            "arbitrate preempt { order = [high, low] }",
            "GP203 'arbitrate' `arbitrate preempt` also needs `resume_after`",
        ),
        ("arbitrate share { }", "GP203 'arbitrate' `arbitrate share` also needs `period`"),
        ("arbitrate preempt { }", "GP203 'arbitrate' `arbitrate preempt` also needs `order` and `resume_after`"),
        ("swap { }", "GP203 'swap' `swap` also needs `tiers`"),
        ("failsafe { }", "GP203 'failsafe' `failsafe` also needs `daemon_lost`"),
        (
            "arbitrate { }",
            "GP203 'arbitrate' `arbitrate` also needs a mode = write `arbitrate open`, `arbitrate preempt`, "
            "`arbitrate share` or `arbitrate exclusive`",
        ),
        ("arbitrate preemt { }", "GP204 'preemt' there is no `arbitrate preemt` = did you mean `preempt`?"),
        (
            "arbitrate fifo { }",
            "GP204 'fifo' there is no `arbitrate fifo` = write `open`, `preempt`, `share` or `exclusive`",
        ),
        ("swap fast { }", "GP204 'fast' there is no `swap fast` = write `swap { … }`"),
        ("swop { }", "GP204 'swop' there is no block `swop` = did you mean `swap`?"),
        (
            "limit { memory = 3GiB }",
            "GP204 'limit' `limit` stands in a class = write `class … { match … limit { … } }`",
        ),
        ("admit { mem = 150% }", "GP204 'mem' `admit` has no setting `mem` = did you mean `memory`?"),
        (
            "admit { priority = 3 }",
            "GP204 'priority' `admit` has no setting `priority` = settings here are `memory`, `compute` and "
            "`when_full`",
        ),
        ("admit { memory = 1.5 }",
         "GP103 '1.5' `memory` needs a percentage, and `1.5` has no unit = write for example 150%"),
        ("admit { memroy = 150% }", "GP204 'memroy' `admit` has no setting `memroy` = did you mean `memory`?"),
        (
            "admit { tenants = 3 }",
            "GP204 'tenants' `admit` has no setting `tenants` = `tenants` is a setting of `limit`",
        ),
        (
            "arbitrate open { resume_after = 3ms }",
            "GP204 'resume_after' `arbitrate open` has no setting `resume_after` = `resume_after` is a setting "
            "of `arbitrate preempt`",
        ),
        (
            "arbitrate open { pause = true }",
            "GP204 'pause' `arbitrate open` has no setting `pause` = `pause` is a knob; bind it in the policy: "
            "`high.pause = …`",
        ),
        (
            "arbitrate share { period = 20ms per = tenant }",
            "GP204 'per' `arbitrate share` has no setting `per` = `per` is a setting of a class",
        ),
        (
            "arbitrate share { period = 20ms period = 30ms }",
            "GP303 'period' `period` is set twice in one block = leave one of them out",
        ),
        ("admit { } admit { }", "GP305 'admit' a policy has one `admit` at most = leave one of them out"),
        ('doc "a" doc "b"', "GP305 'doc \"b\"' a policy has one `doc` at most = leave one of them out"),
        ("admit { when_full = queue }", "GP203 'queue' `queue` needs a duration = for example queue(10s)"),
        ("admit { when_full = reject(3s) }", "GP204 'reject(3s)' `reject` takes no values = write `reject` alone"),
        ("admit { when_full = quue(3s) }", "GP201 'quue' `when_full` cannot be `quue` = did you mean `queue`?"),
        (
            "admit { when_full = 3s }",
            "GP202 '3s' `when_full` needs a word, but this is a duration = write `reject` or `queue(…)`",
        ),
        ("admit { memory = 0% }", "GP206 '0%' `memory` must be more than 0 = for example 30%"),
        ("admit { compute = 150.5% }", "GP501 '150.5%' compute is divided in whole percent = write 150% or 151%"),
        (
            "failsafe { daemon_lost = open after = 3s }",
            "GP403 'after = 3s' `after` has no effect with `daemon_lost = open` = leave it out",
        ),
        (
            "swap { tiers = host }",
            "GP202 'host' `tiers` needs a list of tiers = for example [host(max = 64GiB), disk(path = "
            '"/var/lib/gpud/swap", max = 500GiB)]',
        ),
        ("swap { tiers = [host()] }", "GP203 'host' `host` also needs `max`"),
        ("swap { tiers = [disk(max = 3GiB)] }", "GP203 'disk' `disk` also needs `path`"),
        (
            'swap { tiers = [disk("swap", 3GiB)] }',
            "GP206 '\"swap\"' the path of a tier must be absolute = write \"/swap\"",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_blocks(body: str, expected: str) -> None:
    mode = "" if body.startswith("arbitrate") else "open {}"
    assert said(body, mode=mode) == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("order = [high, lo] resume_after = 3ms", "GP201 'lo' nothing is called `lo` here = did you mean `low`?"),
        (
            "order = high resume_after = 3ms",
            "GP202 'high' `order` needs a list of classes = for example [high], from high to low",
        ),
        (
            'order = ["high", low] resume_after = 3ms',
            "GP202 '\"high\"' `order` needs names of classes = a name stands without quotes: write `high`",
        ),
        (
            "order = [high, [low, [low]]] resume_after = 3ms",
            "GP202 '[low]' a rank holds classes, not ranks = for example [high, [near, low], scrap]",
        ),
        (
            "order = [high, low] resume_after = 3",
            "GP103 '3' `resume_after` needs a duration, and `3` has no unit = write for example 3ms or 3s",
        ),
        (
            "order = [high, low] resume_after = 0s - 3ms",
            "GP206 '0s - 3ms' `resume_after` cannot be negative = write 0s or more",
        ),
        (
            "order = [high, low] resume_after = unlimited",
            "GP206 'unlimited' `resume_after` cannot be `unlimited` = for example 250ms",
        ),
        (
            "order = [high, low] resume_after = 3ms max_pause = 0s",
            "GP206 '0s' `max_pause` must be at least 1us = write 1us or more",
        ),
        (
            "order = [high, low] resume_after = 3ms max_inflight = 0",
            "GP206 '0' `max_inflight` must be at least 1 = write 1 or more",
        ),
        (
            "order = [high, low] resume_after = 3ms max_inflight = 1.5",
            "GP501 '1.5' `max_inflight` is a whole number = write 1 or 2",
        ),
        (
            "order = [high, low] resume_after = 3ms max_pause = unlimited pass = 1ms",
            "GP403 'pass = 1ms' `pass` has no effect: nobody is held for `max_pause` = leave it out",
        ),
        (
            "order = [high, low] resume_after = high.wait_p99",
            "GP401 'high.wait_p99' `high.wait_p99` changes while the policy runs; `resume_after` is fixed when "
            "it is loaded = write a constant or a `param`",
        ),
        (
            "order = [high, low] resume_after = ewma(3ms, half_life = 1s)",
            "GP209 'ewma(3ms, half_life = 1s)' `ewma` keeps a state from tick to tick; it cannot stand in "
            "`resume_after` = it can stand in `let` and in bindings of knobs",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_preempt(settings: str, expected: str) -> None:
    assert said("", mode=f"preempt {{ {settings} }}") == [expected]


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("share = 30%", "GP202 '30%' `share` needs a share, but this is a percentage = write fixed(30%)"),
        ("shre = equal", "GP204 'shre' `class low` has no setting `shre` = did you mean `share`?"),
        ("memory = 3GiB", "GP204 'memory' `class low` has no setting `memory` = put it into `limit { memory = … }`"),
        (
            "pause = true",
            "GP204 'pause' `class low` has no setting `pause` = `pause` is a knob; bind it in the policy: "
            "`low.pause = …`",
        ),
        ("per = users", "GP201 'users' `per` cannot be `users` = did you mean `user`?"),
        (
            "per = pod",
            "GP201 'pod' `per` cannot be `pod` = write `class`, `tenant`, `user`, `group`, `namespace` or "
            '`label("…")`',
        ),
        ("rise_after = 0s", "GP206 '0s' `rise_after` must be more than 0 = for example 250ms"),
        ("swap { }", "GP204 'swap' `swap` does not stand in a class = put it into the policy"),
        ("lmit { }", "GP204 'lmit' there is no block `lmit` = did you mean `limit`?"),
        ("limit { } limit { }", "GP305 'limit' a class has one `limit` at most = put all limits into one block"),
        (
            "limit { memory = 20GB }",
            "GP103 'GB' unknown unit `GB` = sizes are powers of two here: write GiB (1024³ bytes)",
        ),
        (
            "limit { memory = 20 }",
            "GP103 '20' `memory` needs an amount of memory, and `20` has no unit = write for example 20MiB or "
            "20GiB",
        ),
        ("limit { memory = 1500KiB }", "GP501 '1500KiB' memory limits are kept in whole MiB = write 1MiB or 2MiB"),
        ("limit { memory = 500KiB }", "GP501 '500KiB' memory limits are kept in whole MiB = write 1MiB"),
        ("limit { memory = 0B }", "GP206 '0B' `memory` must be more than 0 = for example 4GiB"),
        (
            "limit { memory = 50% }",
            "GP202 '50%' `memory` needs an amount of memory, but this is a percentage = for example 4GiB, or "
            'label_bytes("gpud.io/memory", default = 4GiB)',
        ),
        (
            'limit { memory = label("m") }',
            "GP202 'label(\"m\")' `memory` needs an amount of memory, but this is a text = for example 4GiB, "
            'or label_bytes("gpud.io/memory", default = 4GiB)',
        ),
        (
            'limit { memory = label_bytes("m", default = 1500KiB) }',
            "GP501 '1500KiB' memory limits are kept in whole MiB = write 1MiB or 2MiB",
        ),
        (
            'limit { memory = label_bytes("m") * 2 }',
            "GP209 'label_bytes(\"m\") * 2' `memory` can be read from a label, but nothing is calculated with "
            "it = let the function that reads the label stand alone",
        ),
        (
            "limit { memory = low.memory_used }",
            "GP401 'low.memory_used' `low.memory_used` changes while the tenant runs; `limit` is decided once, "
            "when it attaches = write a constant, a `param` or label_bytes(…); to react to it, set a knob in a "
            "`when` rule",
        ),
        ("limit { compute = 12.5% }", "GP501 '12.5%' compute is divided in whole percent = write 12% or 13%"),
        (
            'limit { compute = label_percent("c", 12.5%) }',
            "GP501 '12.5%' compute is divided in whole percent = write 12% or 13%",
        ),
        ("limit { compute = 130% }", "GP206 '130%' `compute` can be 100% at most = write 100% or less"),
        (
            "limit { compute = 40 }",
            "GP103 '40' `compute` needs a percentage, and `40` has no unit = write for example 40%",
        ),
        (
            'limit { compute = soft(label_percent("c")) }',
            "GP209 'soft(label_percent(\"c\"))' `label_percent` cannot stand inside `soft` = write "
            "label_percent(…) alone, or a constant: soft(30%)",
        ),
        ("limit { tenants = 0 }", "GP206 '0' `tenants` must be at least 1 = write 1 or more"),
        ("limit { over_memory = spill(device) }", "GP206 'device' memory is on the device already = write spill(host)"),
        ("limit { over_memory = spil(host) }", "GP201 'spil' `over_memory` cannot be `spil` = did you mean `spill`?"),
        (
            "limit { over_memory = wait(max = 0s) }",
            "GP206 '0s' `max` of `wait` must be more than 0 = for example 250ms",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_classes(members: str, expected: str) -> None:
    mode = PREEMPT.removeprefix("arbitrate ").replace("high, ", "")
    assert said("", mode=mode, classes=f"class low {{ match any {members} }}") == [expected]


@pytest.mark.parametrize(
    ("mode", "body", "expected"),
    [
        (
            "open {}",
            "low.max_hold = 3s",
            "GP403 'low.max_hold' `max_hold` has no effect under `arbitrate open` = it acts under `arbitrate "
            "exclusive`; to hold it here, set `low.pause`",
        ),
        (
            SHARE,
            "low.yield = true",
            "GP403 'low.yield' `yield` has no effect under `arbitrate share` = it acts under `arbitrate "
            "preempt`",
        ),
        (
            EXCLUSIVE,
            "low.share = equal",
            "GP403 'low.share' `share` has no effect under `arbitrate exclusive` = it acts under `arbitrate "
            "preempt` and `arbitrate share`; to cap it here, set `low.max_compute`",
        ),
        (
            EXCLUSIVE,
            "low.max_inflight = 3",
            "GP403 'low.max_inflight' `max_inflight` has no effect under `arbitrate exclusive` = it acts under "
            "`arbitrate open`, `arbitrate preempt` and `arbitrate share`",
        ),
        (
            "",
            "low.share = equal",
            "GP306 'low.share' `share` may only be set by the policy that arbitrates = this policy has no "
            "`arbitrate` block, so it can only tighten limits",
        ),
        (
            SHARE,
            "guard high.active { low.share = equal }",
            "GP308 'low.share' a guard cannot set `share`: which of two shares is tighter has no answer = set "
            "`max_compute` or `pause` in the guard, and `share` in a `when` rule",
        ),
        (
            SHARE,
            "guard high.active { when low.active { low.share = equal } }",
            "GP308 'low.share' a guard cannot set `share`: which of two shares is tighter has no answer = set "
            "`max_compute` or `pause` in the guard, and `share` in a `when` rule",
        ),
        (
            EXCLUSIVE,
            "failsafe { daemon_lost = open }",
            "GP206 'open' under `arbitrate exclusive` a hook never opens by itself = write `hold` or `closed`",
        ),
        (
            EXCLUSIVE,
            "failsafe { daemon_lost = hold after = 3s }",
            "GP403 'after = 3s' `after` has no effect under `arbitrate exclusive` = leave it out",
        ),
        (
            "",
            "failsafe { daemon_lost = open }",
            "GP403 'failsafe' `failsafe` has no effect in a policy without `arbitrate` = put it into the policy that "
            "arbitrates",
        ),
        (
            "exclusive { max_hold = 3s min_hold = 4s }",
            "",
            "GP206 '4s' `min_hold` lies above `max_hold` = write 3s or less",
        ),
        (
            "share { period = 20ms reclaim = 21ms }",
            "",
            "GP206 '21ms' `reclaim` lies above `period` = write 20ms or less",
        ),
        (
            "open {}",
            "guard high.active { low.pause = false }",
            "GP307 'low.pause = false' a guard can only tighten, and this leaves `low.pause` as it is = write "
            "`low.pause = true`, or leave it out",
        ),
        (
            "open {}",
            "guard high.active { low.admit = true }",
            "GP307 'low.admit = true' a guard can only tighten, and this leaves `low.admit` as it is = write "
            "`low.admit = false`, or leave it out",
        ),
        (
            "open {}",
            "guard high.active { low.residency = device }",
            "GP307 'low.residency = device' a guard can only tighten, and this leaves `low.residency` as it is "
            "= write `low.residency = host`, or leave it out",
        ),
        (
            "open {}",
            "guard high.active { when low.active { low.max_compute = unlimited } }",
            "GP307 'low.max_compute = unlimited' a guard can only tighten, and this leaves `low.max_compute` "
            "as it is = write a limit, or leave it out",
        ),
        (
            "open {}",
            "low.pause = true low.pause = false",
            "GP303 'low.pause' `low.pause` is set twice in one block = leave one of them out",
        ),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_no_place(mode: str, body: str, expected: str) -> None:
    assert said(body, mode=mode) == [expected]


@pytest.mark.parametrize(
    ("mode", "member", "expected"),
    [
        (
            "open {}",
            "share = equal",
            "GP403 'share' `share` has no effect under `arbitrate open` = it acts under `arbitrate preempt` "
            "and `arbitrate share`",
        ),
        (
            EXCLUSIVE,
            "rise_after = 1h",
            "GP403 'rise_after' `rise_after` has no effect under `arbitrate exclusive` = it acts under "
            "`arbitrate preempt`",
        ),
        (
            "",
            "rise_after = 1h",
            "GP403 'rise_after' `rise_after` has no effect in a policy without `arbitrate` = it acts under "
            "`arbitrate preempt`",
        ),
        (
            "",
            "share = equal",
            "GP306 'share' `share` may only be set by the policy that arbitrates = this policy has no "
            "`arbitrate` block, so it can only tighten limits",
        ),
    ],
)  # fmt: skip
def test_settings_of_classes_without_effect(mode: str, member: str, expected: str) -> None:
    assert said("", mode=mode, classes=f"class low {{ match any {member} }}") == [expected]


def test_under_an_unknown_arbiter_nothing_is_said_about_effects() -> None:
    found = said(
        "low.share = equal low.max_hold = 3s", mode="preemt {}", classes="class low { match any share = equal }"
    )
    assert found == ["GP204 'preemt' there is no `arbitrate preemt` = did you mean `preempt`?"]


def test_a_limiter_may_set_every_knob_but_share() -> None:
    values = {
        "pause": "true",
        "yield": "true",
        "admit": "false",
        "residency": "host",
        "max_inflight": "3",
        "max_compute": "30%",
    }
    for knob in KNOBS.values():
        if knob.name != "share":
            default = {"a rate": "3/s", "a bandwidth": "1GiB/s", "a duration": "3s"}.get(knob.type.value, "")
            assert said(f"low.{knob.name} = {values.get(knob.name, default)}", mode="") == []


def test_what_could_be_resolved_is_there_beside_errors() -> None:
    text = policy(
        "low.max_inflight = 3 low.pause = nothing when hihg.busy > 3% { low.max_compute = 30% } let x = gpu.busy",
        mode="share { perod = 20ms }",
    )
    ir, found = resolve_text(text)
    assert [diagnostic.code for diagnostic in found] == ["GP203", "GP204", "GP201", "GP201"]
    assert ir.mode == "share"
    assert [binding.knob.text for binding in ir.body.bindings] == ["low.max_inflight", "low.pause"]
    assert [binding.value.value for binding in ir.body.bindings] == [3, None]  # type: ignore[union-attr]
    (rule,) = ir.body.rules
    assert rule.condition is not None
    assert rule.condition.condition.value is None  # type: ignore[union-attr]
    assert [let.name for let in ir.lets] == ["x"]


def test_what_is_too_fine_is_reported_and_rounded_down() -> None:
    text = policy("", mode=SHARE, classes="class low { match any share = fixed(62.5%) limit { memory = 1500KiB } }")
    ir, found = resolve_text(text)
    assert [diagnostic.code for diagnostic in found] == ["GP501", "GP501"]
    (job_class,) = ir.classes
    assert job_class.settings["share"].value == Share("fixed", percent=62)
    assert job_class.limit is not None
    assert job_class.limit.settings["memory"].value == 2**20
