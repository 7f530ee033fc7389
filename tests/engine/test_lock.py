"""Turns at work: events in, effects out, in the order in which they become visible."""

from collections.abc import Sequence

import pytest

from gpud.engine.lock_queue import Line, Turn
from gpud.engine.lock_report import view, views
from gpud.engine.publish import GATE_GRANT
from gpud.engine.ticking import next_wakeup
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.counters import Counters
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, SessionId, Slot
from gpud.model.knobs import LOCK_WANTED, DeviceWords
from gpud.model.units import MILLISECOND, SECOND
from tests.engine.conftest import UUID, World, board, only

ZERO = Slot(0)
OTHER = b"\xff" * 16
TURNS = """
  class high { match label("tier") == "online" }
  class job  { match any }
  arbitrate exclusive { max_hold = 10s  order = [high, job]  min_hold = 1s  grace = 2s  idle_release = 500ms }
"""
LAZY = """
  class job { match any }
  arbitrate exclusive { max_hold = 10s }
  when gpu.waiters == 0 { job.max_hold = unlimited }
"""


class Turns(World):
    def __init__(self, policy: str = TURNS) -> None:
        super().__init__(running=board(("turns", policy)))
        self.numbers = 0
        self.ended: set[int] = set()
        """Processes that no daemon finds alive."""

    @property
    def line(self) -> Line:
        return self.state.locks.lines[ZERO]

    @property
    def turn(self) -> Turn:
        assert self.line.turn is not None
        return self.line.turn

    def ask(
        self, client: ClientId, slots: Sequence[int] = (0,), wait_ns: int | None = None, explicit: bool = False
    ) -> list[Effect]:
        self.numbers += 1
        of = frozenset(Slot(slot) for slot in slots)
        return self.react(
            ev.LockAsked(client=client, request=self.numbers, slots=of, explicit=explicit, wait_ns=wait_ns)
        )

    def is_in(self, client: ClientId, took_ns: int = 0) -> list[Effect]:
        of = frozenset({ZERO})
        return self.react(
            ev.LockIsIn(client=client, slots=of, epoch=self.turn.epoch, bytes=0, short=False, took_ns=took_ns)
        )

    def back(
        self,
        client: ClientId,
        epoch: int | None = None,
        overrun: bool = False,
        never: bool = False,
        slot: Slot = ZERO,
        asks: bool = False,
    ) -> list[Effect]:
        """`asks`: and asks for it again."""
        turn, of = self.state.locks.lines[slot].turn, frozenset({slot})
        self.numbers += asks
        again = ev.LockAsked(client=client, request=self.numbers, slots=of, explicit=True, wait_ns=None)
        return self.react(
            ev.LockBack(
                client=client,
                slots=of,
                epoch=epoch or (turn.epoch if turn else 1),
                overrun=overrun,
                never=never,
                asks=again if asks else None,
            )
        )

    def words(self, client: ClientId, slot: Slot = ZERO) -> DeviceWords:
        return self.state.clients[client].words[slot]

    def holders(self) -> list[ClientId]:
        return [c.id for c in self.state.clients.values() if self.words(c.id).grant_epoch]

    def busy(self, *clients: ClientId, **more: int) -> dict[ClientId, Counters]:
        return {client: Counters(active=1, **more) for client in clients}


def place_of(effects: Sequence[Effect], kind: type[Effect], client: ClientId) -> int:
    return next(i for i, one in enumerate(effects) if isinstance(one, kind) and getattr(one, "client", 0) == client)


def test_the_gate_is_shut_until_the_epoch_stands_in_the_page_and_only_then_is_it_said() -> None:
    w = Turns()
    one = w.low()
    assert (w.words(one).gate, w.words(one).grant_epoch) == (GATE_GRANT, 0)
    effects = w.ask(one)
    (granted,) = only(effects, do.SendLockGranted)
    (published,) = only(effects, do.PublishDevice)
    assert granted.epoch == published.words.grant_epoch == w.turn.epoch > 0
    assert granted.until_ns == published.words.grant_until_ns == w.now + 10 * SECOND
    assert only(effects, do.SaveState)
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.SaveState) < kinds.index(do.PublishDevice) < kinds.index(do.SendLockGranted)


def test_failsafe_never_opens_under_turns() -> None:
    w = Turns()
    client, effects = w.attach()
    effects += w.react_devices(client)
    assert only(effects, do.PublishFailsafe)[-1].after_ns is None


