"""Why a knob has its value, and what a policy does, in words."""

import pytest

from gpud.policies.explain import explain_knob, explain_policy, explain_tenant_knob
from gpud.policies.plugins.declare import Actuator, Number, Plugin
from tests.policies.programs import MONDAY, MS, TICK, Run, S, body, program, spec

TIDAL_MIX = """\
policy "tidal-mix"   arbitrate share   cost 44/2000 steps per tick

who belongs where (decided once, at attach; first match wins)
  1. serving    label("tier") == "online"
  2. training   label("tier") == "batch"
  3. other      any

in the hook — on every launch; keeps working without the daemon until the lease ends
  period       = 20ms
  reclaim      = 2ms

in the daemon — every 5 ms, or earlier when an input flips
  training.admit   (let new tenants attach; siblings combine by all)
    line 16  during day
    base     built-in true
  training.pause   (hold every launch of the class; siblings combine by any)
    line 34  guard serving.wait_p99 > 20ms for 1s
    line 22  when serving.busy < 20% for 10min, inside line 19
    line 19  during day
    base     built-in false
  training.residency   (where the class's memory may live; siblings combine by furthest)
    line 23  when serving.busy < 20% for 10min, inside line 20
    line 20  during day
    base     built-in device
  training.share   (claim on GPU time of each unit; two rules at once are an error)
    line 24  when serving.busy < 20% for 10min, inside the rule of line 18
    line 28  during day, else
    base     line 10  burst(weight = 1)

reads: serving.busy, serving.wait_p99
"""


def test_the_sample_of_the_specification() -> None:
    assert explain_policy(spec("tidal-mix")) == TIDAL_MIX
    assert explain_policy(spec("tidal-mix").ir) == TIDAL_MIX


def test_settings_of_every_block_are_shown() -> None:
    preempt = explain_policy(spec("preempt-mix"))
    assert "  order             = [high, low]\n  resume_after      = 3ms\n  max_inflight_time = 2ms\n" in preempt
    assert "  failsafe          = hold, after 30s open\n" in preempt
    quotas = explain_policy(spec("quotas"))
    assert 'policy "quotas"   only tightens   cost' in quotas
    assert '  silver.memory         = label_bytes("gpud.io/memory", default = 8GiB)\n' in quotas
    assert "  scavenger.over_memory = spill(host)\n" in quotas
    assert "  when_full    = queue(5min)\n" in quotas
    turns = explain_policy(spec("time-share"))
    assert '  tiers        = [host(max = 64GiB), disk(path = "/var/lib/gpud/swap", max = 500GiB)]\n' in turns
    assert "    line 27  when j.idle_for > 30min, for each job\n" in turns
    assert "    base     line 12  30s\n" in turns
    assert explain_policy(body("")).endswith("  2. low        any\n")


def test_what_a_class_says_of_itself_is_shown() -> None:
    text = (
        'class high { match label("tier") == "online" } class near { match user == "ann"  per = user  rise_after = 1h }'
        " class low { match any  rise_after = 90min }"
        " arbitrate preempt { order = [high, near, low]  resume_after = 1ms }"
    )
    shown = explain_policy(program(f'gpol 1 policy "p" {{ {text} }}'))
    assert '  2. near       user == "ann"   (a unit per user, one rank up after 1h)\n' in shown
    assert "  3. low        any   (one rank up after 90min)\n" in shown


def test_knobs_of_plugins_and_what_a_class_and_its_jobs_read() -> None:
    async def apply(*_: object) -> None: ...

    dials = tuple(
        Actuator(name, Number, "min", 5, apply, doc=doc) for name, doc in (("one", ""), ("two", "turns the fan"))
    )
    plugins = {"fans": Plugin(name="fans", actuators=dials)}
    text = (
        "when low.queued > 3 { low.fans.one = 3 low.fans.two = 2 }"
        " each low as n { when n.queued > 1 { n.max_inflight = 1 } }"
    )
    shown = explain_policy(body(text, plugins, "use fans"), plugins)
    assert "  low.fans.one   (of the plugin fans; siblings combine by min)\n" in shown
    assert "  low.fans.two   (turns the fan; siblings combine by min)\n" in shown
    assert "    base     built-in 5\n" in shown
    assert shown.endswith("\nreads: low.queued\n")


