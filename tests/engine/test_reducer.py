import pytest

from gpud.engine.division import LINGER_NS, STEP_NS
from gpud.engine.publish import GATE_PREEMPT, GATE_WINDOW
from gpud.engine.reducer import PEERS_DEADLINE_NS
from gpud.engine.standing import class_text
from gpud.engine.ticking import LEASE_REFRESH_NS, next_wakeup
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.ids import ClientId, Generation, JobId, SessionId, Slot
from gpud.model.levels import DividedClient, Motion
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, World, asks, only

OTHER = bytes(reversed(range(16)))
S0 = Slot(0)


def clients_of(effect: do.Divide) -> list[DividedClient]:
    assert effect.division is not None
    return [client for tenant in effect.division.tenants for client in tenant.clients]


def test_a_job_hears_its_number_and_environment_after_it_is_on_file(world: World) -> None:
    _, effects = world.launch(name="serve", label_tier="online")
    assert [type(effect) for effect in effects] == [do.SaveState, do.SendJob, do.Record]
    job = only(effects, do.SendJob)[0]
    assert (job.job, job.environment) == (1, (("GPUD_SIM_NODE", "n"),))
    tenant = world.state.tenants[job.job]
    assert (class_text(world.state, tenant), tenant.name, tenant.labels) == ("high", "serve", {"tier": "online"})


def test_a_job_for_one_gpu(world: World) -> None:
    _, effects = world.launch(gpu="1")
    assert ("CUDA_VISIBLE_DEVICES", "1") in only(effects, do.SendJob)[0].environment


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((("class", "gold"),), "unknown class 'gold'; the policy preempt-mix has high, low"),
        ((("colour", "red"),), "does not know what 'colour' asks for"),
        ((("label.", "x"),), "has no key"),
        ((("label.k", "v" * 300),), "longer than 253"),
        ((("name", "n" * 300),), "longer than 253"),
    ],
)
def test_launches_that_are_refused(world: World, asked: tuple[tuple[str, str], ...], says: str) -> None:
    effects = world.react(ev.LaunchAsked(session=SessionId(1), who=world.who(), asked=asked))
    (refused,) = effects
    assert isinstance(refused, do.Refuse)
    assert says in refused.text
    assert world.state.tenants == {}


def test_a_claimed_class_beats_the_label(world: World) -> None:
    launcher, _ = world.launch(**{"class": "low", "label_tier": "online"})
    assert world.class_of(world.ready(launcher)) == "low"


def test_attach_order(world: World) -> None:
    """On file, pages made, then the client may know."""
    launcher, _ = world.launch()
    client, effects = world.attach(launcher)
    assert [type(effect) for effect in effects] == [
        do.SaveState,
        do.CreatePages,
        do.PublishFailsafe,
        do.SendWelcome,
        do.Record,
    ]
    assert only(effects, do.SendWelcome)[0].job == 1
    assert only(world.react(ev.Mapped(client=client)), do.SendAttached) == [
        do.SendAttached(job=JobId(1), pid=world.state.clients[client].who.pid)
    ]
    assert world.state.clients[client].generation == 1001


def test_a_process_alone_is_a_low_job_of_its_own(world: World) -> None:
    client, _ = world.attach()
    assert world.class_of(client) == "low"
    assert not only(world.react(ev.Mapped(client=client)), do.SendAttached)


def test_descendants_of_one_launcher_are_one_job(world: World) -> None:
    launcher, _ = world.launch()
    child = world.who(((launcher.pid, launcher.started),))
    grandchild = world.who(((child.pid, child.started), (launcher.pid, launcher.started)))
    jobs = {world.state.clients[world.attach(who=who)[0]].job for who in (child, grandchild)}
    assert len(jobs) == 1


def test_a_recycled_pid_is_not_the_launcher(world: World) -> None:
    launcher, _ = world.launch(label_tier="online")
    client, _ = world.attach(who=world.who(((launcher.pid, launcher.started + 1),)))
    assert world.class_of(client) == "low"