def test_who_waits_knows_its_place_and_who_has_it_knows_that_somebody_waits() -> None:
    w = Turns()
    one, two, three = w.low(), w.low(), w.low()
    w.ask(one)
    assert w.words(one).lock_flags == 0
    assert only(w.ask(two), do.SendLockGranted) == []
    w.ask(three)
    assert w.words(one).lock_flags == LOCK_WANTED
    assert [w.words(client).lock_place for client in (one, two, three)] == [0, 1, 2]
    w.react(ev.LockWithdrawn(client=two, request=2))
    assert [w.words(client).lock_place for client in (one, two, three)] == [0, 0, 1]
    assert w.holders() == [one]


def test_who_gives_it_back_and_asks_for_it_is_behind_who_waits_and_first_where_nobody_does() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one), w.ask(two)
    before = w.turn.epoch
    effects = w.back(one, asks=True)
    assert [(e.client, e.epoch > before) for e in only(effects, do.SendLockGranted)] == [(two, True)]
    assert len(only(effects, do.SaveState)) == 1, "both are on file at once"
    assert w.words(two).lock_flags == LOCK_WANTED
    assert w.line.places == [w.state.clients[one].job]
    assert [e.client for e in only(w.back(two), do.SendLockGranted)] == [one]
    before = w.turn.epoch
    assert [(e.client, e.epoch > before) for e in only(w.back(one, asks=True), do.SendLockGranted)] == [(one, True)]


def test_what_is_said_of_a_grant_that_is_over_asks_all_the_same() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(two)
    w.back(one, epoch=w.turn.epoch - 1, asks=True)
    assert w.turn.clients == {two}
    assert w.line.places == [w.state.clients[one].job]


def test_who_has_it_is_woken_by_the_first_one_that_comes() -> None:
    w = Turns()
    launcher, _ = w.launch()
    one, sibling, two, three = w.ready(launcher), w.ready(launcher), w.low(), w.low()
    assert only(w.ask(one) + w.is_in(one), do.SendLockAgain) == []
    for _ in range(2):
        effects = w.ask(two)
        said = [(e.client, e.slots, e.epoch) for e in only(effects, do.SendLockAgain)]
        assert said == [(client, frozenset({ZERO}), w.turn.epoch) for client in (one, sibling)]
        for client in (one, sibling):
            assert w.words(client).lock_flags == LOCK_WANTED
            assert place_of(effects, do.PublishDevice, client) < place_of(effects, do.SendLockAgain, client)
        assert only(w.ask(three) + w.ticks(SECOND, w.busy(one)), do.SendLockAgain) == [], "once"
        for number in (w.numbers, w.numbers - 1):
            w.react(ev.LockWithdrawn(client=three if number == w.numbers else two, request=number))
        assert w.words(one).lock_flags == 0
    w.ask(two)
    w.back(one), w.back(sibling)
    assert w.holders() == [two]
    assert [e.client for e in only(w.ask(one), do.SendLockAgain)] == [two], "the next turn, likewise"


def test_who_has_it_is_not_given_it_once_more() -> None:
    """It may have given it back just now: that word would come after it, and open its gate while another one has it."""
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one), w.is_in(one), w.ask(two)
    assert only(w.ask(one, explicit=True), do.SendLockGranted) == []
    assert [e.client for e in only(w.back(one), do.SendLockGranted)] == [two]


def test_nobody_waits_nobody_is_asked_back() -> None:
    w = Turns()
    one = w.low()
    w.ask(one)
    w.is_in(one)
    for _ in range(20):
        assert only(w.ticks(5 * SECOND), do.SendLockRevoked) == []
    assert w.state.locks.due_ns is None


def test_a_turn_that_is_over_is_asked_back_taken_out_of_the_page_once_it_is_late_and_given_to_the_next() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    epoch = w.turn.epoch
    w.ask(two)
    assert only(w.ticks(10 * SECOND - 2, w.busy(one)), do.SendLockRevoked) == []
    effects = w.ticks(2, w.busy(one))
    (revoked,) = only(effects, do.SendLockRevoked)
    assert (revoked.client, revoked.epoch, revoked.deadline_ns) == (one, epoch, w.now + 2 * SECOND)
    assert place_of(effects, do.PublishDevice, one) < place_of(effects, do.SendLockRevoked, one)
    assert (w.words(one).grant_epoch, w.words(one).grant_until_ns) == (epoch, revoked.deadline_ns), (
        "it may end its batch"
    )
    w.ticks(2 * SECOND - 1, w.busy(one, holds=1))
    assert w.holders() == [one]
    effects = w.ticks(1, w.busy(one, holds=1))
    assert w.turn.overrun
    assert w.holders() == [], "whatever it does, its gate is shut"
    assert only(effects, do.SendLockGranted) == []
    effects = w.back(one)
    (granted,) = only(effects, do.SendLockGranted)
    assert granted.client == two
    assert granted.epoch > epoch
    assert w.holders() == [two]


