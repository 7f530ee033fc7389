"""What a compiled policy decides, case by case: precedence, unknown values, controllers, `each`, hours."""

import pytest

from gpud.policies.compile import compile_policy, program_source
from gpud.policies.held import GRACE_NS
from tests.policies.programs import MONDAY, MS, TICK, Run, S, body, program, resolved, spec

UNLIMITED = float("inf")


# ------------------------------------------------------------------------------------------------------- precedence


def test_a_knob_without_rules_is_its_base() -> None:
    run = Run(
        body("arbitrate preempt { order = [high, low] resume_after = 3ms max_inflight = 4 max_inflight_time = 2ms }")
    )
    run.tick()
    assert run["low.max_inflight"] == 4
    assert run["low.max_inflight_time"] == 2 * MS
    assert run["high.max_inflight"] == UNLIMITED  # all classes but the first
    assert run["high.pause"] is False
    assert run["high.yield"] is True
    assert run["low.residency"] == "device"
    assert "high.max_hold" not in [knob.text for knob in run.program.knobs]  # without effect under preempt


def test_every_class_of_the_first_rank_is_first() -> None:
    text = (
        "class low2 { match any } arbitrate preempt { order = [[high, low], low2] resume_after = 3ms max_inflight = 4 }"
    )
    run = Run(body(text.replace("class low2 { match any }", 'class low2 { match label("x") == "y" }'))).tick()
    assert [run[f"{name}.max_inflight"] for name in ("high", "low", "low2")] == [UNLIMITED, UNLIMITED, 4]


def test_the_inner_rule_refines_the_outer_one_and_siblings_meet() -> None:
    run = Run(
        body(
            """
            low.max_inflight = 32
            when high.busy > 10% {
              low.max_inflight = 16
              when high.busy > 50% { low.max_inflight = 64 }
            }
            when gpu.busy > 90% { low.max_inflight = 8 }
            """
        )
    )
    found = []
    for high, gpu in [(0.0, 0.0), (0.2, 0.0), (0.6, 0.0), (0.6, 1.0), (0.0, 1.0)]:
        run.tick(run.now + TICK, high__busy=high, gpu__busy=gpu)
        found.append(run["low.max_inflight"])
    assert found == [32, 16, 64, 8, 8]
    assert run.site("low.max_inflight") == "when gpu.busy > 90%"


def test_a_rule_stays_in_force_beside_one_that_allows_more() -> None:
    text = """
      timezone "UTC" hours night = daily 22:00..06:00
      when high.delay_p99 > 2ms { low.max_inflight = 1 }
      during night { when gpu.busy < 50% { low.max_inflight = 64 } }
    """
    run = Run(body(text)).tick(high__delay_p99=3 * MS, gpu__busy=0.1)
    assert run["low.max_inflight"] == 1
    run.tick(TICK, high__delay_p99=0)
    assert run["low.max_inflight"] == 64


@pytest.mark.parametrize(("left", "right", "met"), [("host", "disk", "disk"), ("device", "host", "host")])
def test_residency_meets_at_the_furthest_place(left: str, right: str, met: str) -> None:
    text = f"when high.active {{ low.residency = {left} }} when gpu.busy > 0% {{ low.residency = {right} }}"
    assert Run(body(text)).tick(high__active=True, gpu__busy=1.0)["low.residency"] == met
    swapped = f"when high.active {{ low.residency = {right} }} when gpu.busy > 0% {{ low.residency = {left} }}"
    assert Run(body(swapped)).tick(high__active=True, gpu__busy=1.0)["low.residency"] == met


def test_a_let_may_be_a_place() -> None:
    run = Run(body("let away = host low.residency = away when high.active { low.residency = disk }"))
    assert run.tick(high__active=False)["low.residency"] == "host"
    assert run.tick(TICK, high__active=True)["low.residency"] == "disk"


