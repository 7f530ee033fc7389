"""Each reason why a job does not run comes with its code and the line of the policy: `gpud why --json`."""

import json
import re

import msgspec
import pytest
from attrs import evolve

from gpud.control import wire
from gpud.control.authority import Peer, Rules
from gpud.control.sight import NOBODY, Sight
from gpud.engine import publish
from gpud.engine.in_words import Levels
from gpud.engine.report import queued_view
from gpud.engine.why import why
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.levels import Level
from gpud.model.rulings import By, Ruling
from gpud.model.units import SECOND
from tests.engine.conftest import World, board
from tests.engine.test_lock import TURNS, Turns

S0 = Slot(0)
ANN = By(name="ann (uid 1000)", operator=False)
EVERYTHING = """
  class high { match label("tier") == "online" }
  class low {
    match any
    limit { compute = 30% }
  }
  arbitrate preempt { order = [high, low]  resume_after = 1ms }
  low.max_inflight = 4
  low.max_launch_rate = 1000/s
  low.max_copy_rate = 1GiB/s
  low.pause = true
"""
SHARES = """
  class all { match any  per = tenant  share = equal }
  arbitrate share { period = 20ms }
"""
QUOTA = "class job { match any  limit { memory = 100MiB\n  over_memory = wait(max = 10s) } }"


def shown(world: World, client: ClientId, levels: Levels | None = None, **counters: int) -> dict[str, object]:
    """As `gpud why --json` prints it, after its way over the socket."""
    tenant = world.state.tenants[world.state.clients[client].job]
    view = why(world.state, tenant, {(client, S0): Counters(**counters)}, world.now, levels or {})
    reply = wire.Reply(version=wire.VERSION, id=1, answer=wire.WhyAnswer(why=view))
    answer = wire.decode_reply(wire.encode(reply)[wire.LENGTH.size :]).answer
    assert isinstance(answer, wire.WhyAnswer)
    hold = json.loads(msgspec.json.encode(answer.why))["hold"]
    assert isinstance(hold, dict), "nothing is said"
    return hold


def at_gate(world: World, client: ClientId, reason: int, cap_ppm: int | None = None) -> dict[str, object]:
    job = world.state.clients[client].job
    level = Level(tenant=job, slot=S0, cap_ns=0, cap_ppm=cap_ppm, lag_ns=0, share_ppm=0, at_ns=world.now, spent=())
    return shown(world, client, {(job, S0): level}, holding=1, hold_reason=reason, hold_since_ns=world.now - SECOND)


def one(name: str, body: str) -> tuple[World, ClientId]:
    world = World(running=board((name, body)))
    client = world.low()
    world.ticks(0)
    return world, client


GATE = [
    (EVERYTHING, publish.GATE_PREEMPT, "p.gpol:8"),
    (EVERYTHING, publish.GATE_BUDGET, "p.gpol:6"),
    (EVERYTHING, publish.GATE_WINDOW, "p.gpol:9"),
    (EVERYTHING, publish.GATE_RATE, "p.gpol:10"),
    (EVERYTHING, publish.GATE_COPY, "p.gpol:11"),
    (EVERYTHING, publish.GATE_PAUSED, "p.gpol:12"),
    (SHARES, publish.GATE_SHARE, "p.gpol:4"),
    (SHARES, publish.GATE_WINDOW, "p.gpol:4"),
    (SHARES, publish.GATE_BUDGET, ""),
    (TURNS, publish.GATE_GRANT, "p.gpol:5"),
    (TURNS.replace("job  { match any }", 'job { match label("team") == "x" }'), publish.GATE_GRANT, "p.gpol:5"),
    (SHARES.replace("share = equal", "share = fixed(30%)"), publish.GATE_BUDGET, "p.gpol:3"),
]


@pytest.mark.parametrize(("body", "reason", "place"), GATE)
def test_a_reason_of_the_gate_comes_with_its_code_and_the_line(body: str, reason: int, place: str) -> None:
    hold = at_gate(*one("p", body), reason, 300_000)
    assert (hold["code"], hold["by"]) == (publish.REASONS[reason], place)


def test_every_reason_that_a_policy_gives_has_a_line() -> None:
    placed = {reason for _, reason, place in GATE if re.fullmatch(r".+\.gpol:\d+", place)}
    assert placed == publish.REASONS.keys()


