"""The device lock, of what a client says: what bears on whom, and how much of it is kept."""

from gpud.engine.lock import MOST_REQUESTS
from gpud.model import effects as do
from gpud.model import events as ev
from tests.engine.conftest import GIB, UUID, only
from tests.engine.test_lock import OTHER, ZERO, Turns


def test_nobody_says_that_somebody_else_has_come_in() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one), w.ask(two)
    w.is_in(two)
    assert w.turn.in_ns is None
    w.is_in(one)
    assert w.turn.in_ns == w.now


def test_one_client_has_so_many_requests_at_a_time() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    for _ in range(MOST_REQUESTS):
        assert only(w.ask(two), do.SendLockRefused) == []
    (refused,) = only(w.ask(two), do.SendLockRefused)
    assert (refused.client, refused.request) == (two, w.numbers)
    assert len(w.state.locks.requests) == MOST_REQUESTS
    assert only(w.ask(w.low()), do.SendLockRefused) == [], "others may go on asking"


def test_who_waits_for_a_device_and_leaves_it_is_given_no_turn_there() -> None:
    w = Turns()
    one, two = w.low(), w.ready(w.launch()[0], (UUID, OTHER))
    other = next(slot for slot in w.state.clients[two].slots() if slot != ZERO)
    w.ask(one), w.ask(two)
    w.react(ev.DevicesReported(client=two, devices=((OTHER, GIB),)))
    assert w.state.clients[two].slots() == {other}
    assert only(w.back(one), do.SendLockGranted) == []
    assert w.line.turn is None, "a turn without a client would hold the device for ever"
    assert w.state.locks.requests == []


def test_who_was_not_asked_for_it_is_not_late() -> None:
    w = Turns()
    one, two = w.low(), w.low()
    w.ask(one)
    w.is_in(one)
    w.back(one, overrun=True)
    assert not w.turn.overrun
    assert w.words(one).grant_epoch == w.turn.epoch, "its gate stays open"
    w.ask(two)
    assert w.turn.clients == {one}