def test_else_and_a_guard_with_rules_inside() -> None:
    text = """
      when high.active { low.pause = true } else { low.max_inflight = 9 }
      guard gpu.busy > 50% { low.max_inflight = 5 when gpu.busy > 90% { low.max_inflight = 2 } }
    """
    run = Run(body(text))
    found = []
    for active, busy in [(True, 0.0), (False, 0.0), (False, 0.6), (False, 1.0), (True, 1.0)]:
        run.tick(run.now + TICK, high__active=active, gpu__busy=busy)
        found.append((run["low.pause"], run["low.max_inflight"]))
    assert found == [(True, UNLIMITED), (False, 9), (False, 5), (False, 2), (True, 2)]


def test_a_rule_inside_a_sleeping_one_begins_afresh() -> None:
    run = Run(body("when high.active { when gpu.busy > 50% for 100ms { low.pause = true } }"))
    run.set({"gpu.busy": 1.0, "high.active": True})
    run.run(95 * MS)
    assert not run["low.pause"]
    run.tick(100 * MS, high__active=False)
    run.tick(105 * MS, high__active=True)
    run.run(200 * MS)
    assert not run["low.pause"]
    run.run(205 * MS)
    assert run["low.pause"]


@pytest.mark.parametrize("tick", [1 * MS, 5 * MS, 7 * MS, 50 * MS])
def test_the_rate_of_ticks_means_one_tick_of_delay_at_most(tick: int) -> None:
    run = Run(body("when high.busy > 60% for 300ms until high.busy < 20% for 1s { low.pause = true }"))
    run.set({"high.busy": 0.0})
    found: list[int] = []

    def note(run: Run) -> None:
        if run["low.pause"] != bool(len(found) % 2):
            found.append(run.now)

    for until, busy in [(350 * MS, 0.0), (1_050 * MS, 0.9), (4_200 * MS, 0.1), (7_000 * MS, 0.7)]:
        run.set({"high.busy": busy})
        run.run(until, tick, note)
    exact = [650 * MS, 2_050 * MS, 4_500 * MS]
    assert len(found) == 3
    assert all(due < at <= due + 2 * tick for due, at in zip(exact, found, strict=True))  # seen late, decided late


# ---------------------------------------------------------------------------------------------------- unknown values


def test_neither_the_rule_nor_its_else_holds_after_a_second() -> None:
    run = Run(body("when high.active { low.max_inflight = 1 } else { low.max_inflight = 2 }"))
    run.tick(0, high__active=True)
    run.tick(TICK, high__active=None)
    run.run(TICK + GRACE_NS - TICK)
    assert run["low.max_inflight"] == 1
    assert run.next_change() == TICK + GRACE_NS
    run.run(TICK + GRACE_NS)
    assert run["low.max_inflight"] == UNLIMITED
    run.tick(run.now + TICK, high__active=False)
    assert run["low.max_inflight"] == 2


def test_a_value_that_is_unknown_stays_for_a_second() -> None:
    run = Run(body("low.max_launch_rate = 700/s when high.active { low.max_launch_rate = high.launch_rate * 50% }"))
    run.tick(0, high__active=True, high__launch_rate=1_000.0)
    assert run["low.max_launch_rate"] == 500
    run.tick(TICK, high__launch_rate=None)
    assert run["low.max_launch_rate"] == 500
    assert run.next_change() == TICK + GRACE_NS
    run.run(TICK + GRACE_NS)
    assert run["low.max_launch_rate"] == 700  # what encloses it
    run.tick(run.now + TICK, high__launch_rate=200.0)
    assert run["low.max_launch_rate"] == 100


def test_a_value_known_from_an_earlier_time_in_force_is_not_used() -> None:
    run = Run(body("when high.active { low.max_launch_rate = high.launch_rate }"))
    run.tick(0, high__active=True, high__launch_rate=1_000.0)
    run.tick(TICK, high__active=False)
    run.tick(2 * TICK, high__active=True, high__launch_rate=None)
    assert run["low.max_launch_rate"] == UNLIMITED


