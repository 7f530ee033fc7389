"""GP404: what a version does not enforce is refused by name."""

import pytest
from attrs import evolve

from gpud.policies import schema
from gpud.policies.enforce import THIS_VERSION, Enforced, unenforced
from gpud.policies.ir import IrPolicy
from gpud.policies.library import from_texts
from gpud.policies.resolve import resolve_policy
from tests.policies.checking import codes, ir_of, policy_text, quoted
from tests.policies.goldens import VLLM

EVERYTHING = Enforced(
    arbiters=frozenset(schema.MODES),
    knobs=frozenset(schema.KNOBS),
    settings={key: frozenset(row.name for row in rows) for key, rows in schema.BLOCKS.items()},
    class_settings=frozenset(row.name for row in schema.CLASS_SETTINGS),
    signals=frozenset(schema.SIGNALS),
    tenant_signals=frozenset(name for (_, name), row in schema.SIGNALS.items() if row.of_tenant),
    each=True,
    actuators=True,
)
PREEMPT = "preempt { order = [high, mid, low]  resume_after = 3ms }"


def refused(policy: IrPolicy, enforced: Enforced = THIS_VERSION) -> list[str]:
    """What the messages name."""
    found = unenforced(policy, enforced)
    assert {one.code for one in found} <= {"GP404"}
    assert all(one.helps and one.message.endswith(" by this version of gpud") for one in found)
    return [one.message.split("`")[1] for one in found]


def test_what_is_enforced_today() -> None:
    body = """
      low.max_inflight = 4
      low.pause = false
      when high.active and high.idle_for < 3s and high.queued == 0 and high.launch_rate > 3/s { low.yield = false }
      when high.wait_p99 > 2ms or high.memory_used > 2GiB or high.tenants > 3 { low.max_inflight = unlimited }
      when gpu.memory_free < gpu.memory_total * 10% and host.memory_free > 9GiB { low.pause = true }
      each low as n { when n.idle_for > 3min until n.active { n.max_inflight = 1 } }
      failsafe { daemon_lost = hold  after = 9s }
    """
    mode = "preempt { order = [high, [mid, low]]  resume_after = 3ms  max_inflight = 4  max_pause = unlimited }"
    assert refused(ir_of(policy_text(body, mode=mode))) == []
    assert refused(ir_of(policy_text("", mode="open {}"))) == []
    assert refused(ir_of(policy_text("low.max_inflight = 4", mode=""))) == []


ALL_OF_IT = """
policy "all" {
  class high { match user == "a"  per = tenant  share = equal  rise_after = 1h }
  class low  {
    match any
    limit { memory = 2GiB  compute = 30%  tenants = 3  over_memory = fail }
  }
  arbitrate preempt {
    order = [high, low]  resume_after = 3ms  max_inflight = 4  max_inflight_time = 2ms  max_pause = 2s  pass = 2ms
  }
  swap { tiers = [host(max = 2GiB)]  evict = oldest  keep = 1GiB }
  admit { memory = 150%  compute = 200%  when_full = reject }
  failsafe { daemon_lost = closed }
  let moving = ewma(high.copy_rate, half_life = 1s) > 1GiB/s
  when high.delay_p99 > 2ms {
    low.max_launch_rate = 3/s
    when moving { low.max_block_rate = 3/s } else { low.max_compute = 30% }
  }
  guard gpu.busy > 90% until gpu.power < 3 { low.max_copy_rate = 1GiB/s  low.admit = false }
  each low as n { when n.block_rate > 3/s { n.residency = host  n.max_inflight_time = 2ms } }
}
"""


def test_memory_is_refused_by_name_and_nothing_else() -> None:
    policy = ir_of(f"gpol 1\n{ALL_OF_IT}")
    assert refused(policy) == ["swap", "low.residency"]
    assert refused(policy, EVERYTHING) == []
    spills = ir_of(f"gpol 1\n{ALL_OF_IT.replace('over_memory = fail', 'over_memory = spill(host)')}")
    assert refused(spills)[0] == "over_memory = spill"
    waits = ir_of(f"gpol 1\n{ALL_OF_IT.replace('over_memory = fail', 'over_memory = wait(max = 3s)')}")
    assert refused(waits) == refused(policy)


