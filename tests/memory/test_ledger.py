"""The ledger: its balance, exact deficits, and that nobody's bytes are lost, whatever happens."""

from collections.abc import Mapping

import pytest
from attrs import evolve
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpud.memory.ledger import STEP, Held, Ledger, Plan
from gpud.memory.tiers import HostTier, host_budget
from gpud.model.ids import ClientId
from gpud.policies.values import Tier

A, B, C, D = (ClientId(number) for number in range(1, 5))


def ledger(**held: int) -> Ledger:
    """a = resident bytes of A; the first is the coldest."""
    found = Ledger(total=1000, residue=100)
    for age, (name, count) in enumerate(held.items()):
        found.learn({"a": A, "b": B, "c": C, "d": D}[name], Held(resident=count, used_ns=age))
    return found


def test_when_both_fit_nothing_moves() -> None:
    assert ledger(a=400).plan(B, 500, may_leave=[A]) == Plan(now=500, leave=(), short=0)


def test_only_the_deficit_leaves_coldest_first() -> None:
    one = ledger(a=200, b=300, c=300)
    assert one.plan(D, 150, may_leave=[A, B, C]) == Plan(now=150, leave=((A, 50),), short=0)
    assert one.plan(D, 500, may_leave=[C, B, A]) == Plan(now=500, leave=((A, 200), (B, 200)), short=0)
    assert one.plan(D, 500, may_leave=[B, C]).leave == ((B, 300), (C, 100))
    assert one.plan(D, 150, may_leave=[A, B, C], evict="largest").leave == ((B, 50),)


def test_keep_stays_free() -> None:
    assert ledger(a=400).plan(B, 450, may_leave=[A], keep=100) == Plan(now=450, leave=((A, 50),), short=0)
    assert ledger(a=850).plan(B, 0, may_leave=[A], keep=100) == Plan(now=0, leave=((A, 50),), short=0)


def test_nobody_is_asked_twice_for_the_same_bytes() -> None:
    one = ledger(a=600, b=300)
    assert one.plan(C, 200, may_leave=[A, B]).leave == ((A, 200),)
    one.ask(A, 200)
    assert one.plan(C, 200, may_leave=[A, B]).leave == ()
    assert one.plan(C, 250, may_leave=[A, B]).leave == ((A, 50),)
    one.learn(A, Held(resident=500, host=100))
    assert one.leaving == {A: 100}
    assert one.plan(C, 200, may_leave=[A, B]) == Plan(now=200, leave=(), short=0)
    one.refused(A)
    assert one.plan(C, 200, may_leave=[B]) == Plan(now=200, leave=((B, 100),), short=0)


def test_what_was_granted_is_not_free_for_another() -> None:
    one = ledger(a=400)
    one.grant(B, 400)
    assert one.plan(C, 200, may_leave=[A]) == Plan(now=200, leave=((A, 100),), short=0)
    with pytest.raises(ValueError, match="101 bytes were granted of 100"):
        one.grant(C, 101)
    one.learn(B, Held(resident=300))
    assert (one.coming, one.free) == ({B: 100}, 100)
    one.given_up(B)
    assert one.free == 200
    one.ask(A, 50)
    one.grant(C, 250)
    assert one.free == -50, "50 of it are still on their way out"
    one.learn(A, Held(resident=350, host=50))
    assert (one.free, one.leaving) == (0, {})


def test_what_nobody_could_give_is_known_before() -> None:
    one = ledger(a=600, b=200)
    one.grant(C, 100)

    def lacks(want: int, own: int, shared: float) -> int:
        return one.lacks(want, may_leave=[A, B], keep=0, room={A: own}, shared=shared)

    assert lacks(900, 0, 800) == 0, "whoever was on the way in stays out"
    assert lacks(901, 0, 800) == 1
    assert lacks(900, 0, 700) == 100
    assert lacks(900, 600, 200) == 0
    assert lacks(900, 700, 150) == 50, "room of its own is of no use to another one"
    assert one.lacks(900, may_leave=[B], keep=50, room={}, shared=float("inf")) == 650
    one.learn_short(5)
    assert (one.pool, lacks(800, 0, 800), lacks(801, 0, 800)) == (0, 0, 1)
    large = Ledger(total=100 << 20)
    large.learn_short(40 << 20)
    assert large.plan(A, 40 << 20, may_leave=[]).short == STEP


def test_pinned_memory_never_leaves_and_room_bounds_what_can() -> None:
    one = Ledger(total=1000)
    one.learn(A, Held(resident=300, pinned=600))
    assert one.plan(B, 500, may_leave=[A]) == Plan(now=400, leave=((A, 300),), short=100)
    assert one.plan(B, 500, may_leave=[A], room={A: 50}) == Plan(now=150, leave=((A, 50),), short=350)


def test_the_dead_give_everything() -> None:
    one = ledger(a=600, b=300)
    one.ask(A, 600)
    one.gone(A)
    assert (one.pool, one.leaving) == (600, {})


def test_figures_that_do_not_fit_grant_nothing() -> None:
    one = Ledger(total=100, residue=50)
    one.learn(A, Held(resident=80))
    assert one.pool == -30
    plan = one.plan(B, 10, may_leave=[A])
    assert plan == Plan(now=10, leave=((A, 40),), short=0)