def test_an_idle_holder_gives_way_unless_it_has_taken_its_turn_itself() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    idle = Counters(active=0, idle_since_ns=w.now + 900 * MILLISECOND)
    w.ask(two)
    w.now += SECOND
    assert only(w.ticks(0, {one: Counters(active=0, holds=1, idle_since_ns=1)}), do.SendLockRevoked) == []
    assert only(w.ticks(390 * MILLISECOND, {one: idle}), do.SendLockRevoked) == []
    due = next_wakeup(w.state)
    assert due is not None
    assert due <= w.now + 10 * MILLISECOND
    assert only(w.ticks(11 * MILLISECOND, {one: idle}), do.SendLockRevoked)


def test_what_was_read_long_ago_makes_nobody_idle() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ticks(5 * SECOND)  # idle now
    assert only(w.ask(two), do.SendLockRevoked) == []
    assert w.state.locks.due_ns is not None
    assert w.state.locks.due_ns <= w.now + 1
    assert only(w.ticks(1, w.busy(one)), do.SendLockRevoked) == [], "it works by now"


@pytest.mark.parametrize(("block", "least"), [("20s", 15), ("unlimited", 15), ("10s", 10)])
def test_min_hold_is_five_times_what_coming_in_took_and_no_longer_than_a_turn_where_nothing_is_said(
    block: str, least: int
) -> None:
    w = Turns(TURNS.replace("min_hold = 1s", "").replace("10s", block) + "job.max_hold = 5s")
    one, two = w.low(), w.low()
    w.ask(one)
    w.now += 3 * SECOND
    w.is_in(one, took_ns=2**63)  # what it says is believed as far as it can be
    w.ask(two)
    assert only(w.ticks((least - 1) * SECOND, w.busy(one)), do.SendLockRevoked) == []
    assert only(w.ticks(SECOND, w.busy(one)), do.SendLockRevoked)


def test_all_processes_of_the_holder_have_it_and_all_must_have_left() -> None:
    w = Turns()
    launcher, _ = w.launch()
    one, sibling, two = w.ready(launcher), w.ready(launcher), w.low()
    assert {e.client for e in only(w.ask(one), do.SendLockGranted)} == {one, sibling}
    assert w.holders() == [one, sibling]
    third = w.ready(launcher)
    assert third in w.holders(), "who comes later, too"
    w.ask(two)
    effects = w.ticks(11 * SECOND, w.busy(one, sibling))
    assert {e.client for e in only(effects, do.SendLockRevoked)} == {one, sibling, third}
    for client in (one, sibling):
        assert only(w.back(client), do.SendLockGranted) == []
    assert [e.client for e in only(w.back(third), do.SendLockGranted)] == [two]


def test_one_process_that_is_done_leaves_and_idle_siblings_follow_at_once() -> None:
    w = Turns()
    launcher, _ = w.launch()
    one, sibling, two = w.ready(launcher), w.ready(launcher), w.low()
    w.ask(one)
    w.is_in(one)
    w.ask(two)
    w.now += SECOND
    assert only(w.back(one), do.SendLockGranted) == []
    assert w.holders() == [sibling]
    assert [e.client for e in only(w.ticks(1), do.SendLockRevoked)] == [sibling]
    assert [e.client for e in only(w.back(sibling), do.SendLockGranted)] == [two]


def test_an_overrun_is_a_state_and_the_next_waits_for_its_end() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.ask(two)
    w.ticks(11 * SECOND, w.busy(one))
    effects = w.back(one, overrun=True)
    assert w.turn.overrun
    assert [e.level for e in only(effects, do.Record)] == ["warning"]
    w.ticks(60 * SECOND, w.busy(one))
    assert w.holders() == []
    assert [e.client for e in only(w.back(one), do.SendLockGranted)] == [two]


def test_one_that_says_nothing_at_all_overruns_by_the_clock_and_its_death_frees() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.ask(two)
    w.ticks(11 * SECOND, w.busy(one))
    assert w.state.locks.due_ns == w.turn.deadline_ns
    assert only(w.ticks(2 * SECOND, w.busy(one)), do.Record)
    assert w.turn.overrun
    assert [e.client for e in only(w.gone(one), do.SendLockGranted)] == [two]