def test_memory_leaves_between_turns_and_to_the_host() -> None:
    mode = "exclusive { max_hold = 3min }"
    leaves = "each low as n { when n.active { n.residency = host } else { n.residency = device } }"
    host = "swap { tiers = [host(max = 2GiB)]  evict = largest  keep = 1GiB }"
    assert refused(ir_of(policy_text(f"{host} {leaves}", mode=mode))) == []
    assert refused(ir_of(policy_text(leaves, mode=mode))) == ["low.residency"], "there is nowhere to go"
    assert refused(ir_of(policy_text(f"{host} {leaves}", mode="open {}"))) == ["swap", "low.residency"]
    disk = 'swap { tiers = [host(max = 2GiB), disk(path = "/x", max = 9GiB)] } low.residency = disk'
    (tier, place) = unenforced(ir_of(policy_text(disk, mode=mode)))
    assert tier.message == "`disk(…)` is not enforced by this version of gpud"
    assert tier.helps == ("of tiers, write `host(max = …)` alone",)
    assert place.message == "`low.residency = disk` is not enforced by this version of gpud"
    assert place.helps == ("write `device` or `host`",)


LITTLE = Enforced(
    arbiters=frozenset({"open", "preempt"}),
    knobs=frozenset({"pause", "max_inflight"}),
    settings={("arbitrate", "preempt"): frozenset({"order", "resume_after", "max_inflight", "max_pause"})}
    | {("failsafe", ""): frozenset({"daemon_lost", "after"})},
    signals=frozenset({("class", "launch_rate"), ("gpu", "memory_free")}),
    each=True,
)


def test_a_version_that_does_little_refuses_the_rest_by_name() -> None:
    assert refused(ir_of(f"gpol 1\n{ALL_OF_IT}"), LITTLE) == [
        "per", "share", "rise_after",
        "limit { memory }", "limit { compute }", "limit { tenants }", "limit { over_memory }",
        "max_inflight_time", "pass",
        "swap { tiers }", "swap { evict }", "swap { keep }",
        "admit { memory }", "admit { compute }", "admit { when_full }",
        "high.copy_rate", "high.delay_p99",
        "low.max_launch_rate", "low.max_block_rate", "low.max_compute",
        "gpu.busy", "gpu.power", "low.max_copy_rate", "low.admit",
        "low.block_rate", "low.residency", "low.max_inflight_time",
    ]  # fmt: skip


def test_an_arbiter_is_refused_as_a_whole() -> None:
    (one,) = unenforced(
        ir_of(policy_text("", mode="exclusive { max_hold = 3min  grace = 3s }")),
        evolve(THIS_VERSION, arbiters=THIS_VERSION.arbiters - {"exclusive"}),
    )
    assert one.message == "`arbitrate exclusive` is not enforced by this version of gpud"
    assert quoted(one.primary) == "arbitrate exclusive"
    assert one.helps == ("write `arbitrate open`, `arbitrate preempt` or `arbitrate share`",)


def test_units_by_what_is_not_known_are_refused() -> None:
    classes = 'class a { match user == "x"  per = namespace } class b { match any  per = label("team") }'
    (one,) = unenforced(ir_of(policy_text("", mode="share { period = 20ms }", classes=classes)))
    assert one.message == "`per = namespace` is not known by this version of gpud"
    assert quoted(one.primary) == "a"
    assert one.helps == ("write `per` with `class`, `tenant`, `group`, `user` or `label(…)`",)


def test_what_is_not_known_of_a_tenant_is_refused_by_name() -> None:
    """A class that matches on it would never have a member."""
    classes = """
      class a { match pod == "x" or user == "x" or exe ~ "x" or cgroup ~ "x" or group == "x" or label("n") == "x" }
      class b { match user == "y" and not (namespace == "prod" or namespace ~ "dev-*") }
      class c { match any }
    """
    (one,) = unenforced(ir_of(policy_text("", mode="open {}", classes=classes)))
    assert one.message == "`namespace` is not known by this version of gpud"
    assert quoted(one.primary) == "namespace"
    assert [quoted(also) for also in one.labels] == ["namespace"]
    assert one.helps == ("match on `label(…)`, `cgroup`, `exe`, `group`, `pod` or `user`",)


VALUES = {
    "pause": "true", "yield": "true", "share": "equal", "admit": "false", "residency": "host", "max_inflight": "4",
    "max_inflight_time": "5ms", "max_hold": "5s", "max_overrun": "5s", "max_compute": "5%", "max_copy_rate": "5MiB/s",
    "max_launch_rate": "5/s", "max_block_rate": "5/s",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(schema.KNOBS))
def test_each_knob_wherever_it_is_bound(name: str) -> None:
    row, value = schema.KNOBS[name], VALUES[name]
    mode = PREEMPT if "preempt" in row.modes else "exclusive { max_hold = 3min }"
    places = [
        f"low.{name} = {value}",
        f"when high.active {{ low.{name} = {value} }}",
        f"when high.active {{}} else {{ when mid.active {{ low.{name} = {value} }} }}",
    ]
    if name != "share":
        places.append(f"guard high.active until mid.active {{ low.{name} = {value} }}")
    if row.in_each:
        places.append(f"each low as n {{ when n.active {{ n.{name} = {value} }} }}")
    for body in places:
        policy = ir_of(policy_text(body, mode=mode))
        assert refused(policy, EVERYTHING) == []
        assert refused(policy, evolve(EVERYTHING, knobs=EVERYTHING.knobs - {name})) == [f"low.{name}"]


