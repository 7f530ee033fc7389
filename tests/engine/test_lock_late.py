"""Who has not given a device back for as long as its policy bears is ended."""

import pytest

from gpud.engine.lock_late import KILL_NS
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId
from gpud.model.units import SECOND
from tests.engine.conftest import UUID, asks, by, only
from tests.engine.test_lock import OTHER, Turns
from tests.engine.test_lock_report import shown
from tests.engine.test_lock_restart import restarted

LATE = """
  class job { match any }
  arbitrate exclusive {
    max_hold = 10s  min_hold = 0s  grace = 2s
    max_overrun = 30s
  }
"""
RULE = """
  class job { match any }
  arbitrate exclusive { max_hold = 10s  min_hold = 0s  grace = 2s }
  when gpu.waiters > 1 { job.max_overrun = 5s }
"""
OVER = 12 * SECOND
"""A turn and its grace."""


def late(policy: str = LATE) -> tuple[Turns, ClientId, ClientId]:
    """The first one has had the device for a turn and its grace; the second one waits."""
    w = Turns(policy)
    one, two = w.low(), w.low()
    w.ask(one), w.is_in(one), w.ask(two)
    w.ticks(OVER - 2 * SECOND, w.busy(one))
    w.ticks(2 * SECOND, w.busy(one))
    assert w.turn.overrun
    return w, one, two


def ended(effects: list[Effect]) -> list[tuple[int, str, str]]:
    return [(effect.job, effect.signal, effect.by) for effect in only(effects, do.EndJob)]


def test_nobody_is_ended_where_no_policy_says_so() -> None:
    w, one, _ = late(LATE.replace("max_overrun = 30s", ""))
    assert ended(w.ticks(3600 * SECOND, w.busy(one))) == []
    assert shown(w, one).text.endswith("its gate is shut (grace of turns.gpol:5)")


def test_who_is_late_for_too_long_is_told_to_end_then_killed_each_once() -> None:
    w, one, two = late()
    assert w.state.locks.due_ns == w.now + 30 * SECOND
    assert shown(w, one).text.endswith("; while others wait it is ended in 30s (turns.gpol:6)")
    assert ended(w.ticks(30 * SECOND - 1, w.busy(one))) == []
    effects = w.ticks(1, w.busy(one))
    assert ended(effects) == [(1, "TERM", "turns.gpol:6")]
    kinds = [type(effect) for effect in effects]
    assert kinds.index(do.SaveState) < kinds.index(do.EndJob), "another daemon does not begin anew"
    assert w.state.locks.due_ns == w.now + KILL_NS
    assert ended(w.ticks(KILL_NS - 1, w.busy(one))) == []
    assert shown(w, one).text.endswith("; it was told to end 9.9s ago (turns.gpol:6)")
    assert ended(w.ticks(1, w.busy(one))) == [(1, "KILL", "turns.gpol:6")]
    assert ended(w.ticks(3600 * SECOND, w.busy(one))) == []
    assert [e.client for e in only(w.gone(one), do.SendLockGranted)] == [two]


def test_a_job_that_is_late_on_two_devices_is_ended_once() -> None:
    w = Turns(LATE)
    one, two = (w.ready(w.launch()[0], (UUID, OTHER)) for _ in range(2))
    w.ask(one, (0, 1)), w.ask(two, (0,)), w.ask(w.ready(w.launch()[0], (UUID, OTHER)), (1,))
    w.ticks(OVER - 2 * SECOND), w.ticks(2 * SECOND)
    turns = [line.turn for line in w.state.locks.lines.values()]
    assert [turn.overrun for turn in turns if turn] == [True, True]
    assert ended(w.ticks(30 * SECOND)) == [(1, "TERM", "turns.gpol:6")]
    assert ended(w.ticks(KILL_NS)) == [(1, "KILL", "turns.gpol:6")]
    assert ended(w.ticks(3600 * SECOND)) == []


def test_who_gives_the_device_back_once_told_to_end_is_not_killed() -> None:
    w, one, two = late()
    w.ticks(30 * SECOND, w.busy(one))
    assert [e.client for e in only(w.back(one), do.SendLockGranted)] == [two]
    assert ended(w.ticks(KILL_NS, w.busy(two))) == []


@pytest.mark.parametrize("how", ["withdrawn", "paused"])
def test_nobody_is_ended_for_nobody(how: str) -> None:
    w, one, two = late()
    if how == "withdrawn":
        w.react(ev.LockWithdrawn(client=two, request=w.numbers))
    else:
        w.react(ev.PauseAsked(job=w.state.clients[two].job, by=by()))
    assert ended(w.ticks(60 * SECOND, w.busy(one))) == []
    assert ended(w.ask(w.low())) == [(1, "TERM", "turns.gpol:6")], "it has been late for long enough"


def test_a_rule_may_say_it() -> None:
    w, one, _ = late(RULE)
    assert ended(w.ticks(60 * SECOND, w.busy(one))) == []
    w.ask(w.low())
    assert ended(w.ticks(SECOND, w.busy(one))) == [(1, "TERM", "turns.gpol:5")]


def test_a_restarted_daemon_goes_on_where_the_last_one_was() -> None:
    w, one, two = late()
    w.ticks(30 * SECOND, w.busy(one))
    new = restarted(w)
    assert (new.turn.ended_ns, new.turn.killed) == (w.now, False)
    assert ended(new.ticks(KILL_NS, {})) == [(1, "KILL", "turns.gpol:6")]
    assert restarted(new).turn.killed
    assert two


def test_a_restarted_daemon_ends_nobody_that_may_just_be_coming_back() -> None:
    w, one, two = late()
    w.ticks(28 * SECOND, w.busy(one))
    who, generation = w.state.clients[two].who, w.state.clients[two].generation
    new = restarted(w)
    new.react(asks(new.session(), who, two, generation))
    new.react_devices(two), new.all_map()
    new.ask(two)
    assert ended(new.ticks(9 * SECOND, {})) == []
    assert ended(new.ticks(2 * SECOND, {})) == [(1, "TERM", "turns.gpol:6")]


def test_nobody_is_ended_for_who_is_held_by_a_policy() -> None:
    w, one, _ = late(LATE + "  when gpu.waiters > 1 { job.pause = true }\n")
    w.ask(w.low())
    assert ended(w.ticks(60 * SECOND, w.busy(one))) == []