def test_a_guard_goes_on_with_the_last_value() -> None:
    run = Run(body("guard high.active { low.max_launch_rate = high.launch_rate }"))
    run.tick(0, high__active=True, high__launch_rate=1_000.0)
    run.tick(TICK, high__active=None, high__launch_rate=None)
    run.run(5 * S)
    assert run["low.max_launch_rate"] == 1_000


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        ("high.active and gpu.busy > 50%", (None, 0.1), False),
        ("high.active and gpu.busy > 50%", (None, 0.9), None),
        ("high.active or gpu.busy > 50%", (None, 0.9), True),
        ("high.active or gpu.busy > 50%", (None, 0.1), None),
        ("not high.active", (None, 0.1), None),
        ("gpu.busy / gpu.busy == 1", (True, 0.0), None),
        ("true and (high.active or not high.active)", (None, 0.0), None),
    ],
)
def test_three_valued(condition: str, values: tuple[bool | None, float], holds: bool | None) -> None:
    run = Run(
        body(f"let found = {condition} when found {{ low.pause = true }} when high.active or gpu.busy > 0% {{ }}")
    )
    run.tick(0, high__active=values[0], gpu__busy=values[1])
    assert run["found"] is holds


@pytest.mark.parametrize(
    ("expression", "values", "expected"),
    [
        ("high.launch_rate * 250ms", {"high.launch_rate": 100.0}, 25.0),
        ("250ms * high.launch_rate", {"high.launch_rate": 100.0}, 25.0),
        ("high.copy_rate * 2s", {"high.copy_rate": 1e9}, 2e9),
        ("gpu.memory_free / 2s", {"gpu.memory_free": 2**30}, 2.0**29),
        ("high.queued / 10ms", {"high.queued": 3}, 300.0),
        ("high.queued / high.launch_rate", {"high.queued": 3, "high.launch_rate": 2.0}, 1.5 * S),
        ("gpu.memory_free / high.copy_rate", {"gpu.memory_free": 100, "high.copy_rate": 50.0}, 2.0 * S),
        ("high.queued * high.queued", {"high.queued": 3}, 9),
        ("high.idle_for - high.idle_for", {"high.idle_for": UNLIMITED}, None),
        ("high.launch_rate / high.launch_rate", {"high.launch_rate": 0.0}, None),
        ("high.busy / 50%", {"high.busy": 0.25}, 0.5),
        ("max(high.busy, 30%) - min(high.busy, 30%)", {"high.busy": 0.5}, 0.2),
        ("gpu.power * gpu.power * gpu.power", {"gpu.power": 1e200}, UNLIMITED),
    ],
)
def test_arithmetic_of_units(expression: str, values: dict[str, float], expected: float | None) -> None:
    run = Run(body(f"let found = {expression}"))
    run.set(values)
    assert run.tick()["found"] == expected


# -------------------------------------------------------------------------------------------------------- controllers

AIMD = (
    "aimd(hurt = high.active, settle = 300ms, period = 100ms, start = 100/s, floor = 20/s, ceiling = 5_000/s, "
    "add = 25/s, multiply = 92%)"
)


def test_a_controller_stands_still_while_another_rule_has_its_knob() -> None:
    run = Run(body(f"low.max_launch_rate = {AIMD} when gpu.busy > 50% {{ low.max_launch_rate = unlimited }}"))
    run.set({"high.active": False, "gpu.busy": 0.0})
    run.run(1 * S + 20 * MS)
    before = run["low.max_launch_rate"]
    assert before > 200
    run.set({"gpu.busy": 1.0})
    run.run(1 * S + 270 * MS)
    assert run["low.max_launch_rate"] == UNLIMITED
    assert run.next_change() is None
    run.tick(run.now + TICK, gpu__busy=0.0)
    assert run["low.max_launch_rate"] == before  # for no longer than `settle`: it goes on
    run.set({"gpu.busy": 1.0})
    run.run(2 * S)
    run.tick(run.now + TICK, gpu__busy=0.0)
    assert run["low.max_launch_rate"] == 20  # longer: anew, at the floor