def test_work_that_cannot_end_goes_on_and_is_asked_again_later() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    epoch = w.turn.epoch
    w.ask(two)
    w.ticks(11 * SECOND, w.busy(one))
    effects = w.back(one, never=True)
    assert [(e.client, e.epoch) for e in only(effects, do.SendLockGranted)] == [(one, epoch)]
    assert place_of(effects, do.PublishDevice, one) < place_of(effects, do.SendLockGranted, one)
    assert w.holders() == [one]
    assert only(w.ticks(SECOND, w.busy(one)), do.SendLockRevoked) == []
    assert only(w.ticks(SECOND, w.busy(one)), do.SendLockRevoked)


def test_an_open_capture_keeps_the_gate_shut_and_is_named() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.ask(two)
    w.ticks(11 * SECOND, w.busy(one))
    w.ticks(2 * SECOND, w.busy(one))
    effects = w.back(one, overrun=True, never=True)
    assert only(effects, do.SendLockGranted) == []
    assert w.holders() == [], "its epoch is out of its page: no launch of it passes"
    assert ["capture is open" in record.text for record in only(effects, do.Record)] == [True]
    assert only(w.back(one, overrun=True, never=True), do.Record) == [], "once"
    text = view(w.state, w.state.tenants[w.turn.job], ZERO, w.now).text
    assert "a stream capture is open in it; its gate is shut" in text
    assert [e.client for e in only(w.back(one), do.SendLockGranted)] == [two]


def test_a_word_about_an_older_grant_means_nothing() -> None:
    w = Turns()
    one = w.low()
    w.ask(one)
    w.back(one, epoch=w.turn.epoch - 1)
    assert w.holders() == [one]
    w.back(w.low())
    assert w.holders() == [one]


@pytest.mark.parametrize("how", ["holder", "waiter"])
def test_death_frees_and_its_page_opens_nothing(how: str) -> None:
    w = Turns()
    one, two, three = w.low(), w.low(), w.low()
    w.ask(one), w.ask(two), w.ask(three)
    effects = w.gone(one if how == "holder" else two)
    if how == "waiter":
        assert w.words(three).lock_place == 1
        return
    shut = [e for e in only(effects, do.PublishDevice) if e.client == one]
    assert shut[-1].words.grant_epoch == 0
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.PublishDevice) < kinds.index(do.DropPages) < kinds.index(do.SendLockGranted)
    assert w.holders() == [two]


def test_a_higher_rank_is_next() -> None:
    w = Turns()
    one, low, high = w.low(), w.low(), w.high()
    w.ask(one), w.ask(low), w.ask(high)
    assert [w.words(client).lock_place for client in (low, high)] == [2, 1]


def test_two_devices_come_together() -> None:
    w = Turns()
    one, two = w.low(), w.ready(w.launch()[0], (UUID, OTHER))
    w.ask(one)
    assert only(w.ask(two, (0, 1)), do.SendLockGranted) == []
    granted = only(w.gone(one), do.SendLockGranted)
    assert {slot for e in granted for slot in e.slots} == {ZERO, Slot(1)}
    assert len({e.epoch for e in granted}) == 1


def test_a_device_that_it_does_not_have_is_refused() -> None:
    w = Turns()
    one = w.low()
    (refused,) = only(w.ask(one, (3,)), do.SendLockRefused)
    assert "does not have" in refused.text
    assert w.state.locks.requests == []


def test_a_request_whose_time_is_over_gets_nothing() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.ask(two, wait_ns=3 * SECOND)
    w.ticks(4 * SECOND, w.busy(one))
    assert w.state.locks.requests == []
    assert only(w.gone(one), do.SendLockGranted) == []


def test_who_is_paused_gets_no_turn_before_it_goes_on() -> None:
    w = Turns(TURNS + "when high.queued > 0 { job.pause = true }")
    one, held = w.high(), w.low()
    w.ask(one), w.ask(held)
    w.ticks(6 * MILLISECOND, {one: Counters(holding=1)})
    assert only(w.back(one), do.SendLockGranted) == []
    assert [e.client for e in only(w.ticks(100 * MILLISECOND), do.SendLockGranted)] == [held]