def test_words_of_low_and_high(world: World) -> None:
    low = world.low()
    words = world.state.clients[low].words[S0]
    assert (words.gate, words.max_inflight, words.rank, words.peers) == (GATE_WINDOW, 1, 1, ())
    high = world.high()
    assert world.state.clients[high].words[S0].gate == 0
    words = world.state.clients[low].words[S0]
    assert words.gate == GATE_WINDOW | GATE_PREEMPT
    assert (words.resume_after_ns, words.max_pause_ns) == (MILLISECOND, 2 * SECOND)
    (peer,) = words.peers
    assert (peer.client, peer.rank, peer.generation) == (high, 0, world.state.clients[high].generation)


def test_the_page_is_written_before_the_peers_are_sent(world: World) -> None:
    low = world.low()
    client, _ = world.attach(world.launch(label_tier="online")[0])
    world.react(ev.Mapped(client=client))
    effects = world.react(ev.DevicesReported(client=client, devices=((UUID, GIB),)))
    kinds = [type(e) for e in effects if isinstance(e, (do.PublishDevice, do.SendPeers)) and e.client == low]
    assert kinds == [do.PublishDevice, do.SendPeers]


def test_high_hears_its_slots_once_low_looks_at_it(world: World) -> None:
    low = world.low()
    high, _ = world.attach(world.launch(label_tier="online")[0])
    world.react(ev.Mapped(client=high))
    effects = world.react(ev.DevicesReported(client=high, devices=((UUID, GIB),)))
    assert not only(effects, do.SendSlots)
    serial = only(effects, do.SendPeers)[0].serial
    assert not world.react(ev.PeersMapped(client=low, serial=serial - 1, mapped=0))
    effects = world.react(ev.PeersMapped(client=low, serial=serial, mapped=1))
    assert only(effects, do.SendSlots) == [do.SendSlots(client=high, slots=(S0,))]


def test_a_slow_low_holds_high_for_100_ms_once_and_never_again(world: World) -> None:
    low = world.low()

    def arrive() -> tuple[ClientId, list[do.SendSlots]]:
        high, _ = world.attach(world.launch(label_tier="online")[0])
        world.react(ev.Mapped(client=high))
        effects = world.react(ev.DevicesReported(client=high, devices=((UUID, GIB),)))
        return high, only(effects, do.SendSlots)

    first, slots = arrive()
    assert not slots
    due = next_wakeup(world.state)
    assert due is not None
    assert due <= world.now + PEERS_DEADLINE_NS
    effects = world.later(PEERS_DEADLINE_NS)
    assert only(effects, do.SendSlots) == [do.SendSlots(client=first, slots=(S0,))]
    assert f"{low} (pid" in only(effects, do.Record)[0].text
    second, slots = arrive()
    assert slots == [do.SendSlots(client=second, slots=(S0,))]
    serial = world.state.clients[low].serial
    world.react(ev.PeersMapped(client=low, serial=serial, mapped=2))
    assert not world.state.clients[low].slow


def test_high_goes_on_when_the_low_it_waits_for_dies(world: World) -> None:
    low = world.low()
    high, _ = world.attach(world.launch(label_tier="online")[0])
    world.react(ev.Mapped(client=high))
    world.react(ev.DevicesReported(client=high, devices=((UUID, GIB),)))
    assert only(world.gone(low), do.SendSlots) == [do.SendSlots(client=high, slots=(S0,))]


def test_other_devices_are_not_looked_at(world: World) -> None:
    low = world.ready(world.launch()[0], [OTHER])
    high = world.high()
    assert world.state.clients[low].peers == {}
    assert world.state.clients[low].slots() != world.state.clients[high].slots()


def test_slots_beyond_the_eighth_are_not_managed(world: World) -> None:
    client, _ = world.attach()
    world.react(ev.Mapped(client=client))
    first = tuple((bytes([n]) * 16, GIB) for n in range(8))
    world.react(ev.DevicesReported(client=client, devices=first))
    second, _ = world.attach()
    effects = world.react(ev.DevicesReported(client=second, devices=((UUID, GIB), first[3])))
    assert only(effects, do.SendSlots)[0].slots == (None, 3)
    world.gone(client)
    assert set(world.state.devices) == {3}  # only a client's word made the others
    world.react(ev.DevicesFound(devices=((OTHER, "A100", GIB),)))
    world.gone(second)
    assert [device.name for device in world.state.devices.values()] == ["A100"]


