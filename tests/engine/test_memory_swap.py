"""Memory leaves a device for who has the turn: events in, effects out; and a model of devices, hooks and the host in
which anybody may be slow, refuse or die at any time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gpud.engine import memory_room, memory_swap, saved
from gpud.engine.report import job_view
from gpud.engine.ticking import needs_driver
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId
from gpud.model.knobs import MEMORY_SWAP, MEMORY_WAIT
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import GIB, UUID, asks, board, by, new_state, only
from tests.engine.swaps import MIB, SWAPS, ZERO, Swaps


def test_who_swaps_is_told_so_and_what_it_may_have() -> None:
    w = Swaps()
    client = w.join()
    words = w.state.clients[client].words[ZERO]
    assert words.memory_flags == MEMORY_SWAP | MEMORY_WAIT
    assert words.memory_limit == GIB
    assert needs_driver(w.state)
    keeps = Swaps(SWAPS.replace("4GiB)]", "4GiB)]  keep = 24MiB"))
    assert keeps.state.clients[keeps.join()].words[ZERO].memory_limit == GIB - 24 * MIB


def test_the_grant_says_what_comes_in_and_nobody_is_asked_when_all_fit() -> None:
    w = Swaps()
    one = w.join(lazy=400 * MIB)
    effects = w.ask(one)
    assert [(e.client, e.bytes) for e in only(effects, do.SendLockGranted)] == [(one, 400 * MIB)]
    w.is_in(one)
    two = w.join(lazy=600 * MIB)
    effects = w.passes(one, two)
    assert [e.bytes for e in only(effects, do.SendLockGranted)] == [600 * MIB]
    assert only(effects, do.SwapOut) == []
    assert w.is_in(two) is not None
    assert w.state.moves.due_ns is None, "nothing moves"


def test_only_the_deficit_leaves_the_coldest_first_and_after_the_turn_has_passed() -> None:
    w = Swaps()
    one = w.fill(300 * MIB)
    two = w.join(lazy=500 * MIB)
    w.passes(one, two)
    w.set(one, idle_since_ns=w.now)
    w.is_in(two)
    w.set(two, idle_since_ns=w.now + 1)
    three = w.join(lazy=700 * MIB)
    effects = w.passes(two, three)
    out = only(effects, do.SwapOut)
    (memory,) = job_view(w.state, w.state.tenants[w.state.clients[one].job], w.held, w.now, {}).memory
    assert memory.moving == "300MiB of it leave the device"
    deficit = (300 + 500 + 700 - 1024) * MIB
    assert [(e.client, e.bytes) for e in out] == [(one, 300 * MIB), (two, deficit - 300 * MIB)]
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.SendLockGranted) < kinds.index(do.SwapOut), "it comes in while they go out"
    assert only(w.look(10 * MILLISECOND), do.SwapOut) == [], "nobody is asked twice"
    for asked in out:
        assert only(w.leaves(asked), do.SwapOut) == []
    w.is_in(three)
    assert w.rows[two].resident_bytes == 500 * MIB - (deficit - 300 * MIB)
    assert w.state.moves.devices[ZERO].ledger.leaving == w.state.moves.devices[ZERO].ledger.coming == {}


def test_evict_and_keep_do_what_they_say() -> None:
    def asked(settings: str) -> list[tuple[ClientId, int]]:
        w = Swaps(SWAPS.replace("4GiB)]", f"4GiB)]  {settings}"))
        one, two = w.fill(200 * MIB), w.join(lazy=600 * MIB)
        w.passes(one, two)
        w.is_in(two)
        three = w.join(lazy=300 * MIB)
        return [(e.client, e.bytes // MIB) for e in only(w.passes(two, three), do.SwapOut)]

    (coldest,) = asked("evict = oldest")
    (largest,) = asked("evict = largest")
    assert coldest[0] < largest[0]
    assert coldest[1] == largest[1] == 76
    assert sum(count for _, count in asked("keep = 100MiB")) == 176


def test_what_others_have_is_asked_for_when_who_has_the_device_allocates() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=100 * MIB)
    w.passes(one, two)
    w.is_in(two)
    alloc = ev.AllocAsked(client=two, slot=ZERO, request=9, bytes=300 * MIB, time_ns=0, held=w.held)
    effects = w.react(alloc)
    (asked,) = only(effects, do.SwapOut)
    assert (asked.client, asked.bytes) == (one, (700 + 100 + 300 - 1024) * MIB)
    assert only(effects, do.SendAllocReply) == []
    assert [e.code for e in only(w.leaves(asked), do.SendAllocReply)] == [0]
    over = ev.AllocAsked(client=two, slot=ZERO, request=10, bytes=2 * GIB, time_ns=0, held=w.held)
    assert [e.code for e in only(w.react(over), do.SendAllocReply)] == [1], "more than the device, at once"


def test_who_finds_less_than_there_should_be_gets_more() -> None:
    w = Swaps()
    one = w.fill(500 * MIB)
    two = w.join(lazy=500 * MIB)
    assert only(w.passes(one, two), do.SwapOut) == [], "by what is known, both fit"
    (asked,) = only(w.is_in(two, short=True), do.SwapOut)
    assert w.state.locks.lines[ZERO].turn.in_ns is None  # type: ignore[union-attr]
    assert (asked.client, asked.bytes) == (one, 16 * MIB)
    w.look(10 * MILLISECOND)
    assert only(w.is_in(two, short=True), do.SwapOut) == [], "it is on its way"
    assert only(w.leaves(asked), do.SwapOut) == []
    assert only(w.is_in(two, short=True), do.SwapOut) == [], "it has just come"
    w.look(SECOND)
    (asked,) = only(w.is_in(two, short=True), do.SwapOut)
    w.leaves(asked)
    w.is_in(two)
    assert w.has(two)


def test_what_was_said_before_memory_had_left_and_is_heard_late_makes_no_more_leave() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=500 * MIB)
    (asked,) = only(w.passes(one, two), do.SwapOut)
    w.now += SECOND  # the daemon did not get the processor
    residue = w.state.moves.devices[ZERO].ledger.residue
    w.leaves(asked)
    assert only(w.is_in(two, short=True), do.SwapOut) == []
    assert w.state.moves.devices[ZERO].ledger.residue == residue
    w.look(SECOND)
    assert only(w.is_in(two, short=True), do.SwapOut), "it says so again"


def test_a_broken_context_is_named_and_asked_again_no_more_than_once_a_minute() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=700 * MIB)
    (asked,) = only(w.passes(one, two), do.SwapOut)
    (record,) = only(w.leaves(asked, 0, memory_swap.BROKEN), do.Record)
    assert "broken its CUDA context" in record.text
    assert "cannot leave: end it" in memory_swap.moving(w.state, one, ZERO)
    effects = [effect for _ in range(58) for effect in w.look(SECOND)]
    assert only(effects, do.SwapOut) == []
    assert [e.text for e in only(effects, do.Record) if "could not" in e.text] == []


@pytest.mark.parametrize("code", [memory_swap.DONE, memory_swap.FAILED, memory_swap.BROKEN])
def test_who_cannot_let_go_keeps_its_memory_and_the_next_one_waits_in_line_again(code: int) -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=700 * MIB)
    (asked,) = only(w.passes(one, two), do.SwapOut)
    effects = w.leaves(asked, 0, code)
    assert only(effects, do.Record)
    assert w.state.moves.devices[ZERO].ledger.leaving == {}
    w.ask(one)
    effects = w.look(10 * MILLISECOND) + w.look(980 * MILLISECOND)
    assert only(effects, do.SendLockRevoked) == [], "it may yet come"
    effects = w.look(10 * MILLISECOND)
    revoked = only(effects, do.SendLockRevoked)
    assert [e.client for e in revoked] == [two]
    assert any("cannot come in" in e.text for e in only(effects, do.Record))
    w.back(two)
    assert w.has(one), "its memory is all there"


def test_who_does_not_answer_is_not_waited_for_and_counts_again_when_it_does() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=700 * MIB)
    (asked,) = only(w.passes(one, two), do.SwapOut)
    for _ in range(8):
        w.look(SECOND)
    device = w.state.moves.devices[ZERO]
    assert device.cannot[one].why == "does not answer"
    (memory,) = job_view(w.state, w.state.tenants[w.state.clients[one].job], w.held, w.now, {}).memory
    assert memory.moving == "it was asked to make room, and does not answer"
    tenant = w.state.tenants[w.state.clients[two].job]
    assert "does not answer" in memory_room.why_short(w.state, tenant, ZERO)
    w.leaves(asked)
    assert device.cannot == {}
    assert memory_room.why_short(w.state, tenant, ZERO) == ""


def test_a_full_host_tier_keeps_the_turn_where_the_memory_is() -> None:
    w = Swaps(SWAPS.replace("4GiB", "100MiB"))
    one = w.fill(700 * MIB)
    two = w.join(lazy=700 * MIB)
    effects = w.ask(two)
    for _ in range(20):
        effects += w.look(SECOND)
    assert only(effects, do.SendLockRevoked) == [], "who has the device is not asked for it in vain"
    tenant = w.state.tenants[w.state.clients[two].job]
    (lock,) = job_view(w.state, tenant, w.held, w.now, {}).lock
    assert lock.state == "waits"
    assert "the host tier has no room for what job" in lock.text
    w.gone(one)
    assert w.has(two)


@pytest.mark.parametrize("swaps", [True, False])
def test_one_whose_memory_cannot_leave_is_shown_and_named_to_who_lacks_room(swaps: bool) -> None:
    """Also where none of it can: allocated before the policy took effect, or of a program without hook."""
    w = Swaps(SWAPS if swaps else SWAPS.replace("swap { tiers = [host(max = 4GiB)] }", ""))
    stays, comes = w.join(), w.join(lazy=500 * MIB)
    w.set(stays, pinned_bytes=700 * MIB, used_bytes=700 * MIB, pins=1)
    for _ in range(20):
        w.look(SECOND)
    tenants = {client: w.state.tenants[w.state.clients[client].job] for client in (stays, comes)}
    (memory,) = job_view(w.state, tenants[stays], w.held, w.now, {}).memory
    assert (memory.pinned, len(memory.pinned_why)) == ((700 * MIB, 1) if swaps else (0, 0))
    said = memory_room.why_short(w.state, tenants[comes], ZERO)
    assert (f"job {tenants[stays].id} has 700MiB there that cannot leave" in said) == swaps


def test_without_a_swap_block_there_is_no_host_memory() -> None:
    w = Swaps(SWAPS.replace("swap { tiers = [host(max = 4GiB)] }", ""))
    one = w.join()
    assert w.state.clients[one].words[ZERO].memory_flags == 0
    effects = w.slots(one, MIB)
    assert only(effects, do.SendNoSlots)
    assert "no policy swaps to host memory" in only(effects, do.Record)[0].text
    w.ask(one)
    assert w.state.moves.devices == {}


def test_residency_host_leaves_the_device_with_nobody_waiting() -> None:
    each = "each job as j { when j.idle_for > 30min until j.active { j.residency = host } }"
    w = Swaps(SWAPS + each)
    one = w.fill(300 * MIB)
    w.set(one, entered=1, left=1, idle_since_ns=w.now, active=0)
    w.look(SECOND)
    assert only(w.look(10 * SECOND), do.SendLockRevoked) == []
    effects: list[Effect] = []
    for _ in range(4):
        effects += w.look(600 * SECOND)
    assert [e.client for e in only(effects, do.SendLockRevoked)] == [one]
    (asked,) = only(w.back(one) + w.look(SECOND), do.SwapOut)
    assert (asked.client, asked.bytes) == (one, 300 * MIB)
    w.leaves(asked)
    assert only(w.look(SECOND), do.SwapOut) == []


def test_a_daemon_that_comes_after_works_it_out_anew() -> None:
    w = Swaps()
    one = w.fill(700 * MIB)
    two = w.join(lazy=700 * MIB)
    assert only(w.passes(one, two), do.SwapOut)
    content = saved.load(saved.dump(w.state, "boot"), "boot")
    assert content is not None
    state = new_state(w.state.board)
    saved.restore(state, content, lambda *_: True, w.now + 10 * SECOND)
    before, w.state = w.state, state
    effects: list[Effect] = []
    for client in (two, one):
        old = before.clients[client]
        effects += w.react(asks(w.session(), old.who, client, old.generation))
        effects += w.react(ev.Mapped(client=client))
        effects += w.look(0)
        effects += w.react(ev.DevicesReported(client=client, devices=((UUID, GIB),)))
        effects += w.all_map()
        effects += w.look(10 * MILLISECOND)
    (asked,) = only(effects, do.SwapOut)
    assert (asked.client, asked.bytes) == (one, (1400 - 1024) * MIB)
    assert only(effects, do.SendLockRevoked) == []


KEEP = 100 * MIB


def test_what_is_kept_is_free_before_the_gate_opens() -> None:
    w = Swaps(SWAPS.replace("4GiB)]", "4GiB)]  keep = 100MiB"))
    one = w.fill(700 * MIB)
    two = w.join(lazy=800 * MIB)
    effects = w.passes(one, two)
    assert [e.bytes for e in only(effects, do.SendLockGranted)] == [(1024 - 700 - 100) * MIB], "what is free, less that"
    (asked,) = only(effects, do.SwapOut)
    assert asked.bytes == (700 + 800 + 100 - 1024) * MIB
    w.set(two, lazy_bytes=(800 - 224) * MIB, resident_bytes=224 * MIB)
    assert only(w.is_in(two, short=True), do.SendLockGranted) == [], "nothing new"
    w.set(one, resident_bytes=500 * MIB, host_bytes=200 * MIB)
    more = only(w.look(10 * MILLISECOND), do.SendLockGranted)
    found = [(e.client, e.epoch, e.bytes, e.only_bytes) for e in more]
    assert found == [(two, w.epoch(), 424 * MIB, True)], "no grant, if it has given that one back meanwhile"
    w.set(one, resident_bytes=124 * MIB, host_bytes=576 * MIB)
    done = ev.Swapped(
        client=one, slot=ZERO, request=asked.request, code=memory_swap.DONE, bytes=asked.bytes, held=w.held
    )
    assert [e.bytes for e in only(w.react(done), do.SendLockGranted)] == [800 * MIB], "at once, not at the next look"
    assert w.state.moves.devices[ZERO].ledger.residue == 0, "who waited for its next level did not find too little"


def test_the_processes_of_a_job_share_what_is_free() -> None:
    w = Swaps(SWAPS.replace("4GiB)]", "4GiB)]  keep = 100MiB"))
    one = w.fill(600 * MIB)
    two = w.join(lazy=200 * MIB)
    three = w.join(lazy=300 * MIB)
    w.look(10 * MILLISECOND)
    job = w.state.clients[two].job
    clients = [two, three]
    found = memory_room.levels(w.state, ZERO, job, clients)
    assert found == {two: 200 * MIB, three: 124 * MIB}
    assert memory_room.levels(w.state, ZERO, w.state.clients[one].job, [one]) == {one: 600 * MIB}


def test_who_is_larger_than_what_is_left_beside_keep_is_let_in_all_the_same() -> None:
    """As when the policy keeps more than it did, or the job's own modules have taken it."""
    w = Swaps(SWAPS.replace("4GiB)]", "4GiB)]  keep = 100MiB"))
    one = w.fill(300 * MIB)
    two = w.join(lazy=1000 * MIB)
    (asked,) = only(w.passes(one, two), do.SwapOut)
    assert asked.bytes == 300 * MIB, "all that can leave"
    assert [e.bytes for e in only(w.leaves(asked), do.SendLockGranted)] == [1000 * MIB]
    w.is_in(two)
    assert w.has(two)


