"""Turns over a restart of the daemon: who has a device, who waits, and what `fair` goes by."""

import pytest

from gpud.engine import saved
from gpud.engine.lock import AHEAD_NS
from gpud.engine.lock_queue import used_ns
from gpud.engine.publish import GATE_GRANT
from gpud.engine.saved_lock import PAST_AGE_NS, PAST_STEP_NS
from gpud.engine.ticking import next_wakeup
from gpud.model import effects as do
from gpud.model.effects import Effect
from gpud.model.ids import ClientId
from gpud.model.units import SECOND
from tests.engine.conftest import asks, new_state, only
from tests.engine.test_lock import ZERO, Turns

FAIR = """
  class high { match label("tier") == "online" }
  class job  { match any }
  arbitrate exclusive { max_hold = 600s  min_hold = 0s  grace = 2s  queue = fair }
"""


def restarted(w: Turns) -> Turns:
    content = saved.load(saved.dump(w.state, "boot"), "boot")
    assert content is not None
    new = Turns()
    new.state, new.now, new.numbers, new._session = new_state(w.state.board), w.now + SECOND, w.numbers, 50
    saved.restore(new.state, content, lambda pid, _: pid not in new.ended, new.now + 10 * SECOND)
    return new


def test_a_restarted_daemon_knows_who_has_it_and_who_waits() -> None:
    w = Turns()
    one, two, three = w.low(), w.low(), w.low()
    w.ask(one), w.ask(two), w.ask(three)
    epoch = w.turn.epoch
    clients = {c.id: (c.who, c.generation) for c in w.state.clients.values()}
    new = restarted(w)

    def comes_back(client: ClientId) -> list[Effect]:
        who, generation = clients[client]
        effects = new.react(asks(new.session(), who, client, generation))
        published = only(effects, do.PublishDevice)
        assert all(e.words.gate & GATE_GRANT for e in published)
        assert {e.words.grant_epoch for e in published if e.client == client} == {epoch if client == one else 0}
        effects += new.react_devices(client)
        return effects + new.all_map()

    effects = comes_back(three)
    new.ask(three)
    effects += comes_back(one)
    assert {(e.client, e.epoch) for e in only(effects, do.SendLockGranted)} == {(one, epoch)}, "said again"
    comes_back(two)
    new.ask(two)
    assert [request.client for request in new.state.locks.requests] == [two, three], "each in its place"
    assert new.holders() == [one]
    (granted,) = only(new.gone(one), do.SendLockGranted)
    assert granted.client == two
    assert granted.epoch > epoch


@pytest.mark.parametrize("comes_back", [True, False])
def test_after_a_restart_a_free_device_is_kept_a_moment_for_who_was_first(comes_back: bool) -> None:
    w = Turns()
    one, two, three = w.low(), w.low(), w.low()
    w.ask(one), w.ask(two), w.ask(three)
    clients = {c.id: (c.who, c.generation) for c in w.state.clients.values()}
    new = restarted(w)

    def comes(client: ClientId) -> list[Effect]:
        who, generation = clients[client]
        effects = new.react(asks(new.session(), who, client, generation))
        return effects + new.react_devices(client) + new.all_map() + new.ask(client)

    new.gone(one)
    assert only(comes(three), do.SendLockGranted) == [], "it is not its turn"
    due = next_wakeup(new.state)
    assert due is not None
    assert due <= new.now + AHEAD_NS
    assert only(new.ticks(AHEAD_NS - 1), do.SendLockGranted) == []
    granted = only(comes(two) if comes_back else new.ticks(1), do.SendLockGranted)
    assert [e.client for e in granted] == [two if comes_back else three]
    assert new.line.places == [new.state.clients[three if comes_back else two].job]


def test_a_place_that_nobody_asks_for_again_is_lost() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one), w.ask(two)
    new = restarted(w)
    holder = new.state.clients[one].who.pid
    new.ticks(11 * SECOND)
    assert new.state.locks.requests == []
    assert list(new.state.clients) == [one]
    assert new.turn.clients == {one}, "it lives: stopped, it may launch as soon as it goes on"
    three = new.low()
    assert only(new.ask(three), do.SendLockGranted) == []
    assert only(new.ticks(3600 * SECOND), do.SendLockGranted) == [], "never by mere time-out"
    new.ended.add(holder)
    assert only(new.ticks(SECOND - 1), do.SendLockGranted) == []
    assert [e.client for e in only(new.ticks(1), do.SendLockGranted)] == [three]


def test_what_was_asked_back_before_a_restart_is_asked_back_again() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one), w.ask(two)
    w.ticks(11 * SECOND, w.busy(one))
    client = w.state.clients[one]
    new = restarted(w)
    new.react(asks(new.session(), client.who, one, client.generation))
    (revoked,) = only(new.react_devices(one) + new.all_map(), do.SendLockRevoked)
    assert (revoked.client, revoked.epoch) == (one, w.turn.epoch)


def test_fair_goes_by_the_same_past_after_a_restart() -> None:
    w = Turns(FAIR)
    one, two = w.high(), w.low()
    for client, turns in ((one, 20), (two, 5)):
        for _ in range(turns):
            w.ask(client)
            w.is_in(client)
            w.ticks(3 * SECOND)
            w.back(client)
    units = list(w.line.past)
    used = [used_ns(w.line, unit, w.now) for unit in units]
    assert used == [60 * SECOND, 15 * SECOND]
    third = w.low()
    w.ask(third)
    new = restarted(w)
    now = [used_ns(new.line, unit, new.now) for unit in units]
    assert now == [60 * SECOND, 16 * SECOND], "with a second of the turn under way"
    for client in (one, two):
        old = w.state.clients[client]
        new.react(asks(new.session(), old.who, client, old.generation))
        new.react_devices(client)
        new.all_map()
        new.ask(client)
    assert new.line.places == [new.state.clients[client].job for client in (two, one)], "not by arrival"
    (granted,) = only(new.gone(third), do.SendLockGranted)
    assert granted.client == two


def test_the_past_on_file_is_as_exact_as_its_steps_and_hardly_older_than_its_age() -> None:
    w = Turns(FAIR)
    one = w.low()
    for _ in range(400):
        w.ask(one)
        w.is_in(one)
        w.ticks(SECOND // 4)
        w.back(one)
    (unit,) = w.line.past
    new = restarted(w)
    assert len(new.line.past[unit]) <= 100 * SECOND // PAST_STEP_NS + 1
    for later in (0, 300 * SECOND, 550 * SECOND):
        exact, now = used_ns(w.line, unit, new.now + later), used_ns(new.line, unit, new.now + later)
        assert abs(now - exact) <= PAST_STEP_NS + PAST_AGE_NS
    assert used_ns(new.line, unit, new.now + 700 * SECOND) == 0


def test_a_past_of_a_device_or_policy_that_is_gone_is_forgotten() -> None:
    w = Turns(FAIR)
    one = w.low()
    w.ask(one)
    w.is_in(one)
    w.ticks(3 * SECOND)
    w.back(one)
    content = saved.load(saved.dump(w.state, "boot"), "boot")
    assert content is not None
    bare = Turns("class job { match any } arbitrate open {}")
    saved.restore(bare.state, content, lambda pid, _: True, bare.now + 10 * SECOND)
    assert ZERO in bare.state.locks.lines
    bare.low()
    assert bare.state.locks.lines == {}
