"""Any sequence of events leaves the tables exact."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gpud.engine import saved
from gpud.engine.peers import MAX_PEERS, by_rank, wanted_peers
from gpud.engine.publish import device_words
from gpud.engine.ticking import next_wakeup, wanted
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.knobs import DeviceWords, PeerEntry
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, World, asks, new_state

UUIDS = [bytes([n]) * 16 for n in range(3)]


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
                case do.PublishDevice():
                    self.pages[effect.client][effect.slot] = effect.words
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
            self.see(self.world.react(kind(client=client, slot=Slot(slot), when_ns=self.world.now)))

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

    @rule(ns=st.sampled_from([MILLISECOND, 5 * MILLISECOND, 100 * MILLISECOND, SECOND]), active=st.booleans())
    def time_passes(self, ns: int, active: bool) -> None:
        presence = {key: ev.Presence(active=active, idle_since_ns=0) for key in wanted(self.world.state)}
        self.see(self.world.later(ns, presence))

    @rule(survivors=st.floats(0, 1), back=st.floats(0, 1))
    def restart(self, survivors: float, back: float) -> None:
        """The daemon is killed and started again; some clients died meanwhile, some come back at once, some never."""
        content = saved.dump(self.world.state, "boot")
        clients = sorted(c.who.pid for c in self.world.state.clients.values())
        alive = set(clients[: round(len(clients) * survivors)])
        alive |= {who.pid for who in self.launchers}
        state = new_state()
        found = saved.load(content, "boot")
        assert found is not None
        saved.restore(state, found, lambda pid, _: pid in alive, self.world.now + 10 * SECOND)
        self.world.state = state
        self.pages, self.peers, self.slots_owed = {}, {}, set()
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
            above = wanted_peers(state, client, by_rank(state))
            ids = {other.id for other in above}
            beyond = {peer for peers in client.beyond.values() for peer in peers}
            assert set(client.peers) | beyond == ids
            assert not set(client.peers) & beyond
            assert len(client.peers) == min(MAX_PEERS, len(ids))
            assert all(state.rank_of(other) < state.rank_of(client) for other in above)
            presents = [entry.present for entry in client.peers.values()]
            assert len(set(presents)) == len(presents)
            assert all(0 <= present < MAX_PEERS for present in presents)
            for peer, entry in client.peers.items():
                assert peer in state.clients, "a detached client is a peer"
                assert entry.generation == state.clients[peer].generation

    @invariant()
    def the_outside_is_up_to_date(self) -> None:
        state = self.world.state
        attached = {c.id for c in state.clients.values() if c.session is not None}
        assert set(self.pages) == attached
        for client in (state.clients[c] for c in attached):
            for slot in client.slots():
                assert self.pages[client.id][slot].peers == device_words(state, client, slot).peers
                assert self.pages[client.id][slot].gate == device_words(state, client, slot).gate
            sent = {entry.client: entry for entry in self.peers.get(client.id, ())}
            if client.live:
                assert sent == client.peers

    @invariant()
    def jobs_and_units_agree(self) -> None:
        state = self.world.state
        for tenant in state.tenants.values():
            assert tenant.clients or tenant.launcher_alive
            assert tenant.id in state.units[tenant.unit].tenants
            assert state.units[tenant.unit].name == tenant.job_class
            assert tenant.clients <= set(state.clients)
        assert sum(len(unit.tenants) for unit in state.units.values()) == len(state.tenants)
        assert all(client.id in state.tenants[client.job].clients for client in state.clients.values())

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
