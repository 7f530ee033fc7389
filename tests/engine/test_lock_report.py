"""What commands show of turns."""

import pytest

from gpud.cli.turns import brief
from gpud.engine.lock_report import view
from gpud.model.ids import ClientId
from gpud.model.units import MILLISECOND, SECOND
from gpud.model.views import LockView
from tests.engine.test_lock import ZERO, Turns

PATIENT = """
  class job { match any }
  arbitrate exclusive { max_hold = 1min  grace = 2s  idle_release = 500ms }
  job.max_hold = 1s
"""


def shown(w: Turns, client: ClientId) -> LockView:
    return view(w.state, w.state.tenants[w.state.clients[client].job], ZERO, w.now)


@pytest.fixture
def two() -> tuple[Turns, ClientId, ClientId]:
    """The first one has the device, for five times as long as its memory took to come in; the second one waits."""
    w = Turns(PATIENT)
    one, other = w.low(), w.low()
    w.ask(one)
    w.now += 8 * SECOND
    w.is_in(one, took_ns=8 * SECOND)
    w.ask(other)
    return w, one, other


def test_who_waits_sees_what_the_holder_says_that_it_is_for(two: tuple[Turns, ClientId, ClientId]) -> None:
    w, one, other = two
    w.state.reasons = {(one, ZERO): 'a "validation"', (other, ZERO): "training"}
    held, waits = shown(w, one), shown(w, other)
    assert (held.reason, waits.reason) == ('a "validation"', 'a "validation"'), "of the holder, as it said"
    assert waits.text.endswith("job 1 (python): it has the device (\"a 'validation'\")")
    assert "for 0s (\"a 'validation'\");" in held.text
    assert brief(held) == 'has ("a "validation""), 40s left'
    assert brief(waits) == "next, in 40s"
    w.back(one)
    w.is_in(other)
    assert shown(w, other).reason == "training"
    assert shown(w, one).reason == "training"


def test_without_a_reason_nothing_is_said_of_one(two: tuple[Turns, ClientId, ClientId]) -> None:
    w, one, other = two
    assert shown(w, one).reason == shown(w, other).reason == ""
    assert shown(w, other).text.endswith("job 1 (python): it has the device")
    assert brief(shown(w, one)) == "has, 40s left"


def test_the_end_of_a_turn_is_when_it_is_asked_back(two: tuple[Turns, ClientId, ClientId]) -> None:
    """Not before five swaps' time, however short a rule makes it."""
    w, one, other = two
    w.ticks(3 * SECOND, w.busy(one))
    held, waits = shown(w, one), shown(w, other)
    assert (held.left_ns, waits.starts_ns) == (37 * SECOND, 37 * SECOND)
    assert "it is asked back in 37s, one job waits" in held.text
    w.ticks(37 * SECOND - MILLISECOND, w.busy(one))
    assert shown(w, one).state == "has"
    w.ticks(2 * MILLISECOND, w.busy(one))
    assert shown(w, one).state == "leaves"
