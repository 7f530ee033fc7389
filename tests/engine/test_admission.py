"""Who is let in, who waits in line, who is refused: `admit`, places, shares, compute, in this order."""

import math

import pytest

from gpud.engine.admission import slots_of
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model import refusals
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, JobId, SessionId
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import UUID, World, asks, board, only

OTHER = bytes(reversed(UUID))
CLASSES = """
  class gold { match label("plan") == "gold"  limit { tenants = 2  compute = 40% } }
  class rest { match any  limit { compute = label_percent("share", default = 5%) } }
"""


def world_of(body: str, devices: tuple[bytes, ...] = (UUID,)) -> World:
    world = World(running=board(("quotas", CLASSES + body)))
    world.react(ev.DevicesFound(devices=tuple((uuid, "A100", 1 << 30) for uuid in devices)))
    return world


REJECT = "admit { compute = 100% }"
QUEUE = "admit { compute = 100%  when_full = queue(max = 5min) }"


class Asked:
    """What became of a `gpud run`."""

    def __init__(self, world: World, effects: list[Effect], session: int) -> None:
        self.world, self.session = world, session
        self.hear(effects)

    def hear(self, effects: list[Effect]) -> str:
        mine = [effect for effect in effects if getattr(effect, "session", None) == self.session]
        for effect in mine:
            match effect:
                case do.SendJob():
                    self.said, self.job = "job", effect.job
                case do.SendQueued():
                    self.said, self.text, self.wait_ns = "queued", effect.text, effect.wait_ns
                case do.Refuse():
                    self.said, self.text, self.code = "refused", effect.text, effect.code
                case do.SendWelcome():
                    self.said, self.client = "welcome", effect.client
        return self.said


def run(world: World, gpu: str = "", **labels: str) -> Asked:
    who = world.who()
    session = world._session + 1
    asked = {f"label_{key}": value for key, value in labels.items()} | ({"gpu": gpu} if gpu else {})
    _, effects = world.launch(who, **asked)
    return Asked(world, effects, session)


def ends(world: World, job: Asked) -> list[Effect]:
    return world.react(ev.LauncherEnded(job=JobId(job.job)))


def test_without_limits_everybody_is_let_in() -> None:
    world = World(running=board(("plain", "class all { match any }  arbitrate open {}")))
    assert {run(world).said for _ in range(50)} == {"job"}


def test_places_of_a_unit() -> None:
    world = world_of(REJECT)
    assert [run(world, plan="gold").said for _ in range(3)] == ["job", "job", "refused"]
    third = run(world, plan="gold")
    assert third.code == refusals.POLICY
    assert third.text == "the class gold has 2 jobs on device 0, as many as it may (quotas.gpol:3)"
    assert run(world).said == "job", "the other class has places"


def test_places_of_each_unit_by_per() -> None:
    body = "class all { match any  per = user  limit { tenants = 1 } }"
    world = World(running=board(("each", body)))
    assert [world.launch(world.who(user=user))[1] for user in ("ann", "bob")]
    found = Asked(world, world.launch(world.who(user="ann"))[1], world._session)
    assert (found.said, found.text.partition(", as")[0]) == ("refused", "user 1000 of all has 1 job on the device")


def test_compute_that_is_promised() -> None:
    world = world_of(REJECT)
    assert [run(world, plan="gold").said for _ in range(2)] == ["job", "job"]
    assert run(world, share="15%").said == "job"
    found = run(world, share="10%")
    assert found.said == "refused"
    assert found.text == "10% of compute do not fit on device 0: 95% of 100% are promised (policy quotas)"
    assert run(world).said == "job", "5 % fit"
    assert run(world).said == "refused"


def test_without_admit_promises_are_not_added_up() -> None:
    world = world_of("")
    assert {run(world, share="100%").said for _ in range(5)} == {"job"}


def test_a_soft_limit_is_a_promise_too() -> None:
    body = "class all { match any  limit { compute = soft(60%) } } admit {}"
    world = World(running=board(("soft", body)))
    assert [run(world).said for _ in range(2)] == ["job", "refused"]


FIXED = """
  class a { match label("a") == "1"  per = tenant  share = fixed(30%) }
  class b { match any  share = burst(weight = 1) }
  arbitrate share { period = 20ms }
"""


def test_fixed_shares_must_fit() -> None:
    world = World(running=board(("shares", FIXED)))
    assert [run(world, a="1").said for _ in range(4)] == ["job", "job", "job", "refused"]
    assert run(world, a="1").text == "its share of 30% does not fit on the device: 10% are not promised yet"
    assert {run(world).said for _ in range(9)} == {"job"}


def test_fixed_shares_of_one_unit_count_once() -> None:
    world = World(running=board(("shares", FIXED.replace("per = tenant", "per = user"))))
    assert {run(world, a="1").said for _ in range(9)} == {"job"}