@pytest.mark.parametrize(
    "rule", ["guard gpu.busy > 50% { low.max_launch_rate = 150/s }", "when gpu.busy > 50% { low.pause = true }"]
)
def test_a_controller_stands_still_under_a_tighter_guard_and_while_paused(rule: str) -> None:
    run = Run(body(f"low.max_launch_rate = {AIMD} {rule}"))
    run.set({"high.active": False, "gpu.busy": 0.0})
    run.run(1 * S + 20 * MS)
    before = run["low.max_launch_rate"]
    assert before > 200
    run.set({"gpu.busy": 1.0})
    run.run(1 * S + 220 * MS)
    run.tick(run.now + TICK, gpu__busy=0.0)
    assert run["low.max_launch_rate"] == before
    run.run(run.now + 400 * MS)
    assert run["low.max_launch_rate"] > before


def test_a_controller_inside_a_guard_stands_still_while_the_class_is_paused() -> None:
    run = Run(
        body(f"guard high.busy > 0% {{ low.max_launch_rate = {AIMD} }} when gpu.busy > 50% {{ low.pause = true }}")
    )
    run.set({"high.active": False, "high.busy": 1.0, "gpu.busy": 0.0})
    run.run(1 * S + 20 * MS)
    before = run["low.max_launch_rate"]
    run.set({"gpu.busy": 1.0})
    run.run(1 * S + 220 * MS)
    assert run["low.max_launch_rate"] == before > 200


def test_a_controller_runs_under_a_guard_that_is_wider() -> None:
    run = Run(body(f"low.max_launch_rate = {AIMD} guard gpu.busy > 50% {{ low.max_launch_rate = 4_000/s }}"))
    run.set({"high.active": False, "gpu.busy": 1.0})
    run.run(1 * S)
    first = run["low.max_launch_rate"]
    run.run(2 * S)
    assert first < run["low.max_launch_rate"] < 4_000


# ---------------------------------------------------------------------------------------------------------------- each

NOTEBOOKS = """
  each low as n { when n.idle_for > 1s for 100ms until n.active { n.residency = host } }
  guard gpu.busy > 90% { low.residency = disk }
"""


def test_each_tenant_has_a_state_of_its_own() -> None:
    run = Run(body(NOTEBOOKS))
    run.set({"gpu.busy": 0.0})
    busy, idle = {"idle_for": 0, "active": True}, {"idle_for": 2 * S, "active": False}
    run.tenants = {7: ("low", idle), 3: ("low", busy), 5: ("high", idle)}
    run.tick()
    assert run.of_tenant(7, "low.residency") is None
    assert run.next_change() == 100 * MS
    run.tick(100 * MS)
    assert [run.of_tenant(number, "low.residency") for number in (3, 5, 7)] == [None, None, "host"]
    assert run["low.residency"] == "device"
    run.tenants = {7: ("low", busy | {"idle_for": 2 * S}), 3: ("low", busy)}
    run.tick(105 * MS)
    assert run.of_tenant(7, "low.residency") is None


def test_a_tenant_that_is_gone_is_forgotten() -> None:
    run = Run(body(NOTEBOOKS))
    run.set({"gpu.busy": 0.0})
    run.tenants = {7: ("low", {"idle_for": 2 * S, "active": False})}
    run.run(200 * MS)
    assert run.of_tenant(7, "low.residency") == "host"
    gone = run.tenants
    run.tenants = {}
    run.tick(run.now + TICK)
    run.tenants = gone
    run.tick(run.now + TICK)
    assert run.of_tenant(7, "low.residency") is None  # its `for` begins afresh


def test_each_meets_rules_and_guards_of_the_class_and_refines_its_binding() -> None:
    text = """
      low.residency = disk
      each low as n { when n.active { n.residency = host } }
      when gpu.busy > 50% { low.residency = device }
      guard gpu.busy > 90% { low.residency = disk }
    """
    run = Run(body(text))
    run.tenants = {1: ("low", {"active": True})}
    found = []
    for busy in (0.0, 0.6, 1.0):
        run.tick(run.now + TICK, gpu__busy=busy)
        found.append((run["low.residency"], run.of_tenant(1, "low.residency")))
    assert found == [("disk", "host"), ("device", "host"), ("disk", "disk")]


