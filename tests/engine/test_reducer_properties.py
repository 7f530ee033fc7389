"""Any sequence of events leaves the tables exact, whatever policies come and go."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpud.engine import saved
from gpud.engine.board import OPEN, Board
from gpud.engine.division import divide
from gpud.engine.in_force import failsafe_of, knobs_for, knobs_of
from gpud.engine.peers import MAX_PEERS, wanted_peers
from gpud.engine.publish import device_words
from gpud.engine.roles import Role
from gpud.engine.runs import keep_up
from gpud.engine.standing import rank_on, standing
from gpud.engine.ticking import next_wakeup
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.levels import Division, Motion
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, PREEMPT_MIX, World, asks, board, by, new_state, preempt_mix

ASKED: list[tuple[str, int | None]] = [
    *[("pause", None), ("resume", None), ("evict", None)],
    *[("memory", None), ("memory", GIB // 2), ("compute", None), ("compute", 300_000)],
]
UUIDS = [bytes([n]) * 16 for n in range(3)]
THREE = """
  class high { match label("tier") == "online" }
  class near { match label("tier") == "batch" and exe ~ "*python3" }
  class low  { match any }
  arbitrate preempt { order = [high, [near, low]]  resume_after = 2ms  max_pause = unlimited }
  failsafe { daemon_lost = hold  after = unlimited }
"""
UPSIDE_DOWN = """
  class online { match label("tier") == "online" }
  class rest   { match any }
  arbitrate preempt { order = [rest, online]  resume_after = 1ms }
  when rest.active { online.yield = false } else { online.max_inflight = 2 }
"""
PICKY = """
  class batch { match label("tier") == "batch" }
  arbitrate open {}
  batch.max_inflight = 3
"""
LIMIT = """
  class all { match any }
  when all.queued > 0 { all.pause = true  all.max_inflight = 5 }
"""
SHARES = """
  class online { match label("tier") == "online"  per = tenant  share = fixed(5%) }
  class near   { match exe ~ "*python3"  share = burst(weight = 2, max = 60%)  limit { compute = soft(30%) } }
  class rest   { match any }
  arbitrate share { period = 20ms  reclaim = 2ms }
  when near.busy > 10% { near.share = weight(3)  near.max_compute = 50%  rest.max_launch_rate = 1000/s }
"""
RISING = """
  class high { match label("tier") == "online"  share = burst(weight = 2) }
  class low  { match any  rise_after = 1s  limit { compute = 40% } }
  arbitrate preempt { order = [high, low]  resume_after = 2ms  pass = 3ms  max_inflight_time = 1ms }
  when low.active { low.yield = false  low.max_copy_rate = 1GiB/s } else { low.max_inflight_time = 5ms }
