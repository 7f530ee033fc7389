"""What of an answer somebody sees who may see own jobs only."""

import pytest

from gpud.control import wire
from gpud.control.authority import Peer, Rules
from gpud.control.sight import NOBODY, Sight
from gpud.engine.publish import GATE_PREEMPT
from gpud.engine.report import job_view, queued_view
from gpud.engine.why import why
from gpud.model import effects as do
from gpud.model.counters import Counters
from gpud.model.ids import ClientId, Slot
from gpud.model.live_views import Decision
from gpud.model.units import MILLISECOND
from gpud.model.views import DeviceView, UnmanagedView
from tests.engine.conftest import World, board, only
from tests.engine.test_lock import Turns

S0 = Slot(0)


@pytest.fixture
def world() -> World:
    return World()


ANN = Peer(pid=1, uid=1000, gid=1, groups=("staff",), user="ann")


def sight(world: World, readers: str = "owners", who: Peer = ANN) -> Sight:
    return Sight(world.state, who, Rules(own_uid=990, readers=readers))


def of_bob(world: World, name: str = "secret", **labels: str) -> ClientId:
    launcher, effects = world.launch(world.who(uid=1001, user="bob"), name=name, **labels)
    assert only(effects, do.SendJob), effects
    return world.ready(launcher)


def view_of(world: World, client: ClientId, **counters: int) -> wire.WhyAnswer:
    tenant = world.state.tenants[world.state.clients[client].job]
    return wire.WhyAnswer(why=why(world.state, tenant, {(client, S0): Counters(**counters)}, world.now, {}))


@pytest.mark.parametrize("name", ["secret", "a) x (b", "job 2 (y)", ".*", "(", "\\1", "a, high"])
def test_why_names_no_job_of_others(world: World, name: str) -> None:
    own, other = world.low(), of_bob(world, name, label_tier="online")
    row = {"holding": 1, "hold_reason": GATE_PREEMPT, "hold_since_ns": world.now - MILLISECOND, "hold_peer": 0}
    answer = view_of(world, own, **row)
    assert answer.why.hold is not None
    assert f"job 2 ({name}, high) is active" in answer.why.hold.text
    assert answer.why.hold.held_by == 2
    seen = sight(world).seen(answer)
    goes_on = "goes on 1ms after it is idle, one launch after 2s at most"
    assert seen.why.hold.text == f"held for 1ms: {NOBODY} is active; {goes_on}"
    assert seen.why.job.why.text == seen.why.hold.text
    assert (seen.why.hold.held_by, seen.why.job.why.held_by) == (None, None)
    assert sight(world, "everyone").seen(answer) is answer
    assert sight(world, who=Peer(pid=1, uid=0, gid=0, groups=(), user="root")).seen(answer) is answer
    assert other != own


def test_lines_of_turns_name_no_job_of_others() -> None:
    w = Turns()
    own, other = w.low(), of_bob(w)
    w.ask(other)
    w.is_in(other)
    w.ask(own)
    (lock,) = sight(w).seen(view_of(w, own)).why.job.lock
    assert (lock.holder, lock.place) == (None, 1)
    assert lock.text.endswith(f"; {NOBODY}: it has the device")


def test_names_of_own_jobs_stay_as_they_are(world: World) -> None:
    world.ready(world.launch(name="job 7 (x)", command="wait for job 7")[0])
    of_bob(world)
    tenant = world.state.tenants[world.state.clients[ClientId(1)].job]
    seen = sight(world).seen(job_view(world.state, tenant, {}, world.now, {}))
    assert (seen.name, seen.command) == ("job 7 (x)", "wait for job 7")
    assert sight(world).text("job 1 (job 7 (x), low) waits for job 2 (secret)") == (
        f"job 1 (job 7 (x), low) waits for {NOBODY}"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("job 9 (a) b (c) d) goes", f"{NOBODY} goes"),
        ("job 9 (never ends", NOBODY),
        ("job 9", NOBODY),
        ("hijob 9 and job 9x", "hijob 9 and job 9x"),
        ("job 2 (other name) goes", f"{NOBODY} goes"),
    ],
)
def test_of_a_job_that_nobody_knows_any_more_all_is_hidden_that_may_be_its_name(
    world: World, text: str, shown: str
) -> None:
    world.low()
    of_bob(world)
    assert sight(world).text(text) == shown


def test_lists_have_own_jobs_only(world: World) -> None:
    own, other = world.low(), of_bob(world)
    views = [job_view(world.state, tenant, {}, world.now, {}) for tenant in world.state.tenants.values()]
    assert [job.id for job in sight(world).seen(wire.PsAnswer(jobs=views)).jobs] == [1]
    strangers = (
        UnmanagedView(pid=7, user=user, command="x", device=0, uuid="GPU-0", used_bytes=1) for user in ("ann", "bob")
    )
    device = DeviceView(
        slot=0, uuid="GPU-0", name="", total_bytes=1, used_bytes=None, utilisation=None, jobs=(1, 2), holder=2,
        unmanaged=tuple(strangers),
    )  # fmt: skip
    seen = sight(world).seen([device])[0]
    assert (seen.jobs, seen.holder, [one.user for one in seen.unmanaged]) == ((1,), None, ["ann"])
    assert own != other


def test_jobs_in_line_are_hidden_too() -> None:
    full = """
      class job { match any  limit { tenants = 1 } }
      arbitrate open {}
      admit { when_full = queue(10s) }
    """
    world = World(running=board(("full", full)))
    world.low()
    world.launch(world.who(uid=1001, user="bob"), name="secret")
    world.launch()
    views = [queued_view(world.state, one, world.now) for one in world.state.waiting]
    assert [job.id for job in sight(world).seen(wire.PsAnswer(jobs=views)).jobs] == [3]
    assert sight(world).own == {1, 3}


def test_decisions() -> None:
    world = World()
    world.low()
    of_bob(world)

    def decision(kind: str, job: int | None, text: str) -> Decision:
        return Decision(number=1, at_ns=0, kind=kind, job=job, text=text)

    said = (
        decision("grant", 1, "job 1 (python) has the device, after job 2 (secret)"),
        decision("grant", 2, "job 2 (secret) has the device"),
        decision("grant", 9, "job 9 (gone) had the device"),
        decision("note", None, "process 7 (miner) of bob is on device 0"),
        decision("reload", None, "policies in force: job 2 (secret) is low now"),
    )
    seen = sight(world).seen(said)
    assert [one.text for one in seen] == [
        f"job 1 (python) has the device, after {NOBODY}",
        f"policies in force: {NOBODY} is low now",
    ]


def test_an_own_job_of_a_number_that_begins_alike(world: World) -> None:
    world.low()
    world.state.next_job = 12
    of_bob(world)
    text = "job 1 (python) waits for job 12 (secret) and job 123 (x)"
    assert sight(world).text(text) == f"job 1 (python) waits for {NOBODY} and {NOBODY}"
    assert 12 in world.state.tenants