def test_lets_and_operators_inside_each_are_per_tenant() -> None:
    text = "each low as n { let calm = ewma(n.busy, half_life = 100ms) when calm > 50% { n.max_inflight = 1 } }"
    run = Run(body(text))
    run.tenants = {1: ("low", {"busy": 0.0}), 2: ("low", {"busy": 1.0})}
    run.tick()
    assert [run.of_tenant(number, "low.max_inflight") for number in (1, 2)] == [None, 1]
    run.tenants = {1: ("low", {"busy": 1.0}), 2: ("low", {"busy": 1.0})}
    run.tick(TICK)
    assert run.next_change() == TICK + 1
    run.run(100 * MS)
    assert run.of_tenant(1, "low.max_inflight") is None
    run.run(110 * MS)
    assert run.of_tenant(1, "low.max_inflight") == 1


def test_several_eaches_of_several_classes() -> None:
    text = """
      each low as n { when n.busy > 10% { n.max_inflight = 4 } }
      each high as k { when k.busy > 10% { k.residency = host } }
      each low as m { when m.busy > 50% { m.max_inflight = 2 m.residency = disk } }
    """
    run = Run(body(text))
    run.tenants = {1: ("low", {"busy": 0.2}), 2: ("low", {"busy": 0.9}), 3: ("high", {"busy": 0.9})}
    run.tick()
    knobs = ("low.max_inflight", "high.residency", "low.residency")
    found = {number: [run.of_tenant(number, knob) for knob in knobs] for number in (1, 2, 3)}
    assert found == {1: [4, None, None], 2: [2, None, "disk"], 3: [None, "host", None]}


# --------------------------------------------------------------------------------------------------------------- hours


def test_the_tide_turns_at_eight_and_the_gate_closes_a_quarter_before() -> None:
    run = Run(spec("tidal-mix"), MONDAY - 8 * 3600 * S + 7 * 3600 * S + 40 * 60 * S)  # 07:40 in Shanghai
    run.set({"serving.busy": 1.0, "serving.wait_p99": 0})
    found = {}
    for minutes in (0, 4, 6, 19, 21):
        run.tick(minutes * 60 * S)
        found[minutes] = run["training.admit"], run["training.pause"]
    assert found == {0: (True, False), 4: (True, False), 6: (False, False), 19: (False, False), 21: (False, True)}
    assert str(run["training.share"]) == "burst(weight = 1)"


def test_next_change_knows_the_hours() -> None:
    run = Run(spec("tidal-mix"), MONDAY - 8 * 3600 * S + 7 * 3600 * S + 40 * 60 * S)
    run.tick(serving__busy=1.0, serving__wait_p99=0)
    assert run.next_change() == 5 * 60 * S
    run.tick(5 * 60 * S)
    assert run["training.admit"] is False
    assert run.next_change() == 20 * 60 * S


def test_a_clock_that_is_set_is_believed() -> None:
    run = Run(spec("tidal-mix"), MONDAY)
    run.tick(serving__busy=1.0, serving__wait_p99=0)
    assert run["training.pause"]  # 08:00 in Shanghai
    run.wall -= 3600 * S
    run.tick(TICK)
    assert not run["training.pause"]
    run.wall += 3 * 3600 * S
    run.tick(2 * TICK)
    assert run["training.pause"]


# ------------------------------------------------------------------------------------------------------------- the rest


def test_it_begins_at_once() -> None:
    run = Run(body(""))
    assert run.next_change() == 1
    run.tick()
    assert run.next_change() is None