def test_a_comment_or_a_newline_in_a_condition_is_not_quoted() -> None:
    found = body('when high.busy > 60% # "busy"\n   and  high.active\n { low.pause = true }')
    assert found.sites[1].text == "when high.busy > 60% and high.active"


def test_the_chain_from_a_knob_to_its_inputs() -> None:
    run = Run(spec("tidal-mix"), MONDAY - 8 * 3600 * S + 12 * 3600 * S)
    run.set({"serving.busy": 0.5, "serving.wait_p99": 30 * MS})
    run.run(2 * S)
    index = [knob.text for knob in run.program.knobs].index("training.pause")
    found = run.program.explain(index, run.knobs, run.snapshot(), run.state)
    assert found.rule == "during day"  # the guard says the same, so it is not what decides
    run.set({"serving.busy": 0.1})
    run.run(run.now + 610 * S, step=S)
    found = run.program.explain(index, run.knobs, run.snapshot(), run.state)
    assert (found.policy, found.file, found.line, found.knob, found.value) == (
        "tidal-mix", "test.gpol", 34, "training.pause", "true",
    )  # fmt: skip
    assert found.rule == "guard serving.wait_p99 > 20ms for 1s"
    assert found.inside == ()
    assert found.because == "serving is slow"
    assert found.inputs == (("serving.wait_p99", "30ms"),)
    share = [knob.text for knob in run.program.knobs].index("training.share")
    found = run.program.explain(share, run.knobs, run.snapshot(), run.state)
    assert (found.line, found.value, found.inside) == (24, "fixed(10%)", ("line 18  during day",))
    assert dict(found.inputs)["serving.busy"] == "10%"


def test_inputs_go_through_lets() -> None:
    run = Run(spec("aimd"))
    run.tick(high__launch_rate=1_000.0, high__idle_for=0)
    index = [knob.text for knob in run.program.knobs].index("low.max_launch_rate")
    found = explain_knob(run.program, index, run.knobs, run.snapshot(), run.state)
    assert found.rule == "always"
    assert dict(found.inputs) == {
        "high.launch_rate": "1000/s", "hurt": "false", "moved": "false", "arrivals": "1000/s", "baseline": "1000/s",
    }  # fmt: skip
    run.tick(TICK, high__launch_rate=None)
    assert dict(explain_knob(run.program, index, run.knobs, run.snapshot(), run.state).inputs)["hurt"] == "missing"


@pytest.mark.parametrize(
    ("knob", "line", "rule", "value"),
    [
        ("serving.share", 9, "line 9  burst(weight = 4)", "burst(weight = 4)"),
        ("serving.pause", 0, "built-in false", "false"),
        ("serving.max_launch_rate", 0, "built-in unlimited", "unlimited"),
    ],
)
def test_a_base_is_explained(knob: str, line: int, rule: str, value: str) -> None:
    run = Run(spec("tidal-mix")).tick(serving__busy=0.5, serving__wait_p99=0)
    index = [one.text for one in run.program.knobs].index(knob)
    found = explain_knob(run.program, index, run.knobs, run.snapshot(), run.state)
    assert (found.line, found.rule, found.value) == (line, rule, value)


def test_the_nearest_because_counts() -> None:
    text = 'when high.active because "outer" { when high.busy > 1% { low.pause = true } }'
    assert (
        program(f'policy "p" {{ class high {{ match any }} class low {{ match any }} {text} }}').sites[1].because
        == "outer"
    )


def test_what_each_says_of_a_tenant_is_explained() -> None:
    run = Run(body('each low as n { when n.idle_for > 1s because "idle" { n.residency = host } }'))
    run.tenants = {3: ("low", {"idle_for": 2 * S})}
    run.tick()
    values = ("low", 2 * S)
    found = explain_tenant_knob(run.program, 3, 0, run.knobs, run.snapshot(), values, run.state)
    assert (found.knob, found.value, found.because) == ("low.residency", "host", "idle")
    assert found.inputs == (("low.idle_for", "2s"),)
    with pytest.raises(KeyError):
        explain_tenant_knob(run.program, 4, 0, run.knobs, run.snapshot(), values, run.state)
