"""Whatever is asked, withdrawn, given back and died: one tenant has a device, everybody gets it, no circle."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from gpud.engine import lock_queue
from gpud.engine.lock_queue import Locks, Request, Terms, Turn
from gpud.model.ids import ClientId, JobId, Slot, UnitName
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND

A, B, C = Slot(0), Slot(1), Slot(2)
HOLD = 10 * SECOND


def terms(rank: int = 0, unit: int = 1, **more: int) -> Terms:
    said = {"max_hold_ns": HOLD, "min_hold_ns": 0, "max_wait_ns": 10 * HOLD, "grace_ns": 2 * SECOND}
    said |= {"max_overrun_ns": FOREVER_NS, "idle_release_ns": 500 * MILLISECOND} | more
    return Terms(rank=rank, unit=named(unit), fair=bool(said.pop("fair", 0)), **said)


def named(unit: int) -> UnitName:
    return "tidal", "low", str(unit)


def by_job(**ranks: int) -> lock_queue.TermsOf:
    return lambda job, slot: terms(ranks.get(f"j{job}", 0), unit=int(job))


def anyone(request: Request) -> bool:
    return True


class Queue:
    """Locks of some devices, a clock, and short words."""

    def __init__(self, *slots: Slot, said: lock_queue.TermsOf | None = None) -> None:
        self.locks, self.now, self.numbers = Locks(), 100 * SECOND, 0
        self.said = said or by_job()
        lock_queue.set_devices(self.locks, slots or (A,), lambda _: 0)

    def ask(self, job: int, *slots: Slot) -> Request:
        self.numbers += 1
        request = Request(
            client=ClientId(job),
            job=JobId(job),
            number=self.numbers,
            slots=frozenset(slots or (A,)),
            explicit=True,
            since_ns=self.now,
        )
        self.locks.requests.append(request)
        return request

    def go(self, may: Callable[[Request], bool] = anyone) -> list[tuple[int, tuple[int, ...]]]:
        granted = lock_queue.advance(self.locks, self.said, may, self.now)
        for grant in granted:
            for slot in grant.slots:
                self.turn(slot).clients.add(ClientId(grant.job))
        return [(grant.job, tuple(sorted(grant.slots))) for grant in granted]

    def turn(self, slot: Slot = A) -> Turn:
        turn = self.locks.lines[slot].turn
        assert turn is not None
        return turn

    def back(self, slot: Slot = A) -> bool:
        return lock_queue.leave(self.locks.lines[slot], ClientId(self.turn(slot).job), self.now)


def test_first_come_first_served_and_one_at_a_time() -> None:
    q = Queue()
    for job in (1, 2, 3):
        q.ask(job)
    assert q.go() == [(1, (A,))]
    assert q.go() == []
    assert q.back()
    assert q.go() == [(2, (A,))]
    assert [one.job for one in q.locks.requests] == [3]


def test_the_higher_rank_is_first_until_somebody_has_waited_for_max_wait() -> None:
    q = Queue(said=by_job(j1=1, j2=0, j3=0))
    q.ask(9)
    q.go()
    q.ask(1)
    q.now += 1
    q.ask(2)
    assert [one.job for one in lock_queue.in_line(q.locks, A, q.said, q.now)] == [2, 1]
    q.now += 10 * HOLD - 1
    assert [one.job for one in lock_queue.in_line(q.locks, A, q.said, q.now)] == [1, 2]
    q.back()
    assert q.go() == [(1, (A,))]


def test_fair_takes_the_unit_with_the_least_time_of_the_last_ten_minutes() -> None:
    q = Queue(said=lambda job, slot: terms(unit=int(job), fair=1))
    q.ask(1)
    q.go()
    q.now += 5 * SECOND
    q.back()
    q.ask(1), q.ask(2)
    assert q.go() == [(2, (A,))]
    q.now += 3 * SECOND
    q.back()
    q.ask(2)
    assert [one.job for one in lock_queue.in_line(q.locks, A, q.said, q.now)] == [2, 1]
    q.now += lock_queue.FAIR_OVER_NS
    assert [one.job for one in lock_queue.in_line(q.locks, A, q.said, q.now)] == [1, 2], "all of that is long ago"


def test_what_is_kept_of_short_turns_is_short_and_right() -> None:
    q = Queue(said=lambda job, slot: terms(unit=int(job), fair=1))
    began = q.now
    for _ in range(4000):
        for job, took in ((1, 400 * MILLISECOND), (2, 100 * MILLISECOND)):
            q.ask(job)
            q.go()
            q.now += took
            q.back()
    line = q.locks.lines[A]
    assert q.now - began > 3 * lock_queue.FAIR_OVER_NS
    assert sum(len(its) for its in line.past.values()) <= 2 * (lock_queue.FAIR_OVER_NS // lock_queue.STEP_NS + 2)
    for job, part in ((1, 0.8), (2, 0.2)):
        right = lock_queue.FAIR_OVER_NS * part
        assert abs(lock_queue.used_ns(line, named(job), q.now) - right) <= 2 * lock_queue.STEP_NS
    q.now += lock_queue.FAIR_OVER_NS
    q.ask(3), q.go(), q.back()
    assert set(line.past) == {named(3)}, "nothing of who is gone"


def test_several_devices_come_together_or_not_at_all() -> None:
    q = Queue(A, B)
    q.ask(1, B)
    assert q.go() == [(1, (B,))]
    q.ask(2, A, B)
    assert q.go() == []
    q.ask(3, A)
    assert q.go() == [], "A is kept for who waits for both"
    q.back(B)
    assert q.go() == [(2, (A, B))]
    assert q.turn(A).epoch == q.turn(B).epoch
    assert lock_queue.places(lock_queue.in_line(q.locks, A, q.said, q.now)) == [3]


def test_who_cannot_be_told_keeps_its_place_and_keeps_nobody_waiting() -> None:
    q = Queue()
    first = q.ask(1)
    q.ask(2)
    assert q.go(lambda one: one is not first) == [(2, (A,))]
    q.back()
    q.ask(3)
    assert q.go() == [(1, (A,))]


def test_a_turn_ends_by_its_length_by_idleness_and_never_before_min_hold() -> None:
    q = Queue()
    q.ask(1)
    q.go()
    turn = q.turn()
    assert lock_queue.ends_ns(turn, terms(), None) == q.now + HOLD
    assert lock_queue.ends_ns(turn, terms(), 1) == q.now + 500 * MILLISECOND
    assert lock_queue.ends_ns(turn, terms(min_hold_ns=SECOND), 1) == q.now + SECOND
    turn.in_ns = q.now + 7
    assert lock_queue.ends_ns(turn, terms(), None) == q.now + 7 + HOLD, "from when it may launch"


def test_when_a_turn_begins_is_estimated_by_who_is_before() -> None:
    q = Queue()
    q.ask(1)
    q.go()
    q.ask(2), q.ask(3)
    assert lock_queue.starts_ns(q.locks, A, JobId(2), q.said, q.now) == q.now + HOLD
    assert lock_queue.starts_ns(q.locks, A, JobId(3), q.said, q.now) == q.now + 2 * HOLD
    q.turn().revoked_ns, q.turn().overrun = q.now, True
    assert lock_queue.starts_ns(q.locks, A, JobId(2), q.said, q.now) is None
    q.said = lambda job, slot: terms(max_hold_ns=FOREVER_NS)
    q.turn().revoked_ns = None
    assert lock_queue.starts_ns(q.locks, A, JobId(2), q.said, q.now) is None


def test_epochs_go_on_after_a_clock_that_stands_still() -> None:
    q = Queue()
    q.locks.last_epoch = q.now + 5
    seen = []
    for job in (1, 2):
        q.ask(job)
        q.go()
        seen.append(q.turn().epoch)
        q.back()
    assert seen == [q.now + 6, q.now + 7]


class AnyOrder(RuleBasedStateMachine):
    """Requests of any sets of devices. Holders are honest, late or dead, but never stay for ever."""

    @initialize(ranks=st.lists(st.integers(0, 2), min_size=6, max_size=6), fair=st.booleans())
    def begin(self, ranks: list[int], fair: bool) -> None:
        self.q = Queue(B, A, C, said=lambda job, slot: terms(ranks[job % 6], unit=int(job) % 3, fair=int(fair)))
        self.epochs: list[int] = []
        self.waited: dict[int, int] = {}

    def _go(self) -> None:
        for grant in lock_queue.advance(self.q.locks, self.q.said, anyone, self.q.now):
            assert not self.epochs or grant.epoch > self.epochs[-1]
            self.epochs.append(grant.epoch)
            for slot in grant.slots:
                turn = self.q.turn(slot)
                assert not turn.clients
                assert (turn.job, turn.epoch) == (grant.job, grant.epoch)
                turn.clients.add(ClientId(grant.job))

    @rule(job=st.integers(1, 9), slots=st.sets(st.sampled_from([A, B, C]), min_size=1))
    def ask(self, job: int, slots: set[Slot]) -> None:
        self.q.ask(job, *slots)
        self._go()

    @rule(index=st.integers(0, 30))
    def withdraw(self, index: int) -> None:
        if index < len(self.q.locks.requests):
            del self.q.locks.requests[index]
            self._go()

    @rule(slot=st.sampled_from([A, B, C]))
    def give_back(self, slot: Slot) -> None:
        if self.q.locks.lines[slot].turn is not None:
            assert self.q.back(slot)
            assert self.q.locks.lines[slot].turn is None
            self._go()

    @rule(job=st.integers(1, 9))
    def die(self, job: int) -> None:
        lock_queue.drop(self.q.locks, lambda one: one.job != job)
        for line in self.q.locks.lines.values():
            lock_queue.leave(line, ClientId(job), self.q.now)
            assert line.turn is None or line.turn.job != job
        self._go()

    @rule(ns=st.sampled_from([1, SECOND, HOLD, 20 * HOLD]), slot=st.sampled_from([A, B, C]))
    def later(self, ns: int, slot: Slot) -> None:
        self.q.now += ns
        turn = self.q.locks.lines[slot].turn
        if turn is not None and turn.revoked_ns is None and lock_queue.wanted_by(self.q.locks, slot, anyone):
            lock_queue.revoke(turn, self.q.said(turn.job, slot), self.q.now)
        self._go()

    @invariant()
    def nobody_waits_for_a_device_that_is_free(self) -> None:
        """Else there is a circle, or somebody was forgotten: of all that wait, one lacks only what others *have*."""
        if not hasattr(self, "q"):
            return
        locks = self.q.locks
        taken = [line.turn for line in locks.lines.values() if line.turn is not None]
        assert all(turn.clients == {ClientId(turn.job)} for turn in taken)
        for request in locks.requests:
            left = lock_queue.missing(locks, request)
            assert left, "it has all, and still waits"
        kept = [line.reserved for line in locks.lines.values() if line.reserved is not None]
        assert all(any(one is request for request in locks.requests) for one in kept)
        if locks.requests and not taken:
            raise AssertionError("all devices are free and somebody waits")

    def teardown(self) -> None:
        """Everybody gets its turn once those that have one give it back, one after the other."""
        if not hasattr(self, "q"):
            return
        for _ in range(20 * (len(self.q.locks.requests) + 3)):
            self._go()
            for slot, line in self.q.locks.lines.items():
                if line.turn is not None:
                    self.q.now += SECOND
                    self.q.back(slot)
        self._go()
        assert not self.q.locks.requests


AnyOrder.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase


def test_a_low_rank_is_not_starved_by_ever_new_high_ones() -> None:
    q = Queue(said=by_job(j1=5))
    q.ask(2)
    q.go()
    q.ask(1)
    began, number = q.now, 2
    while q.locks.lines[A].turn is None or q.turn().job != 1:
        number += 1
        q.ask(number)
        q.now += HOLD
        if q.locks.lines[A].turn is not None:
            q.back()
        q.go()
        assert q.now - began <= 11 * HOLD


@given(
    rank=st.integers(0, 5),
    ahead=st.lists(st.integers(0, 5), max_size=6),
    comes=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3), min_size=1, max_size=6),
    holds=st.lists(st.integers(HOLD // 4, HOLD), min_size=1, max_size=6),
    fair=st.booleans(),
)
def test_nobody_waits_longer_than_max_wait_and_the_turns_of_those_before(
    rank: int, ahead: list[int], comes: list[list[int]], holds: list[int], fair: bool
) -> None:
    """While others keep coming: who has the device leaves it after each of `holds`, and `comes` come, for ever."""
    ranks: dict[int, int] = {}
    q = Queue(said=lambda job, slot: terms(ranks[int(job)], unit=int(job) % 4, fair=int(fair)))

    def come(its: int) -> int:
        ranks[len(ranks) + 1] = its
        q.ask(len(ranks))
        return len(ranks)

    for one in ahead:
        come(one)
    waiter, began, step = come(rank), q.now, 0
    q.go()
    while q.turn().job != waiter:
        for one in comes[step % len(comes)]:
            come(one)
        q.now += holds[step % len(holds)]
        q.back()
        q.go()
        step += 1
        assert q.now - began <= 10 * HOLD + (len(ahead) + 1) * HOLD