def test_values_are_rounded_as_pages_keep_them() -> None:
    text = """
      low.max_launch_rate = high.launch_rate / 3
      low.max_inflight = high.queued / 2
      low.max_inflight_time = high.wait_p99 / 7
      low.max_compute = high.busy / 3
      low.max_copy_rate = high.copy_rate / 3
    """
    run = Run(body(text)).tick(
        high__launch_rate=1_000.0, high__queued=5, high__wait_p99=1 * MS, high__busy=1.0, high__copy_rate=10.0
    )
    knobs = ("max_launch_rate", "max_inflight", "max_inflight_time", "max_compute", "max_copy_rate")
    found = [run[f"low.{knob}"] for knob in knobs]
    assert found == [333.0, 3, 143_000, 0.33, 3.0]
    assert [type(value) for value in found] == [float, int, int, float, float]
    run.tick(TICK, high__launch_rate=0.0, high__queued=0, high__wait_p99=0, high__busy=0.0, high__copy_rate=0.0)
    assert [run[f"low.{knob}"] for knob in knobs] == [0.0, 1, 1_000, 0.0, 0.0]


def test_a_program_compiles_at_once() -> None:
    import time

    for name in ("aimd", "tidal-mix", "quotas", "time-share"):
        ir = resolved((spec_text := spec(name)).ir.source.text)
        assert spec_text.digest == compile_policy(ir).digest
        began = time.thread_time()
        compile_policy(ir)
        assert time.thread_time() - began < 5  # tens of milliseconds; a policy is compiled while the daemon waits


def test_the_largest_policy_compiles_and_runs() -> None:
    """256 rules, nested four deep."""
    rules = "".join(
        f"when gpu.busy > {number}% for 10ms {{ when high.busy > 1% {{ when high.active {{ "
        f"when gpu.power > 1 {{ low.max_inflight = {number + 1} }} }} }} }}\n"
        for number in range(64)
    )
    run = Run(body(rules))
    run.set({"gpu.busy": 1.0, "high.busy": 1.0, "high.active": True, "gpu.power": 5})
    run.run(20 * MS)
    assert run["low.max_inflight"] == 1


def test_digest_is_of_text_and_arguments() -> None:
    one, same = body("low.pause = true"), body("low.pause = true")
    assert one.digest == same.digest
    assert one.digest != body("low.pause = false").digest
    assert compile_policy(one.ir, (("quiet", 5),)).digest != one.digest


def test_the_source_has_no_names_of_the_policy_in_its_code() -> None:
    """Names and texts of a policy stand in comments only, so none of them can become code."""
    ir = resolved(
        'policy "x" { class evil { match label("a") == "\\u0022" } let import_os = gpu.busy }'.replace("\\u0022", "b")
    )
    code = [line.partition("#")[0] for line in program_source(ir).splitlines()]
    assert "import_os" not in "".join(code)


def test_classify() -> None:
    from gpud.policies.compile.matching import BadLabel
    from gpud.policies.tenants import TenantFacts

    text = """
    policy "x" {
      class one { match label("tier") == "online" and not (user == "root") }
      class two { match exe ~ "*/python3*" or namespace in ["a", "b"] }
      class big { match label_bytes("mem", default = 1GiB) > 8GiB or label_percent("part") >= 50% }
    }"""
    found = program(text)

    def of(labels: dict[str, str] | None = None, **facts: str) -> str | None:
        job_class = found.classify(TenantFacts(labels=labels or {}, **facts))
        return job_class.name if job_class else None

    assert of({"tier": "online"}) == "one"
    assert of({"tier": "online"}, user="root") is None
    assert of({"tier": "online"}, user="root", exe="/usr/bin/python3.11") == "two"
    assert of(namespace="b") == "two"
    assert of({"mem": "9GiB"}) == "big"
    assert of({"mem": "8GiB"}) is None
    assert of({"part": "50%"}) == "big"
    with pytest.raises(BadLabel, match="the label mem=9GB is not an amount of memory such as 8GiB"):
        of({"mem": "9GB"})
    slow = "*a" * 40
    from gpud.policies.globs import fits

    assert not fits("a" * 4_000 + "b", slow)