def test_a_class_that_admits_nobody_now() -> None:
    body = """
      class all { match any }
      when gpu.memory_total > 0B because "the tide turns" { all.admit = false }
    """
    world = World(running=board(("tide", body)))
    world.react(ev.DevicesFound(devices=((UUID, "A100", 1 << 30),)))
    found = run(world)
    assert found.said == "refused"
    assert found.text.startswith("the class all takes no new jobs now: the tide turns (tide.gpol:")


def test_the_order_in_which_it_is_asked() -> None:
    """Places before compute: the text names the first that is missing."""
    world = world_of(REJECT.replace("100%", "10%"))
    assert "do not fit" in run(world, plan="gold").text
    world = world_of(REJECT)
    for _ in range(2):
        run(world, plan="gold")
    for _ in range(4):
        run(world)
    assert "as many as it may" in run(world, plan="gold").text


# --------------------------------------------------------------------------------------------------------- the line


def test_who_waits_comes_in_when_there_is_room() -> None:
    world = world_of(QUEUE)
    first, second, third = (run(world, plan="gold") for _ in range(3))
    assert (third.said, third.wait_ns) == ("queued", 300 * SECOND)
    assert third.text.startswith("the class gold has 2 jobs")
    assert third.hear(ends(world, first)) == "job"
    assert world.state.waiting == []
    assert world.state.tenants[third.job].began_ns == world.now
    assert second.said == "job"


def test_first_come_first_served() -> None:
    world = world_of(QUEUE)
    inside = [run(world, plan="gold") for _ in range(2)]
    line = [run(world, plan="gold") for _ in range(3)]
    effects = ends(world, inside[0])
    assert [one.hear(effects) for one in line] == ["job", "queued", "queued"]
    late = run(world, plan="gold")
    effects = ends(world, inside[1])
    assert [one.hear(effects) for one in (*line, late)] == ["job", "job", "queued", "queued"]


def test_a_small_job_does_not_starve_a_large_one() -> None:
    """What the one in front waits for is not given to whoever comes later and needs less."""
    world = world_of(QUEUE)
    inside = [run(world, share="50%"), run(world, share="40%")]
    large = run(world, share="30%")
    small = run(world, share="10%")
    assert (large.said, small.said) == ("queued", "queued")
    assert small.text == "others wait before it for compute on device 0"
    effects = ends(world, inside[1])
    assert [one.hear(effects) for one in (large, small)] == ["job", "job"]


def test_who_needs_something_else_goes_ahead() -> None:
    world = world_of(QUEUE)
    for _ in range(2):
        run(world, plan="gold")
    waits = run(world, plan="gold")
    assert waits.said == "queued"
    assert run(world, share="15%").said == "job", "compute is there; the one in front waits for a place"


def test_it_waits_no_longer_than_it_may() -> None:
    world = world_of(QUEUE)
    for _ in range(2):
        run(world, plan="gold")
    waits = run(world, plan="gold")
    due = world.state.waiting[0].until_ns
    assert due == world.now + 300 * SECOND
    from gpud.engine.ticking import next_wakeup

    at = next_wakeup(world.state)
    assert at is not None
    assert at <= due
    waits.hear(world.later(299 * SECOND))
    assert waits.said == "queued"
    assert waits.hear(world.later(SECOND)) == "refused"
    assert waits.code == refusals.POLICY
    assert waits.text.startswith("it has waited for 5min: the class gold has 2 jobs on device 0, as many as it may")
    assert world.state.waiting == []


def test_it_may_wait_for_ever() -> None:
    world = world_of("admit { when_full = queue(max = unlimited) }")
    for _ in range(2):
        run(world, plan="gold")
    waits = run(world, plan="gold")
    assert (waits.said, waits.wait_ns) == ("queued", None)
    assert world.state.waiting[0].until_ns == math.inf
    waits.hear(world.later(10**6 * SECOND))
    assert waits.said == "queued"


def test_who_gives_up_is_in_line_no_more() -> None:
    world = world_of(QUEUE)
    inside = [run(world, plan="gold") for _ in range(2)]
    first, second = run(world, plan="gold"), run(world, plan="gold")
    world.react(ev.SessionEnded(session=SessionId(first.session), reason="Ctrl-C"))
    effects = ends(world, inside[0])
    assert [first.hear(effects), second.hear(effects)] == ["queued", "job"]


def test_a_daemon_that_ends_sends_all_away() -> None:
    for event in (ev.DrainAsked(), ev.StopAsked()):
        world = world_of(QUEUE)
        for _ in range(2):
            run(world, plan="gold")
        waits = run(world, plan="gold")
        assert waits.hear(world.react(event)) == "refused"
        assert waits.code == refusals.DRAINING


def test_another_set_of_policies_lets_in_or_refuses() -> None:
    world = world_of(QUEUE)
    for _ in range(2):
        run(world, plan="gold")
    waits = run(world, plan="gold")
    more = board(("quotas", CLASSES.replace("tenants = 2  compute = 40%", "tenants = 3  compute = 30%") + QUEUE))
    assert waits.hear(world.react(ev.BoardChanged(board=more))) == "job"
    again = run(world, plan="gold")
    assert again.said == "queued"
    nobody = board(("other", 'class x { match label("x") == "y" }  arbitrate open {}'))
    assert again.hear(world.react(ev.BoardChanged(board=nobody))) == "refused"
    assert "no class of the policy other takes this job" in again.text