class Machine(RuleBasedStateMachine):
    """Hooks and a host of any speed. What a client has never changes but by itself; the device is never overfull; what
    the policy keeps is free when a gate opens; who waits gets in once everybody behaves."""

    def __init__(self) -> None:
        super().__init__()
        self.w = Swaps(SWAPS.replace("4GiB)]", f"900MiB)]  keep = {KEEP // MIB}MiB"))
        self.size: dict[ClientId, int] = {}
        self.asked: dict[ClientId, do.SwapOut] = {}
        self.revoked: set[ClientId] = set()
        self.granted: set[ClientId] = set()
        self.level: dict[ClientId, int] = {}

    def hear(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, do.SwapOut):
                assert effect.client not in self.asked, "one at a time"
                assert effect.client not in self.granted, "never of who has the device"
                assert 0 < effect.bytes <= self.w.rows[effect.client].resident_bytes
                self.asked[effect.client] = effect
            elif isinstance(effect, do.SendLockGranted):
                self.granted.add(effect.client)
                self.revoked.discard(effect.client)
                self.level[effect.client] = effect.bytes
            elif isinstance(effect, do.SendLockRevoked):
                self.revoked.add(effect.client)

    clients = st.integers(0, 3)

    def pick(self, number: int) -> ClientId | None:
        there = sorted(self.size)
        return there[number % len(there)] if there else None

    @precondition(lambda self: len(self.size) < 4)
    @rule(size=st.integers(1, 1000) | st.sampled_from([90, 300, 450, 500, 600]))
    def joins(self, size: int) -> None:
        """Some are larger than what the policy leaves them, as after a change of it."""
        client = self.w.join(lazy=size * MIB)
        self.size[client] = size * MIB
        self.hear(self.w.ask(client))

    @rule(number=clients)
    def wants(self, number: int) -> None:
        client = self.pick(number)
        if client is not None and client not in self.granted:
            self.hear(self.w.ask(client))

    def free(self) -> int:
        return GIB - sum(row.resident_bytes for client, row in self.w.rows.items() if client in self.size)

    @rule(part=st.integers(1, 3))
    def comes_in(self, part: int) -> None:
        for client in sorted(self.granted - self.revoked):
            row = self.w.rows[client]
            lack = row.host_bytes + row.lazy_bytes
            may = max(self.level[client] - row.resident_bytes, 0)
            count = min(lack if part == 1 else lack // part, may)
            host = min(row.host_bytes, count)
            self.w.set(
                client,
                resident_bytes=row.resident_bytes + count,
                host_bytes=row.host_bytes - host,
                lazy_bytes=row.lazy_bytes - (count - host),
            )
            if count == lack:
                assert self.free() >= min(KEEP, GIB - self.size[client]), "kept free before its gate opens"
                self.hear(self.w.is_in(client))
            else:
                self.hear(self.w.is_in(client, short=True))

    @precondition(lambda self: self.revoked)
    @rule()
    def gives_back(self) -> None:
        for client in sorted(self.revoked):
            self.revoked.discard(client)
            self.granted.discard(client)
            self.hear(self.w.back(client))

    @precondition(lambda self: self.asked)
    @rule(part=st.integers(0, 4), number=clients)
    def goes_out(self, part: int, number: int) -> None:
        client = sorted(self.asked)[number % len(self.asked)]
        asked = self.asked.pop(client)
        self.out(asked, asked.bytes * part // 4)

    def out(self, asked: do.SwapOut, count: int) -> None:
        lack = count - memory_room.room(self.w.state, asked.client)
        if lack > 0:
            effects = self.w.slots(asked.client, lack)
            self.hear(effects)
            if only(effects, do.SendNoSlots):
                count = memory_room.room(self.w.state, asked.client)
        done = count >= asked.bytes
        self.hear(self.w.leaves(asked, count, memory_swap.DONE if done else memory_swap.FAILED))

    @rule(number=clients)
    def dies(self, number: int) -> None:
        client = self.pick(number)
        if client is not None:
            del self.size[client]
            self.asked.pop(client, None)
            self.granted.discard(client)
            self.revoked.discard(client)
            self.hear(self.w.gone(client))

    @rule(ns=st.sampled_from([MILLISECOND, 50 * MILLISECOND, SECOND, 7 * SECOND]))
    def time_passes(self, ns: int) -> None:
        self.hear(self.w.look(ns))

    @rule(number=clients)
    def is_evicted(self, number: int) -> None:
        client = self.pick(number)
        if client is not None:
            self.hear(self.w.react(ev.EvictAsked(job=self.w.state.clients[client].job, by=by())))

    @rule(number=clients, goes_on=st.booleans())
    def is_paused(self, number: int, goes_on: bool) -> None:
        client = self.pick(number)
        if client is not None:
            kind = ev.ResumeAsked if goes_on else ev.PauseAsked
            self.hear(self.w.react(kind(job=self.w.state.clients[client].job, by=by())))

    @invariant()
    def nothing_is_lost_and_the_ledger_is_true(self) -> None:
        state = self.w.state
        for client, size in self.size.items():
            row = self.w.rows[client]
            assert row.resident_bytes + row.host_bytes + row.lazy_bytes == size
            assert row.host_bytes <= state.moves.host.given.get(client, 0)
        assert self.free() >= 0
        assert set(state.moves.host.given) <= set(self.size)
        assert state.moves.host.used <= 900 * MIB
        device = state.moves.devices.get(ZERO)
        if device is not None:
            assert set(device.outs) == set(self.asked)
            assert set(device.ledger.held) <= set(self.size)
            assert set(device.ledger.leaving) <= set(device.outs)

    def teardown(self) -> None:
        """Everybody behaves from now on: whoever waits gets its turn, or it is known why not; who is evicted is out."""
        for tenant in list(self.w.state.tenants.values()):
            if tenant.paused is not None:
                self.hear(self.w.react(ev.ResumeAsked(job=tenant.id, by=by())))
        for _ in range(400):
            waiting = {one.client for one in self.w.state.locks.requests}
            if not waiting and not any(tenant.leaves for tenant in self.w.state.tenants.values()):
                break
            self.comes_in(1)  # as much as it is let, while the others' memory has yet to go
            for asked in list(self.asked.values()):
                del self.asked[asked.client]
                self.out(asked, asked.bytes)
            self.comes_in(1)
            self.gives_back() if self.revoked else None
            self.hear(self.w.look(300 * MILLISECOND))
        for one in self.w.state.locks.requests:
            tenant = self.w.state.tenants[one.job]
            assert memory_room.why_short(self.w.state, tenant, ZERO), "nobody is stuck without a reason"
        assert not any(tenant.leaves for tenant in self.w.state.tenants.values())


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    "after", ["class job { match any } arbitrate exclusive { max_hold = 10s }", "class job { match any }"]
)
def test_when_swapping_ends_hooks_are_woken_once_their_pages_say_so(after: str) -> None:
    w = Swaps()
    one, other = w.fill(100 * MIB), w.join()
    effects = w.react(ev.BoardChanged(board=board(("p", after)), reading=w.reading()))
    woken = only(effects, do.SendLockAgain)
    assert [(effect.client, effect.slots) for effect in woken] == [(one, {ZERO}), (other, {ZERO})]
    assert all(effect.epoch > 0 for effect in woken), "a hook takes 0 for nonsense, and hangs up"
    (written,) = only(effects, do.Reloaded)
    assert effects.index(written) < effects.index(woken[0])
    again = w.react(ev.BoardChanged(board=board(("p", after + " "), ("q", "")), reading=w.reading()))
    assert only(again, do.SendLockAgain) == []
