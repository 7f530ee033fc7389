import json

import pytest

from gpud.engine import rulings, saved
from gpud.engine.report import job_view
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.errors import Refused
from gpud.model.ids import ClientId, JobId, Slot
from gpud.model.units import SECOND
from gpud.model.views import JobView
from tests.engine.conftest import GIB, PREEMPT_MIX, UUID, World, board, by, new_state, only

S0 = Slot(0)
OTHER = bytes(reversed(range(16)))
OPEN = 'class big { match label("size") == "big" }  class small { match any }  arbitrate open {}'


def pin(world: World, client: ClientId, job_class: str | None, by_operator: bool = True) -> list[do.Effect]:
    job = world.state.clients[client].job
    return world.react(ev.SetAsked(job=job, by=by(by_operator), changes=(("class", job_class),)))


def judge(world: World, job: int, job_class: str | None) -> None:
    rulings.judge(world.state, ev.SetAsked(job=job, by=by(), changes=(("class", job_class),)))


def view(world: World, client: ClientId) -> JobView:
    return job_view(world.state, world.state.tenants[world.state.clients[client].job], {}, world.now, {})


def test_a_pinned_job_changes_rank_at_once(world: World) -> None:
    low, other = world.low(), world.low()
    effects = pin(world, low, "high")
    assert world.class_of(low) == "high"
    assert [peer.client for peer in world.state.clients[other].words[S0].peers] == [low]
    assert {effect.client for effect in only(effects, do.PublishDevice)} == {low, other}
    assert only(effects, do.SendPeers)[0].client == other
    assert only(effects, do.SaveState)
    assert "pinned to high by root (uid 0), low → high" in only(effects, do.Record)[0].text
    assert (view(world, low).pinned, view(world, low).job_class) == (True, "high")
    pin(world, low, None)
    assert (view(world, low).pinned, view(world, low).job_class) == (False, "low")
    assert world.state.clients[other].words[S0].peers == ()


def test_a_class_chosen_by_gpud_run_is_a_pin(world: World) -> None:
    client = world.ready(world.launch(**{"class": "high"})[0])
    assert view(world, client).pinned
    assert not view(world, world.high()).pinned


@pytest.mark.parametrize(
    ("own", "target", "allowed"),
    [("high", "low", True), ("low", "high", False), ("low", "low", True), ("high", None, True)],
)
def test_upward_only_for_operators(world: World, own: str, target: str | None, allowed: bool) -> None:
    client = world.high() if own == "high" else world.low()
    before = world.class_of(client)
    effects = pin(world, client, target, by_operator=False)
    if allowed:
        assert world.class_of(client) == (target or own)
    else:
        assert world.class_of(client) == before
        (record,) = effects
        assert isinstance(record, do.Record)
        assert "only an operator may move job 1 from low up to high" in record.text


def test_back_to_where_its_labels_put_it_is_not_upward(world: World) -> None:
    client = world.high()
    pin(world, client, "low", by_operator=False)
    pin(world, client, "high", by_operator=False)
    assert world.class_of(client) == "high"


def test_what_an_operator_gave_is_kept_but_cannot_be_taken_again(world: World) -> None:
    client = world.low()
    pin(world, client, "high")
    pin(world, client, None, by_operator=False)
    assert world.class_of(client) == "low"
    pin(world, client, "high", by_operator=False)
    assert world.class_of(client) == "low"


def test_what_an_operator_has_lowered_its_owner_does_not_raise(world: World) -> None:
    client = world.high()
    pin(world, client, "low")
    for target in (None, "high"):
        effects = pin(world, client, target, by_operator=False)
        assert "only an operator may move job 1 from low up to high" in only(effects, do.Record)[0].text
        assert world.class_of(client) == "low"
    pin(world, client, None)
    assert world.class_of(client) == "high"


def test_an_owner_who_repeats_what_an_operator_said_does_not_get_its_last_word(world: World) -> None:
    client = world.high()
    pin(world, client, "low")
    pin(world, client, "low", by_operator=False)
    for target in (None, "high"):
        effects = pin(world, client, target, by_operator=False)
        assert "only an operator may move job 1 from low up to high" in only(effects, do.Record)[0].text
        assert world.class_of(client) == "low"


def test_where_nothing_ranks_an_operators_choice_stays() -> None:
    world = World(running=board(("open", OPEN)))
    client = world.low()
    pin(world, client, "big")
    pin(world, client, None, by_operator=False)
    assert world.class_of(client) == "big"