def test_a_rule_that_admits_again_lets_in() -> None:
    body = """
      class all { match any }
      admit { when_full = queue(max = 5min) }
      when host.memory_free < 1GiB { all.admit = false }
    """
    world = World(running=board(("tide", body)))
    world.low()
    world.ticks(0, host_free=0)
    waits = run(world)
    assert waits.said == "queued"
    waits.hear(world.ticks(5 * MILLISECOND, host_free=0))
    assert waits.said == "queued"
    assert waits.hear(world.ticks(5 * MILLISECOND, host_free=9 << 30)) == "job"


# ------------------------------------------------------------------------------------------------- several devices


def test_which_devices_it_may_come_to() -> None:
    world = world_of("", devices=(UUID, OTHER))
    assert slots_of(world.state, "") == [0, 1]
    assert slots_of(world.state, "1") == [1]
    assert slots_of(world.state, "0,1") == [0, 1]
    assert slots_of(world.state, "GPU-00010203") == [0]
    assert slots_of(world.state, "no such thing") == [0, 1]


def test_a_device_that_is_full_does_not_keep_a_job_off_another() -> None:
    world = world_of(REJECT, devices=(UUID, OTHER))
    assert [run(world, gpu="0", plan="gold").said for _ in range(3)] == ["job", "job", "refused"]
    assert run(world, gpu="1", plan="gold").said == "job"
    assert run(world, plan="gold").said == "refused", "it might come to the full one"


def test_a_job_that_has_come_to_one_device_is_on_no_other() -> None:
    world = world_of(REJECT, devices=(UUID, OTHER))
    who = world.who()
    world.launch(who, label_plan="gold")
    world.ready(who, [UUID])
    assert [run(world, gpu="1", plan="gold").said for _ in range(2)] == ["job", "job"]
    assert [run(world, gpu="0", plan="gold").said for _ in range(2)] == ["job", "refused"]


# --------------------------------------------------------------------------------- processes that attach by themselves


def attach(world: World, waits: bool = True) -> Asked:
    session = world.session()
    plain = asks(session, world.who())
    event = ev.AttachAsked(
        session=plain.session, who=plain.who, client=plain.client, generation=plain.generation, again=False, waits=waits
    )
    return Asked(world, world.react(event), session)


ONE = "class all { match any  limit { tenants = 1 } }"


def test_a_process_that_waits_in_cuinit_is_refused_or_waits() -> None:
    world = World(running=board(("one", ONE)))
    assert attach(world).said == "welcome"
    second = attach(world)
    assert (second.said, second.code) == ("refused", refusals.ADMISSION)
    assert len(world.state.clients) == len(world.state.tenants) == 1

    world = World(running=board(("one", ONE + QUEUE)))
    first = attach(world)
    second = attach(world)
    assert second.said == "queued"
    assert second.hear(world.gone(ClientId(first.client))) == "welcome"
    assert world.state.clients[second.client].live is False


def test_a_process_that_runs_already_is_let_in() -> None:
    """It would run on without any gate."""
    world = World(running=board(("one", ONE)))
    assert [attach(world, waits=False).said for _ in range(3)] == ["welcome"] * 3


def test_a_process_of_a_job_that_is_in_comes_in() -> None:
    world = World(running=board(("one", ONE)))
    who = world.who()
    world.launch(who)
    for _ in range(3):
        child = world.who(((who.pid, who.started),))
        event = asks(world.session(), child)
        event = ev.AttachAsked(
            session=event.session, who=child, client=event.client, generation=event.generation, again=False, waits=True
        )
        assert only(world.react(event), do.SendWelcome)


def test_two_processes_in_line_of_one_job() -> None:
    """A hook that comes back by another connection before the first is known to have ended."""
    world = World(running=board(("one", ONE + QUEUE)))
    first = attach(world)
    who = world.who()
    lined = []
    for _ in range(2):
        session = world.session()
        plain = asks(session, who)
        event = ev.AttachAsked(
            session=plain.session, who=who, client=plain.client, generation=plain.generation, again=False, waits=True
        )
        lined.append(Asked(world, world.react(event), session))
    assert [one.said for one in lined] == ["queued", "queued"]
    effects = world.gone(ClientId(first.client))
    assert [one.hear(effects) for one in lined] == ["welcome", "welcome"]
    assert len([t for t in world.state.tenants.values() if t.who == who]) == 1


@pytest.mark.parametrize("device", [True, False])
def test_nobody_knows_a_device_yet(device: bool) -> None:
    world = world_of(REJECT) if device else World(running=board(("quotas", CLASSES + REJECT)))
    assert [run(world, plan="gold").said for _ in range(3)] == ["job", "job", "refused"]
