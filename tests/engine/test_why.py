"""From knob to rule to line to inputs."""

from gpud.control import wire
from gpud.engine.publish import GATE_PAUSED, GATE_WINDOW
from gpud.engine.report import classes, job_view, policies
from gpud.engine.signals import STALE_NS
from gpud.engine.why import why
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot, uuid_text
from gpud.model.units import MILLISECOND, SECOND
from gpud.model.views import ExplainView, JobView, WhyView
from tests.engine.conftest import GIB, PREEMPT_MIX, UUID, World, board, only

S0 = Slot(0)
TIDE = """
  class serving  { match label("tier") == "online" }
  class training { match any }
  arbitrate preempt { order = [serving, training]  resume_after = 1ms  max_inflight = 4 }
  when serving.queued > 2 for 10ms because "requests queue" {
    training.pause = true
  }
  when serving.active {
    training.max_inflight = 2
    when serving.launch_rate > 100/s { training.max_inflight = 1 }
  }
"""
LIMIT = """
  param most = 3
  class all { match any }
  all.max_inflight = most
"""


def tide() -> World:
    return World(running=board(("tide", TIDE), ("limit", LIMIT)))


def asked(world: World, client: ClientId, **counters: int) -> WhyView:
    tenant = world.state.tenants[world.state.clients[client].job]
    return why(world.state, tenant, {(client, S0): Counters(**counters)}, world.now, {})


def knob(view: WhyView, name: str) -> list[ExplainView]:
    (device,) = view.devices
    return [explained for explained in device.knobs if explained.because.knob.endswith(f".{name}")]


def test_the_chain_of_every_knob_in_force() -> None:
    world = tide()
    training, serving = world.low(), world.high()
    world.ticks(5 * MILLISECOND, {serving: Counters(active=True, entered=0)})
    world.ticks(200 * MILLISECOND, {serving: Counters(active=True, entered=1000)})
    view = asked(world, training)
    (device,) = view.devices
    assert (device.device, device.uuid, device.policies) == (0, uuid_text(UUID), ("tide", "limit"))
    assert (device.arbiter, device.rank) == ("preempt", 1)
    inner, limit = knob(view, "max_inflight")
    assert inner.in_force
    assert not limit.in_force
    because = inner.because
    assert (because.policy, because.file, because.value) == ("tide", "tide.gpol", "1")
    assert because.line == 11
    assert because.rule == "when serving.launch_rate > 100/s"
    assert any("serving.active" in rule for rule in because.inside)
    assert dict(because.inputs)["serving.active"] == "true"
    assert "serving.launch_rate" in dict(because.inputs)
    assert (limit.because.policy, limit.because.line, limit.because.value) == ("limit", 5, "3")
    (pause,) = [one for one in knob(view, "pause") if one.because.policy == "tide"]
    assert (pause.because.value, pause.because.line) == ("false", 0)


def test_why_a_job_is_paused_names_the_rule_and_its_because() -> None:
    world = tide()
    training, serving = world.low(), world.high()
    for _ in range(3):
        effects = world.ticks(10 * MILLISECOND, {serving: Counters(holding=3)})
    view = asked(world, training, holding=1, hold_reason=GATE_PAUSED, hold_since_ns=world.now - 3 * SECOND)
    assert view.hold is not None
    assert view.hold.code == "paused"
    assert view.hold.text == (
        "held for 3s: it is paused: “requests queue” (tide.gpol:7, when serving.queued > 2 for 10ms)"
    )
    assert view.job.why == view.hold
    del effects


def test_why_a_window_is_full_names_the_policy_that_set_it() -> None:
    world = tide()
    training = world.low()
    view = asked(world, training, holding=1, hold_reason=GATE_WINDOW, hold_since_ns=world.now)
    assert view.hold is not None
    assert "its window of 3 unfinished launches is full (limit.gpol:5, always)" in view.hold.text


def test_every_change_that_is_published_is_explained() -> None:
    world = tide()
    training, serving = world.low(), world.high()
    effects = world.ticks(5 * MILLISECOND, {serving: Counters(active=True)})
    (change,) = only(effects, do.KnobChanged)
    assert (change.slot, change.before, change.because.knob) == (0, "4", "training.max_inflight")
    assert (change.because.value, change.because.rule) == ("2", "when serving.active")
    (published,) = only(effects, do.PublishDevice)
    assert (published.client, published.words.max_inflight) == (training, 2)
    assert effects.index(change) < effects.index(published)
    assert not only(world.ticks(5 * MILLISECOND, {serving: Counters(active=True)}), do.KnobChanged)


def test_a_rule_about_one_tenant_is_explained_for_that_tenant() -> None:
    body = """
  class nb { match any }
  arbitrate open {}
  each nb as n { when n.queued > 1 because "it queues" { n.max_inflight = 7 } }
"""
    world = World(running=board(("each", body)))
    first, second = world.low(), world.low()
    effects = world.ticks(5 * MILLISECOND, {second: Counters(holding=2)})
    (change,) = only(effects, do.KnobChanged)
    assert (change.job, change.before, change.because.value, change.because.line) == (2, "unlimited", "7", 5)
    (own,) = knob(asked(world, second), "max_inflight")
    assert (own.because.value, own.because.line, own.because.because) == ("7", 5, "it queues")
    assert "when n.queued > 1" in own.because.rule
    assert change.because.inputs == own.because.inputs == (("nb.queued", "2"),)
    (change,) = only(world.ticks(5 * MILLISECOND), do.KnobChanged)
    assert (change.job, change.before, change.because.value) == (2, "7", "unlimited")
    (other,) = knob(asked(world, first), "max_inflight")
    assert (other.because.value, other.because.line) == ("unlimited", 0)