@pytest.mark.parametrize(("scope", "name"), sorted(schema.SIGNALS))
def test_each_signal_wherever_it_is_read(scope: str, name: str) -> None:
    text = f"high.{name}" if scope == "class" else f"{scope}.{name}"
    without = evolve(EVERYTHING, signals=EVERYTHING.signals - {(scope, name)})
    for body in (
        f"when {text} == {text} {{ low.pause = true }}",
        f"during day {{ when day until {text} == {text} {{ low.pause = true }} }}",
        f"let x = {text}  let y = x == x  when y {{ low.pause = true }}",
        f"guard day until {text} == {text} {{ low.pause = true }}",
    ):
        policy = ir_of(policy_text(f"hours day = daily 08:00..09:00  {body}", mode="open {}"))
        assert refused(policy, EVERYTHING) == []
        assert refused(policy, without) == [text]


@pytest.mark.parametrize("name", sorted(EVERYTHING.tenant_signals))
def test_each_signal_of_one_tenant(name: str) -> None:
    policy = ir_of(policy_text(f"each low as n {{ when n.{name} == n.{name} and n.active {{ n.residency = host }} }}"))
    assert refused(policy, evolve(EVERYTHING, signals=EVERYTHING.signals - {("class", name)})) == []
    assert refused(policy, evolve(EVERYTHING, tenant_signals=EVERYTHING.tenant_signals - {name})) == [f"low.{name}"]


@pytest.mark.parametrize(("kind", "mode"), sorted(schema.BLOCKS))
def test_each_setting_of_each_block(kind: str, mode: str) -> None:
    for row in schema.BLOCKS[kind, mode]:
        known = dict(EVERYTHING.settings) | {(kind, mode): EVERYTHING.settings[kind, mode] - {row.name}}
        policy = ir_of(f"gpol 1\n{ALL_OF_IT}")
        names = [name.rstrip(" }").rpartition(" ")[2] for name in refused(policy, evolve(EVERYTHING, settings=known))]
        blocks = [policy.arbiter, policy.swap, policy.admit, policy.failsafe, *(one.limit for one in policy.classes)]
        written = [
            block
            for block in blocks
            if block and (block.kind, block.mode) == (kind, mode) and row.name in block.settings
        ]
        assert names == [row.name] * len(written)


def test_rules_about_one_tenant() -> None:
    policy = ir_of(policy_text("each low as n { when n.active { n.max_inflight = 1 } }", mode="open {}"))
    (one,) = unenforced(policy, evolve(THIS_VERSION, each=False))
    assert one.message == "`each` is not enforced by this version of gpud"
    assert quoted(one.primary) == "each low as n"


def test_an_empty_block_is_refused_too() -> None:
    (one,) = unenforced(ir_of(policy_text("admit {}", mode="open {}")), LITTLE)
    assert (one.message.split("`")[1], quoted(one.primary)) == ("admit", "admit")


def test_one_knob_is_named_once_with_its_places() -> None:
    body = "low.admit = true\n" + "\n".join(f"when low.busy > {n}% {{ low.admit = false }}" for n in range(1, 6))
    admit, busy = unenforced(ir_of(policy_text(body, mode="open {}")), LITTLE)
    assert admit.message.startswith("`low.admit`")
    assert [label.text for label in admit.labels] == ["and here", "and here"]
    assert busy.message == "`low.busy` is not measured by this version of gpud"


def test_signals_of_plugins_are_measured_by_them() -> None:
    text = policy_text("when low.vllm.queue_depth > 3 { low.pause = true }", mode="open {}")
    policy, file = from_texts({"p": text.replace("gpol 1", "gpol 1\nuse vllm")}).policies["p"]
    resolved, problems = resolve_policy(policy, file, (), {"vllm": VLLM})
    assert resolved is not None
    assert not problems
    assert refused(resolved) == []


def test_only_what_is_applied_is_held_against_it() -> None:
    text = policy_text("low.residency = host", mode="open {}")
    assert codes(text) == []
    assert codes(text, enforced=THIS_VERSION) == []
    assert codes(text + 'apply "p" to gpu 3', enforced=THIS_VERSION) == ["GP404"]
    assert codes(text, default="p", enforced=THIS_VERSION) == ["GP404"]
    assert codes(text + 'apply "p" to gpu 3') == []