def test_a_detached_high_leaves_the_tables(world: World) -> None:
    low, high = world.low(), world.high()
    effects = world.gone(high)
    published = [e for e in only(effects, do.PublishDevice) if e.client == low]
    assert published[0].words.peers == ()
    assert published[0].words.gate == GATE_WINDOW
    assert only(effects, do.SendPeers)[0].peers == ()
    assert effects.index(only(effects, do.DropPages)[0]) > effects.index(published[0])


def test_a_late_end_of_an_old_session_changes_nothing(world: World) -> None:
    client = world.low()
    before = world.state.clients[client]
    old = before.session
    world.react(asks(77, before.who, client, before.generation))
    assert world.react(ev.Detached(client=client, session=old, reason="x")) == []
    assert client in world.state.clients


def test_present_indices_stay_when_others_leave(world: World) -> None:
    low = world.low()
    highs = [world.high() for _ in range(4)]
    before = {c: e.present for c, e in world.state.clients[low].peers.items()}
    world.gone(highs[1])
    after = {c: e.present for c, e in world.state.clients[low].peers.items()}
    assert after == {c: p for c, p in before.items() if c != highs[1]}
    new = world.high()
    assert world.state.clients[low].peers[new].present == before[highs[1]]


def test_more_than_sixteen_higher_peers(world: World) -> None:
    low = world.low()
    highs = [world.high() for _ in range(18)]
    client = world.state.clients[low]
    assert list(client.peers) == highs[:16]
    assert client.beyond == {S0: frozenset(highs[16:])}
    # The steps see who is active beyond the table, and go on while somebody is.
    looks = [client.looks for tenant in world.state.divisions[S0].tenants for client in tenant.clients]
    assert looks == [True] + 18 * [False]
    assert next_wakeup(world.state) == world.now + STEP_NS
    world.later(STEP_NS, {S0: Motion.BUSY})
    assert next_wakeup(world.state) == world.now + STEP_NS
    world.later(LINGER_NS, {S0: Motion.SETTLED})
    assert next_wakeup(world.state) == world.now + STEP_NS
    world.later(STEP_NS, {S0: Motion.SETTLED})
    assert next_wakeup(world.state) == world.state.lease_due_ns
    # An edge: as soon as may be.
    world.later(SECOND // 10)
    world.react(ev.WentActive(client=highs[17], slot=S0))
    assert next_wakeup(world.state) == world.now
    # Room in the table: the next one moves in.
    world.gone(highs[3])
    assert highs[16] in world.state.clients[low].peers
    assert world.state.clients[low].beyond == {S0: frozenset(highs[17:])}


def test_no_clients_no_timer(world: World) -> None:
    assert next_wakeup(world.state) is None
    launcher, _ = world.launch()
    assert next_wakeup(world.state) is None  # a launcher without a program is no client
    client = world.ready(launcher)
    assert next_wakeup(world.state) is not None
    world.gone(client)
    assert next_wakeup(world.state) is None


def test_the_lease_is_refreshed_once_a_second(world: World) -> None:
    world.low()
    ticks = 0
    until = world.now + 10 * SECOND
    while (due := next_wakeup(world.state)) is not None and due <= until:
        ticks += 1
        (effect,) = world.later(due - world.now)
        assert effect == do.RefreshLease(until_ns=world.now + 3 * SECOND)
    assert ticks == 10 * SECOND // LEASE_REFRESH_NS


def test_the_job_lives_as_long_as_launcher_or_clients(world: World) -> None:
    launcher, effects = world.launch()
    job = only(effects, do.SendJob)[0].job
    first, second = world.ready(launcher), world.ready(launcher)
    world.gone(first)
    session = world.state.tenants[job].session
    world.react(ev.SessionEnded(session=session or SessionId(0), reason="its process ended"))
    assert job in world.state.tenants
    world.gone(second)
    assert job not in world.state.tenants


def test_a_launcher_that_left_before_it_was_answered_leaves_no_job(world: World) -> None:
    world.react(ev.LaunchAsked(session=SessionId(5), who=world.who(), asked=()))
    world.react(ev.SessionEnded(session=SessionId(5), reason="x"))
    assert world.state.tenants == {}


def test_a_hook_that_left_before_it_was_answered_leaves_nothing(world: World) -> None:
    world.react(asks(5, world.who()))
    effects = world.react(ev.SessionEnded(session=SessionId(5), reason="x"))
    assert only(effects, do.DropPages)
    assert (world.state.clients, world.state.tenants) == ({}, {})


def test_pages_that_cannot_be_made(world: World) -> None:
    client, _ = world.attach()
    effects = world.react(ev.PagesFailed(client=client, text="no memory", code=5))
    assert only(effects, do.Refuse)[0].code == 5
    assert world.state.clients == {}


def test_draining_takes_nobody_and_changes_no_page(world: World) -> None:
    world.low()
    effects = world.react(ev.DrainAsked())
    assert effects == [do.SaveState()]
    assert only(world.attach()[1], do.Refuse)[0].code == 6
    assert only(world.launch()[1], do.Refuse)[0].code == 6


def test_stop_opens_every_gate(world: World) -> None:
    low, _ = world.low(), world.high()
    effects = world.react(ev.StopAsked())
    published = {effect.client: effect.words for effect in only(effects, do.PublishDevice)}
    assert low in published
    assert all((words.gate, words.peers) == (0, ()) for words in published.values())


def test_again_from_a_stranger_with_the_same_generation_is_refused(world: World) -> None:
    client = world.low()
    generation = world.state.clients[client].generation
    effects = world.react(asks(9, world.who(), client, generation))
    assert only(effects, do.Refuse)[0].code == 2
    effects = world.react(asks(9, world.who(), client, Generation(0)))
    assert only(effects, do.Refuse)[0].code == 2


@pytest.mark.parametrize("above", [1, 2**64 - 1 - 1000])
def test_a_generation_that_no_daemon_gave_out_is_refused(world: World, above: int) -> None:
    """Else one client could use all numbers up."""
    last = world.state.last_generation
    effects = world.react(asks(9, world.who(), 5, last + above))
    assert only(effects, do.Refuse)[0].code == 2
    assert (world.state.clients, world.state.last_generation) == ({}, last)
    assert only(world.react(asks(10, world.who(), 5, last)), do.SendWelcome)[0].generation == last


def test_who_is_active_beyond_the_table_is_seen_by_a_newcomer(world: World) -> None:
    highs = [world.high() for _ in range(17)]
    world.react(ev.WentActive(client=highs[16], slot=S0))
    assert next_wakeup(world.state) == world.state.lease_due_ns  # nobody has it beyond the table
    launcher, _ = world.launch()
    low, _ = world.attach(launcher)
    world.react(ev.Mapped(client=low))
    effects = world.react(ev.DevicesReported(client=low, devices=((UUID, GIB),)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.Divide) > kinds.index(do.PublishDevice)  # which looks at once
    assert next_wakeup(world.state) == world.now + STEP_NS


def test_who_comes_back_beyond_the_table_is_looked_at(world: World) -> None:
    low, highs = world.low(), [world.high() for _ in range(17)]
    world.later(STEP_NS, {S0: Motion.SETTLED})
    last = world.state.clients[highs[16]]
    divided = only(world.react(asks(99, last.who, last.id, last.generation)), do.Divide)
    assert [client.awaited for client in clients_of(divided[0])] == 17 * [False] + [True]
    divided = only(world.react(ev.Mapped(client=last.id)), do.Divide)
    assert not any(client.awaited for client in clients_of(divided[0]))
    assert last.id in world.state.clients[low].beyond[S0]
    assert next_wakeup(world.state) == world.now + STEP_NS


def test_events_about_nobody_are_ignored(world: World) -> None:
    nobody = ClientId(99)
    for event in (
        ev.Mapped(client=nobody),
        ev.DevicesReported(client=nobody, devices=()),
        ev.PeersMapped(client=nobody, serial=1, mapped=0),
        ev.WentActive(client=nobody, slot=S0),
        ev.Detached(client=nobody, session=None, reason=""),
        ev.PagesFailed(client=nobody, text="", code=5),
    ):
        assert world.react(event) == []