def test_budgets() -> None:
    assert host_budget([]) == 0
    assert host_budget([[Tier("disk", 5, "/x")], [Tier("host", 3)], [Tier("host", 9)]]) == 9
    tier = HostTier(budget=10)
    tier.give(A, 6)
    with pytest.raises(ValueError, match="do not fit"):
        tier.give(B, 5)
    assert tier.given == {A: 6}


class Device(RuleBasedStateMachine):
    """A device as it truly is, and the ledger that sees it. A client's bytes: resident + host + lazy."""

    clients = st.sampled_from([A, B, C, D])

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(total=100, residue=7)
        self.truth: dict[ClientId, Held] = {}
        self.size: dict[ClientId, int] = {}
        """What each program has allocated and not freed."""
        self.clock = 0
        self.broken = False

    def say(self, client: ClientId) -> None:
        self.ledger.learn(client, self.truth[client])

    @property
    def really_free(self) -> int:
        return 100 - 7 - sum(held.owned for held in self.truth.values())

    @rule(client=clients, pinned=st.integers(0, 5))
    def attach(self, client: ClientId, pinned: int) -> None:
        if client not in self.truth and pinned <= min(self.really_free, self.ledger.free):
            self.truth[client], self.size[client] = Held(pinned=pinned), 0
            self.say(client)

    @rule(client=clients, count=st.integers(1, 60))
    def allocate(self, client: ClientId, count: int) -> None:
        if client in self.truth:
            self.truth[client] = evolve(self.truth[client], lazy=self.truth[client].lazy + count)
            self.size[client] += count
            self.say(client)

    @rule(client=clients, data=st.data(), evict=st.sampled_from(["oldest", "largest"]), keep=st.integers(0, 10))
    def turn(self, client: ClientId, data: st.DataObject, evict: str, keep: int) -> None:
        if client not in self.truth:
            return
        self.clock += 1
        own = self.truth[client]
        want = own.host + own.lazy - self.ledger.coming.get(client, 0)
        others: Mapping[ClientId, Held] = {one: held for one, held in self.truth.items() if one != client}
        plan = self.ledger.plan(client, want, may_leave=list(others), evict=evict, keep=keep)
        free, underway = self.ledger.free - keep, sum(self.ledger.leaving.values())
        deficit = max(want - free - underway, 0)
        able = sum(held.resident - self.ledger.leaving.get(one, 0) for one, held in others.items())
        asked = sum(count for _, count in plan.leave)
        assert asked == min(deficit, able), "exactly the deficit"
        assert plan.short == deficit - asked
        assert plan.now == max(min(want, free + underway + asked), 0)
        assert all(0 < count <= others[one].resident for one, count in plan.leave)
        if evict == "oldest" and plan.leave:
            ages = [others[one].used_ns for one, _ in plan.leave]
            assert ages == sorted(ages)
        for one, count in plan.leave:
            self.ledger.ask(one, count)
        self.ledger.grant(client, plan.now)
        self.truth[client] = evolve(own, used_ns=self.clock)
        self.say(client)

    @precondition(lambda self: self.ledger.leaving)
    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.ledger.leaving)))
        count = data.draw(st.integers(1, self.ledger.leaving[client]))
        held = self.truth[client]
        self.truth[client] = evolve(held, resident=held.resident - count, host=held.host + count)
        self.say(client)

    @precondition(lambda self: self.ledger.coming)
    @rule(data=st.data())
    def comes_in(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(sorted(self.ledger.coming)))
        held = self.truth[client]
        count = data.draw(st.integers(1, self.ledger.coming[client]))
        count = min(count, held.host + held.lazy, self.really_free)  # the driver gives what there is
        host = min(held.host, count)
        self.truth[client] = evolve(
            held, resident=held.resident + count, host=held.host - host, lazy=held.lazy - (count - host)
        )
        self.say(client)

    @precondition(lambda self: self.ledger.leaving)
    @rule(data=st.data())
    def refuses(self, data: st.DataObject) -> None:
        self.broken = True  # what was granted of it does not come
        self.ledger.refused(data.draw(st.sampled_from(sorted(self.ledger.leaving))))

    @rule(client=clients)
    def gives_up(self, client: ClientId) -> None:
        self.ledger.given_up(client)
        self.broken = self.broken and bool(self.ledger.coming)

    @rule(client=clients)
    def dies(self, client: ClientId) -> None:
        if client in self.truth:
            del self.truth[client], self.size[client]
            self.ledger.gone(client)

    @invariant()
    def balances(self) -> None:
        assert self.ledger.owned + self.ledger.pool + self.ledger.residue == 100
        assert self.ledger.held == self.truth
        assert self.ledger.pool == self.really_free >= 0
        if not self.broken:
            assert self.ledger.free + sum(self.ledger.leaving.values()) >= 0, "nothing was granted twice"

    @invariant()
    def nobodys_bytes_are_lost(self) -> None:
        assert {c: h.resident + h.host + h.lazy for c, h in self.truth.items()} == self.size
        assert all(0 < count <= self.truth[client].resident for client, count in self.ledger.leaving.items())
        assert all(count > 0 for count in self.ledger.coming.values())


TestDevice = Device.TestCase
TestDevice.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