def test_the_place_is_that_of_the_limit_that_the_sentence_names() -> None:
    world, client = one("p", "class all { match any\n  limit { compute = 30% } }\n  all.max_compute = 50%")
    for cap, place in ((300_000, "p.gpol:3"), (500_000, "p.gpol:4")):
        hold = at_gate(world, client, publish.GATE_BUDGET, cap)
        assert hold["by"] == place
        assert f"({place})" in str(hold["text"])
    tenant = world.state.tenants[world.state.clients[client].job]
    tenant.compute = Ruling(value=100_000, by=ANN, at_ns=0)
    assert at_gate(world, client, publish.GATE_BUDGET, 100_000)["by"] == "", "a person has said it"


def test_what_a_person_has_said_stands_in_no_policy() -> None:
    world, client = one("p", EVERYTHING)
    world.state.tenants[world.state.clients[client].job].paused = Ruling(by=ANN, at_ns=0)
    assert at_gate(world, client, publish.GATE_PAUSED)["by"] == ""


def test_an_allocation_that_waits_is_a_reason_although_no_thread_is_held_at_the_gate() -> None:
    world, client = one("quotas", QUOTA)
    held = {(client, S0): Counters(reserved_bytes=90 << 20)}
    world.react(ev.AllocAsked(client=client, slot=S0, request=1, bytes=50 << 20, time_ns=0, held=held))
    world.now += 3 * SECOND
    hold = shown(world, client)
    assert (hold["code"], hold["by"], hold["device"], hold["for_ns"]) == ("memory", "quotas.gpol:2", 0, 3 * SECOND)
    assert hold["text"] == "waiting for 3s: an allocation waits for room below its limit"
    (ask,) = world.state.asks
    ask.answered_ns = world.now
    with pytest.raises(AssertionError, match="nothing is said"):
        shown(world, client)


def test_an_allocation_that_waits_for_the_device_names_the_line_by_which_it_waits() -> None:
    world, client = one("quotas", QUOTA)
    world.react(ev.AllocAsked(client=client, slot=S0, request=1, bytes=50 << 20, time_ns=0, held={}))
    hold = shown(world, client)
    assert (hold["code"], hold["by"]) == ("memory", "quotas.gpol:3")
    assert "for room on device 0" in str(hold["text"])


def acquires() -> tuple[Turns, ClientId]:
    """Job 2 waits in gpud.acquire for job 1's turn to end, for two seconds so far."""
    world = Turns()
    first, second = world.low(), world.low()
    for client in (first, second):
        world.ask(client, explicit=True)
    world.now += 2 * SECOND
    return world, second


def test_an_explicit_wait_for_a_turn_is_a_reason_although_no_thread_is_held_at_the_gate() -> None:
    world, second = acquires()
    hold = shown(world, second)
    assert (hold["code"], hold["held_by"], hold["for_ns"]) == ("lock", 1, 2 * SECOND)
    assert re.fullmatch(r"turns\.gpol:\d+", str(hold["by"]))
    assert str(hold["text"]).startswith("waiting for 2s: place 1 in line for its turn")
    with pytest.raises(AssertionError, match="nothing is said"):
        shown(world, ClientId(1))


def test_who_may_see_own_jobs_only_reads_the_line_and_not_who_has_the_turn() -> None:
    world, second = acquires()
    world.state.tenants[JobId(1)].who = evolve(world.state.tenants[JobId(1)].who, uid=1001, user="bob")
    tenant = world.state.tenants[world.state.clients[second].job]
    view = why(world.state, tenant, {}, world.now, {})
    ann = Peer(pid=1, uid=1000, gid=1, groups=("staff",), user="ann")
    seen = Sight(world.state, ann, Rules(own_uid=990, readers="owners")).seen(view)
    assert view.hold is not None
    assert "job 1" in view.hold.text
    assert (seen.hold.held_by, seen.hold.by) == (None, view.hold.by)
    assert NOBODY in seen.hold.text
    assert "job 1" not in seen.hold.text


def test_who_waits_to_be_let_in_sees_the_line() -> None:
    body = "class job { match any\n  limit { tenants = 1 } }\n admit { when_full = queue(max = 1min) }"
    world, _ = one("quotas", body)
    world.launch()
    world.launch()
    first, _second = world.state.waiting
    hold = queued_view(world.state, first, world.now).why
    assert hold is not None
    assert (hold.code, hold.by) == ("admission", "quotas.gpol:3")