def test_the_length_of_a_turn_may_depend_on_who_waits() -> None:
    w = Turns(LAZY)
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.ticks(60 * SECOND, w.busy(one))
    assert w.words(one).grant_until_ns == 2**64 - 1
    w.ask(two)
    assert only(w.ticks(60 * MILLISECOND, w.busy(one)), do.SendLockRevoked)
    assert w.words(two).lock_place == 1


def test_policies_see_who_waits_and_for_how_long() -> None:
    w = Turns(
        """
  class high { match label("tier") == "online" }
  class job  { match any }
  arbitrate exclusive { max_hold = 10s }
  when gpu.waiters > 1 and job.waiters > 1 and high.waiters == 0 and high.longest_wait == 0s { job.max_hold = 9s }
  when job.longest_wait > 3s { high.max_hold = 8s }
  each job as j { when j.longest_wait > 4s { j.max_hold = 7s } }
"""
    )
    one, two, three = w.high(), w.low(), w.low()
    w.ask(one), w.ask(two), w.ask(three)
    assert w.words(one).grant_until_ns == w.now + 10 * SECOND
    w.ticks(3500 * MILLISECOND, w.busy(one))
    assert w.words(one).grant_until_ns == w.turn.began_ns + 8 * SECOND
    snapshot = {ref.text: value for ref, value in zip(
        w.state.runs[ZERO].stack[0].program.signals, w.state.runs[ZERO].ran[0].snapshot, strict=True
    )}  # fmt: skip
    assert (snapshot["gpu.waiters"], snapshot["job.waiters"], snapshot["high.waiters"]) == (2, 2, 0)
    assert snapshot["job.longest_wait"] == 3500 * MILLISECOND
    w.ticks(SECOND, w.busy(one))
    w.ticks(4 * SECOND, w.busy(one))
    w.back(one)
    assert w.words(two).grant_until_ns - w.turn.began_ns in (7 * SECOND, 9 * SECOND, 10 * SECOND)


def test_turns_begin_where_others_work_only_after_the_grace_and_end_with_the_policy() -> None:
    w = World(running=board(("open", "class job { match any } arbitrate open {} ")))
    t = Turns()
    t.state, t.now = w.state, w.now
    one = t.low()
    turns = board(("turns", TURNS))
    t.react(ev.BoardChanged(board=turns, why="asked", reading=t.reading()))
    assert t.words(one).gate & GATE_GRANT
    assert only(t.ask(one), do.SendLockGranted) == []
    works = {one: Counters(active=1)}
    assert only(t.ticks(1 * SECOND, works), do.SendLockGranted) == []
    (said,) = views(t.state, t.state.tenants[t.state.clients[one].job], t.now)
    assert said.text.endswith("and work from before may end first (grace of turns.gpol:5): job 1 (python)"), said.text
    assert said.starts_ns == 1 * SECOND
    assert only(t.ticks(1 * SECOND, works), do.SendLockGranted)
    t.react(ev.BoardChanged(board=board(("open", "class job { match any } arbitrate open {} ")), why="asked"))
    assert t.words(one).gate == 0
    assert t.state.locks.lines == {}


def test_turns_begin_at_once_where_nobody_works_any_more() -> None:
    w = World(running=board(("open", "class job { match any } arbitrate open {} ")))
    t = Turns()
    t.state, t.now = w.state, w.now
    one, other = t.low(), t.low()
    t.react(ev.BoardChanged(board=board(("turns", TURNS)), why="asked", reading=t.reading()))
    assert only(t.ask(one), do.SendLockGranted) == []  # pages that were read before the gates were shut say nothing
    assert t.state.locks.due_ns is not None
    assert t.state.locks.due_ns - t.now <= 10 * MILLISECOND
    busy = {one: Counters(), other: Counters(active=1)}
    assert only(t.ticks(5 * MILLISECOND, busy), do.SendLockGranted) == []
    unfinished = {one: Counters(), other: Counters(inflight=1)}
    assert only(t.ticks(100 * MILLISECOND, unfinished), do.SendLockGranted) == []
    launching = {one: Counters(entered=4, left=4), other: Counters(entered=7, left=6)}
    assert only(t.ticks(5 * MILLISECOND, launching), do.SendLockGranted) == [], "past the gate, and not noted yet"
    idle = {one: Counters(entered=4, left=4), other: Counters(entered=7, left=7)}
    (granted,) = only(t.ticks(100 * MILLISECOND, idle), do.SendLockGranted)
    assert granted.client == one


def test_a_daemon_that_ends_opens_every_gate() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.react(ev.StopAsked())
    assert [w.words(client).gate for client in (one, two)] == [0, 0]
    assert SessionId(1)