def test_each_tenant_has_its_own_explanation() -> None:
    body = """
  class nb { match any }
  arbitrate open {}
  each nb as n {
    when n.queued > 1 { n.max_inflight = 7 }
    when n.queued > 5 { n.max_inflight = 3 }
  }
"""
    world = World(running=board(("each", body)))
    first, second = world.low(), world.low()
    effects = world.ticks(5 * MILLISECOND, {first: Counters(holding=2), second: Counters(holding=6)})
    assert [(c.job, c.because.value, c.because.line) for c in only(effects, do.KnobChanged)] == [
        (1, "7", 6),
        (2, "3", 7),
    ]
    assert [knob(asked(world, client), "max_inflight")[0].because.value for client in (first, second)] == ["7", "3"]


def test_a_job_without_a_process_yet_sees_every_device() -> None:
    world = World(running=board(("preempt-mix", PREEMPT_MIX)))
    world.low()
    world.launch(label_tier="online")
    tenant = world.state.tenants[2]  # type: ignore[index]
    view = why(world.state, tenant, {}, world.now, {})
    assert (view.job.state, view.hold) == ("starting", None)
    assert [device.device for device in view.devices] == [0]


def test_a_job_that_no_class_takes() -> None:
    picky = 'class high { match label("tier") == "online" }  arbitrate preempt { order = [high]  resume_after = 1ms }'
    world = World(running=board(("picky", picky)))
    client = world.ready()
    view = asked(world, client)
    (device,) = view.devices
    assert (device.rank, device.knobs) == (1, ())
    assert [(c.policy, c.job_class, c.how) for c in view.job.classes] == [("picky", "", "none")]
    assert view.job.job_class == "unclassified"


def test_why_fits_into_an_answer() -> None:
    world = tide()
    client = world.low()
    world.ticks(0)
    wire.encode(wire.Reply(version=wire.VERSION, id=1, answer=wire.WhyAnswer(why=asked(world, client))))


def test_what_applies_where() -> None:
    site = 'apply "tide", "limit" to gpu 0\napply "preempt-mix"(quiet = 7ms) to gpu *'
    world = World(running=board(("tide", TIDE), ("limit", LIMIT), ("preempt-mix", PREEMPT_MIX), site=site))
    world.low()
    here, others = policies(world.state)
    assert (here.device, here.uuid) == (0, uuid_text(UUID))
    assert [(one.name, one.mode, one.classes) for one in here.policies] == [
        ("tide", "preempt", ("serving", "training")),
        ("limit", "", ("all",)),
    ]
    assert here.policies[1].arguments == (("most", "3"),)
    assert others.device is None
    assert [(one.name, one.arguments) for one in others.policies] == [("preempt-mix", (("quiet", "7ms"),))]


def test_a_signal_that_is_lost_is_named_once_and_shown_until_it_is_back() -> None:
    body = "class all { match any } arbitrate open {} guard gpu.memory_free < 1GiB until gpu.memory_free > 2GiB "
    world = World(running=board(("full", body + "{ all.pause = true }")))
    client = world.low()

    def told() -> list[tuple[str, str]]:
        return [(record.level, record.text) for record in only(world.ticks(SECOND), do.Record)]

    def shown() -> list[tuple[str, ...]]:
        return [one.unknown for view in policies(world.state) for one in view.policies]

    assert told() == []  # nobody has asked the driver yet
    assert shown() == [("gpu.memory_free",), ()]
    world.react(ev.DriverTold(devices={UUID: ev.Seen(total_bytes=GIB, used_bytes=GIB)}))
    assert told() == [("info", "gpu.memory_free, which the policy full reads on device 0, is known again")]
    assert shown() == [(), ()]
    world.now += STALE_NS
    text = "is not known any more: in a second its rules let go, guards hold on"
    assert told() == [("warning", f"gpu.memory_free, which the policy full reads on device 0, {text}")]
    assert [told() for _ in range(3)] == [[], [], []]
    assert shown() == [("gpu.memory_free",), ()]
    (pause,) = knob(asked(world, client), "pause")
    assert (pause.because.value, pause.because.inputs) == ("true", (("gpu.memory_free", "missing"),))
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB),)))
    world.gone(client)
    assert shown() == [(), ()]  # nobody is there: nobody looks


def test_classes_by_every_policy_and_the_arbiters_first_on_screens() -> None:
    world = tide()
    client = world.high()
    tenant = world.state.tenants[world.state.clients[client].job]
    shown: JobView = job_view(world.state, tenant, {}, world.now, {})
    assert shown.job_class == "serving"
    assert [(c.policy, c.job_class, c.how) for c in classes(world.state, tenant)] == [
        ("tide", "serving", "match"),
        ("limit", "all", "match"),
    ]