def test_where_nothing_ranks_only_operators_choose() -> None:
    world = World(running=board(("open", OPEN)))
    client = world.low()
    pin(world, client, "big", by_operator=False)
    assert world.class_of(client) == "small"
    pin(world, client, "big")
    assert world.class_of(client) == "big"


def test_pins_that_cannot_be(world: World) -> None:
    client = world.low()
    with pytest.raises(Refused, match="there is no job 99"):
        judge(world, 99, "high")
    with pytest.raises(Refused, match="unknown class 'gold'; the policy preempt-mix has high, low"):
        judge(world, 1, "gold")
    with pytest.raises(Refused, match="unknown class 'gggggggg"):
        judge(world, 1, "g" * (1 << 20))
    assert isinstance(pin(world, client, "gold")[0], do.Record)
    assert isinstance(world.react(ev.SetAsked(job=JobId(9), by=by(True), changes=(("class", None),)))[0], do.Record)
    assert world.class_of(client) == "low"


def test_pins_survive_a_restart_and_a_reload(world: World) -> None:
    client = world.low()
    pin(world, client, "high")
    found = saved.load(saved.dump(world.state, "b"), "b")
    assert found is not None
    state = new_state()
    saved.restore(state, found, lambda pid, started: True, world.now + SECOND)
    again = World(state)
    again.later(0)
    assert again.class_of(client) == "high"
    # A set without such a class: the pin sleeps, and counts again with the next.
    effects = again.react(ev.BoardChanged(board=board(("open", OPEN))))
    assert "job 1 stays pinned to high, which no policy has now" in str(only(effects, do.Reloaded)[0].changes)
    assert (again.class_of(client), view(again, client).pinned) == ("small", False)
    again.react(ev.BoardChanged(board=board(("preempt-mix", PREEMPT_MIX))))
    assert (again.class_of(client), view(again, client).pinned) == ("high", True)


def test_a_state_file_of_the_version_before(world: World) -> None:
    """Its `claimed` is a pin; the rest of what is new has a default."""
    world.ready(world.launch(**{"class": "high", "label_a": "b"})[0])
    content = json.loads(saved.dump(world.state, "b"))
    content["format"] = 1
    for tenant in content["tenants"]:
        tenant["claimed"], tenant["job_class"] = tenant.pop("pin"), "high"
        del tenant["exe"], tenant["classes"]
    for client in (*content["clients"], *content["tenants"]):
        for key in ("exe", "cgroup", "group", "groups"):
            del client["who"][key]
    for device in content["devices"]:
        del device["index"]
    found = saved.load(json.dumps(content).encode(), "b")
    assert found is not None
    state = new_state()
    saved.restore(state, found, lambda pid, started: True, world.now + SECOND)
    again = World(state)
    again.later(0)
    assert again.class_of(ClientId(1)) == "high"
    assert again.state.tenants[JobId(1)].labels == {"a": "b"}


def two_sites() -> World:
    """The first device has `preempt-mix`, all others `open`."""
    site = 'apply "preempt-mix" to gpu 0\napply "open" to gpu *'
    world = World(running=board(("preempt-mix", PREEMPT_MIX), ("open", OPEN), site=site))
    world.react(ev.DevicesFound(devices=((UUID, "A100", GIB), (OTHER, "A100", GIB))))
    return world


def test_a_pin_to_a_class_of_another_device_is_refused() -> None:
    """It would be without effect where the job is."""
    world = two_sites()
    first = world.ready(world.launch()[0], [UUID])
    job = world.state.clients[first].job
    with pytest.raises(Refused, match=r"unknown class 'big'; the policy preempt-mix has high, low$"):
        judge(world, job, "big")
    both = world.ready(world.launch()[0], [UUID, OTHER])
    pin(world, both, "big")
    assert (world.class_of(both), view(world, both).pinned) == ("low/big", True)


def test_a_pin_that_means_nothing_where_the_job_comes_to_is_told_of() -> None:
    """`gpud run --class big` does not know yet which device the program takes."""
    world = two_sites()
    client, _ = world.attach(world.launch(**{"class": "big"})[0])
    assert view(world, client).pinned
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((UUID, GIB),)))
    text = "job 1 is pinned to big, which no policy of its devices has: its labels decide"
    assert [(record.level, record.text) for record in only(effects, do.Record)] == [("warning", text)]
    assert (world.class_of(client), view(world, client).pinned) == ("low", False)
    effects = world.react(ev.DevicesReported(client=client, devices=((OTHER, GIB),)))
    assert not only(effects, do.Record)
    assert (world.class_of(client), view(world, client).pinned) == ("big", True)