"""


def boards() -> list[Board]:
    one, three = ("preempt-mix", PREEMPT_MIX), ("three", THREE)
    two = f'apply "preempt-mix", "limit" to gpu "GPU-{"00" * 4}"\napply "upside-down" to gpu 1\napply "three" to gpu *'
    return [
        preempt_mix(),
        board(three),
        board(one, three, ("upside-down", UPSIDE_DOWN), ("limit", LIMIT), site=two),
        board(("picky", PICKY), ("limit", LIMIT)),
        board(("shares", SHARES), ("limit", LIMIT)),
        board(("rising", RISING)),
        OPEN,
    ]


class AnySequence(RuleBasedStateMachine):
    """Beside the state, what the outside has seen: pages, words, peers, sessions."""

    @initialize()
    def begin(self) -> None:
        self.world = World()
        self.pages: dict[ClientId, dict[Slot, DeviceWords]] = {}
        self.peers: dict[ClientId, tuple[PeerEntry, ...]] = {}
        self.slots_owed: set[ClientId] = set()
        self.launchers: list[ev.Who] = []
        self.generations: set[Generation] = set()
        self.last_generation = 0
        self.boards = boards()
        self.failsafes: dict[ClientId, int | None] = {}
        self.divisions: dict[Slot, Division] = {}

    def see(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case do.CreatePages():
                    assert effect.client not in self.pages, "pages made twice"
                    self.pages[effect.client] = {}
                    if not effect.adopt:
                        assert effect.generation > self.last_generation, "a generation went back"
                        self.last_generation = effect.generation
                case do.DropPages():
                    self.pages.pop(effect.client, None)
                    self.peers.pop(effect.client, None)
                    self.failsafes.pop(effect.client, None)
                case do.PublishFailsafe():
                    assert effect.client in self.pages
                    self.failsafes[effect.client] = effect.after_ns
                case do.StruckOut():
                    raise AssertionError(effect.text)
                case do.PublishDevice():
                    self.pages[effect.client][effect.slot] = effect.words
                case do.Divide():
                    if effect.division is None:
                        del self.divisions[effect.slot]
                    else:
                        self.divisions[effect.slot] = effect.division
                case do.SendPeers():
                    self.peers[effect.client] = effect.peers
                case do.SendSlots():
                    self.slots_owed.discard(effect.client)

    def pick(self, index: int) -> ClientId | None:
        attached = sorted(c.id for c in self.world.state.clients.values() if c.session is not None)
        return attached[index % len(attached)] if attached else None

    @rule(online=st.booleans())
    def launch(self, online: bool) -> None:
        who, effects = self.world.launch(label_tier="online" if online else "batch")
        self.launchers.append(who)
        self.see(effects)

    @rule(index=st.integers(0, 50), count=st.integers(1, 6))
    def attach(self, index: int, count: int) -> None:
        for _ in range(count):
            launcher = self.launchers[index % len(self.launchers)] if self.launchers else None
            client, effects = self.world.attach(launcher)
            self.see(effects)
            if client:
                self.see(self.world.react(ev.Mapped(client=client)))
                devices = ((UUIDS[0], GIB),)
                self.slots_owed.add(client)
                self.see(self.world.react(ev.DevicesReported(client=client, devices=devices)))

    @rule(index=st.integers(0, 50), devices=st.sets(st.sampled_from(UUIDS)))
    def report(self, index: int, devices: set[bytes]) -> None:
        client = self.pick(index)
        if client is not None:
            self.slots_owed.add(client)
            reported = tuple((uuid, GIB) for uuid in sorted(devices))
            self.see(self.world.react(ev.DevicesReported(client=client, devices=reported)))

    @rule(index=st.integers(0, 50))
    def map_peers(self, index: int) -> None:
        client = self.pick(index)
        if client is not None:
            serial = self.world.state.clients[client].serial
            self.see(self.world.react(ev.PeersMapped(client=client, serial=serial, mapped=16)))

    @rule(index=st.integers(0, 50), slot=st.integers(0, 7), active=st.booleans())
    def edge(self, index: int, slot: int, active: bool) -> None:
        client = self.pick(index)
        if client is not None:
            kind = ev.WentActive if active else ev.WentIdle
            self.see(self.world.react(kind(client=client, slot=Slot(slot))))

    @rule(index=st.integers(0, 50), count=st.integers(1, 4))
    def detach(self, index: int, count: int) -> None:
        for _ in range(count):
            client = self.pick(index)
            if client is not None:
                self.slots_owed.discard(client)
                self.see(self.world.gone(client))

    @rule(index=st.integers(0, 50))
    def launcher_ends(self, index: int) -> None:
        tenants = [t for t in self.world.state.tenants.values() if t.launcher_alive and t.session is not None]
        if tenants:
            session = tenants[index % len(tenants)].session or SessionId(0)
            self.see(self.world.react(ev.SessionEnded(session=session, reason="x")))

    @rule(ns=st.sampled_from([MILLISECOND, 5 * MILLISECOND, 100 * MILLISECOND, SECOND]), motion=st.sampled_from(Motion))
    def time_passes(self, ns: int, motion: Motion) -> None:
        due = self.world.state.levels_due_ns
        stepped = due is not None and due <= self.world.now + ns
        self.see(self.world.later(ns, dict.fromkeys(self.world.state.divisions, motion) if stepped else None))

    @rule(
        ns=st.sampled_from([5 * MILLISECOND, 50 * MILLISECOND, SECOND]),
        active=st.sets(st.integers(0, 20)),
        holding=st.sets(st.integers(0, 20)),
    )
    def policies_look(self, ns: int, active: set[int], holding: set[int]) -> None:
        counters = {
            client: Counters(active=client in active, holding=client in holding, entered=self.world.now // 10**6)
            for client in self.world.state.clients
        }
        self.see(self.world.ticks(ns, counters))

    @rule(index=st.integers(0, 6))
    def other_policies(self, index: int) -> None:
        effects = self.world.react(ev.BoardChanged(board=self.boards[index], reading=self.world.reading()))
        self.see(effects)
        assert isinstance(effects[-1], do.Reloaded)
        assert effects[-1].generation == self.world.state.board_generation

    @rule(index=st.integers(0, 50), job_class=st.sampled_from([None, "high", "low", "online", "nobody"]))
    def pin(self, index: int, job_class: str | None) -> None:
        jobs = sorted(self.world.state.tenants)
        if jobs:
            job = jobs[index % len(jobs)]
            self.see(self.world.react(ev.SetAsked(job=job, by=by(index % 2 == 0), changes=(("class", job_class),))))

    @rule(index=st.integers(0, 50), operator=st.booleans(), what=st.sampled_from(ASKED))
    def somebody_says(self, index: int, operator: bool, what: tuple[str, int | None]) -> None:
        """Pause, resume, evict, limits."""
        jobs = sorted(self.world.state.tenants)
        if not jobs:
            return
        job, (key, value) = jobs[index % len(jobs)], what
        kinds = {"pause": ev.PauseAsked, "resume": ev.ResumeAsked, "evict": ev.EvictAsked}
        if key in kinds:
            self.see(self.world.react(kinds[key](job=job, by=by(operator))))
        else:
            self.see(self.world.react(ev.SetAsked(job=job, by=by(operator), changes=((key, value),))))

    @rule(survivors=st.floats(0, 1), back=st.floats(0, 1))
    def restart(self, survivors: float, back: float) -> None:
        """The daemon is killed and started again; some clients died meanwhile, some come back at once, some never."""
        content = saved.dump(self.world.state, "boot")
        clients = sorted(c.who.pid for c in self.world.state.clients.values())
        alive = set(clients[: round(len(clients) * survivors)])
        alive |= {who.pid for who in self.launchers}
        state = new_state(self.world.state.board)
        found = saved.load(content, "boot")
        assert found is not None
        saved.restore(state, found, lambda pid, _: pid in alive, self.world.now + 10 * SECOND)
        self.world.state = state
        self.see(keep_up(state, self.world.now))
        self.pages, self.peers, self.slots_owed, self.failsafes, self.divisions = {}, {}, set(), {}, {}
        ghosts = list(state.clients.values())
        for ghost in ghosts[: round(len(ghosts) * back)]:
            again = asks(self.world.session(), ghost.who, ghost.id, ghost.generation)
            self.see(self.world.react(again))
            assert ghost.session is not None, "a client that came back was not taken"
            self.see(self.world.react(ev.Mapped(client=ghost.id)))

    @precondition(lambda self: any(c.session is None for c in self.world.state.clients.values()))
    @rule()
    def adoption_ends(self) -> None:
        self.see(self.world.later(11 * SECOND))
        assert all(client.session is not None for client in self.world.state.clients.values())

    @invariant()
    def tables_are_exact(self) -> None:
        state = self.world.state
        for client in state.clients.values():
            on_slots = wanted_peers(state, client)
            roles = {other: min(there[other] for there in on_slots.values() if other in there)
                     for there in on_slots.values() for other in there}  # fmt: skip
            assert set(client.peers) <= set(roles)
            assert len(client.peers) == min(MAX_PEERS, len(roles))
            left_out = [role for other, role in roles.items() if other not in client.peers]
            assert max((roles[other] for other in client.peers), default=0) <= min(left_out, default=Role.OTHER)
            for slot, there in on_slots.items():
                above = {other for other, role in there.items() if role is Role.ABOVE}
                assert not above or knobs_of(state, client, slot).yields
                ranks = {other: rank_on(state, state.clients[other], slot) for other in above}
                assert all(rank < rank_on(state, client, slot) for rank in ranks.values())
                assert client.beyond.get(slot, frozenset()) == above - set(client.peers)
            presents = [entry.present for entry in client.peers.values()]
            assert len(set(presents)) == len(presents)
            assert all(0 <= present < MAX_PEERS for present in presents)
            for peer, entry in client.peers.items():
                assert peer in state.clients, "a detached client is a peer"
                assert entry.generation == state.clients[peer].generation

    @invariant()
    def nothing_that_is_remembered_is_outdated(self) -> None:
        state = self.world.state
        for slot in state.devices:
            assert list(state.clients_on(slot)) == [c for c in state.clients.values() if slot in c.devices]
        for tenant in state.tenants.values():
            for slot, knobs in list(tenant.in_force.items()):
                del tenant.in_force[slot]
                assert knobs_for(state, tenant, slot) == knobs
            for slot, found in list(tenant.standings.items()):
                del tenant.standings[slot]
                assert standing(state, tenant, slot) == found

    @invariant()
    def devices_are_divided_as_they_should_be(self) -> None:
        state = self.world.state
        assert not state.dirty
        assert not state.anew
        for slot in state.devices:
            assert self.divisions.get(slot) == state.divisions.get(slot)
            if any(client.session is not None for client in state.clients_on(slot)):  # somebody has a page
                assert self.divisions.get(slot) == divide(state, slot)
        for division in self.divisions.values():
            jobs = [tenant.tenant for tenant in division.tenants]
            rows = [client for tenant in division.tenants for client in tenant.clients]
            assert all(set(group.members) <= set(jobs) for group in (*division.totals, *division.units))
            shared = [job for unit in division.units for job in unit.members]
            assert len(set(shared)) == len(shared), "a tenant holds two shares"
            assert all(set(row.peers) <= {other.client for other in rows} - {row.client} for row in rows)
            fixed = [unit.fixed_ppm for unit in division.units if unit.fixed_ppm is not None]
            assert sum(fixed) <= 1_000_000 * max(len(division.pools), 1)
        moves = any(division.moves for division in self.divisions.values())
        assert moves or state.levels_due_ns is None

    @invariant()
    def the_outside_is_up_to_date(self) -> None:
        state = self.world.state
        attached = {c.id for c in state.clients.values() if c.session is not None}
        assert set(self.pages) == attached
        for client in (state.clients[c] for c in attached):
            for slot in client.slots():
                assert self.pages[client.id][slot] == device_words(state, client, slot)
            assert self.failsafes[client.id] == failsafe_of(state, client).after_ns
            sent = {entry.client: entry for entry in self.peers.get(client.id, ())}
            if client.live:
                assert sent == client.peers

    @invariant()
    def every_device_has_its_policies(self) -> None:
        state = self.world.state
        assert set(state.runs) == set(state.devices)
        for slot, run in state.runs.items():
            assert run.stack == state.stack_for(state.devices[slot])
            assert all(
                ran.knobs.values or not applied.program.knobs for applied, ran in zip(run.stack, run.ran, strict=True)
            )

    @invariant()
    def jobs_and_clients_agree(self) -> None:
        state = self.world.state
        for tenant in state.tenants.values():
            assert tenant.clients or tenant.launcher_alive
            assert tenant.clients <= set(state.clients)
            assert set(tenant.placed) == {applied.program.digest for applied in state.board.applied}
            assert tenant.standings.keys() <= state.devices.keys()
        assert all(client.id in state.tenants[client.job].clients for client in state.clients.values())
        attached = {(client.id, slot) for client in state.clients.values() for slot in client.slots()}
        assert set(state.meters) | state.active <= attached, "something is remembered of who is gone"

    @invariant()
    def generations_are_unique(self) -> None:
        found = [client.generation for client in self.world.state.clients.values()]
        assert len(set(found)) == len(found)

    @invariant()
    def a_timer_only_where_somebody_is(self) -> None:
        state = self.world.state
        assert (next_wakeup(state) is None) == (not state.clients)

    @invariant()
    def who_is_owed_slots_has_a_deadline(self) -> None:
        for client in self.slots_owed & set(self.world.state.clients):
            assert self.world.state.clients[client].slots_due_ns is not None


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
