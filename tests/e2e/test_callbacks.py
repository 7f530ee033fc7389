"""Programs without hook whose memory leaves by functions of their own (`on_swap_out`, `on_swap_in`): only when somebody
needs the room, and it comes back as it was. The device has 256 MiB.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.cli.memory import lines
from gpud.model.views import JobView
from gpud.testing.node import until
from tests.e2e.test_hookless import Hookless
from tests.e2e.test_swap import MIB, WITHIN, Large, Turns

pytestmark = pytest.mark.e2e


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


def job(node: Turns, pid: int) -> JobView:
    with node.client() as client:
        return next(job for job in client.ps() if pid in job.pids)


def measured(node: Turns, program: Hookless, mib: int) -> None:
    until(lambda: job(node, program.pid).memory[0].used >= mib * MIB, WITHIN, "the driver has told of its memory")


def test_memory_leaves_for_a_job_with_hook_and_comes_back_as_it_was(node: Turns, large: list[str]) -> None:
    one = Hookless(node)
    assert one.does("load 160") == "loaded"
    measured(node, one, 160)
    other = Large(node, large, "two", 160)
    other.filled()
    assert one.does("moves") == "out"
    assert one.does("infer 3") == "right"
    assert one.does("moves") == "out in"
    assert node.memory("two").host > 0, "for it something has left"
    other.do("c")
    assert one.does("infer") == "right"
    assert one.does("moves") == "out in out in"


def test_where_all_fit_nothing_is_called(node: Turns, large: list[str]) -> None:
    one, second = Hookless(node), Hookless(node)
    assert [one.does("load 40"), second.does("load 40")] == ["loaded", "loaded"]
    measured(node, second, 40)  # the first one has let go for it
    assert [one.does("infer"), second.does("infer")] == ["right", "right"]
    called = one.does("moves"), second.does("moves")
    assert called == ("out in", "nothing"), "once, for one of whom nobody knew what it needs"
    other = Large(node, large, "two", 60)
    other.filled()
    for _ in range(2):
        assert [one.does("infer"), second.does("infer")] == ["right", "right"]
        other.do("c")
    assert (one.does("moves"), second.does("moves")) == called


def test_two_without_hook_that_do_not_fit_together_take_turns(node: Turns) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("load 160") == "loaded"
    assert other.does("load 160") == "loaded"
    for _ in range(2):
        assert [one.does("infer 2"), other.does("infer 2")] == ["right", "right"]
    assert one.does("moves") == "out in out in out"
    assert other.does("moves") == "out in out in"


def test_what_is_measured_while_it_leaves_is_not_all_that_must_come_back(node: Turns) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("load 160 slow") == "loaded"
    assert other.does("load 160 slow") == "loaded"
    assert [one.does("infer"), other.does("infer"), one.does("infer")] == ["right", "right", "right"], one.complains()


def test_what_fails_is_told_and_the_next_one_is_told_who_has_the_room(node: Turns, large: list[str]) -> None:
    one = Hookless(node)
    assert one.does("load 160 fails") == "loaded"
    measured(node, one, 160)
    other = Large(node, large, "two", 160)
    until(lambda: "ValueError: cannot leave" in one.complains(), WITHIN, "its traceback is logged")

    def is_told() -> bool:
        waiting = node.job("two")
        return waiting is not None and waiting.why is not None and "its on_swap_out failed" in waiting.why.text

    until(is_told, WITHIN, "who waits is told")
    assert one.does("infer") == "right", "nothing has moved"
    os.kill(one.pid, signal.SIGKILL)
    other.filled()


def test_what_cannot_come_in_raises_and_the_turn_is_released(node: Turns) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("load 160 fails once") == "loaded"
    assert other.does("load 160") == "loaded"
    assert one.does("raises") == "ValueError cannot come in"
    assert one.does("release").startswith("NotHeld")
    assert other.does("infer") == "right"
    assert one.does("infer") == "right", one.complains()


def test_one_that_hangs_is_told_of_and_lets_nobody_wait_for_ever_once_it_is_killed(
    node: Turns, large: list[str]
) -> None:
    one = Hookless(node)
    assert one.does("load 160 hangs") == "loaded"
    measured(node, one, 160)
    other = Large(node, large, "two", 160)
    until(lambda: "does not answer" in node.log.read_text(), WITHIN, "the daemon's line")
    until(lambda: "does not answer" in "".join(lines(job(node, one.pid).memory[0])), WITHIN, "`gpud why` says so")
    assert one.does("take 0").startswith("TurnTimeout"), "no turn begins meanwhile"
    os.kill(one.pid, signal.SIGKILL)
    other.filled()


def test_one_that_is_killed_on_the_way_out_frees_its_room(node: Turns, large: list[str]) -> None:
    one = Hookless(node)
    assert one.does("load 160 hangs") == "loaded"
    measured(node, one, 160)
    other = Large(node, large, "two", 160)
    until(lambda: "(out)" in one.complains(), WITHIN, "it is on the way out")
    os.kill(one.pid, signal.SIGKILL)
    other.filled()


def test_without_callbacks_it_is_pinned_with_the_reason(node: Turns) -> None:
    one = Hookless(node)
    assert one.does("load 100 bare") == "loaded"
    measured(node, one, 100)
    memory = job(node, one.pid).memory[0]
    assert memory.pinned >= 100 * MIB
    assert memory.pinned_why == ("of a program without hook",)
    assert "cannot (of a program without hook)" in "".join(lines(memory))


def test_another_daemon_asks_as_the_first_would(node: Turns) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("load 160") == "loaded"
    assert other.does("load 160") == "loaded"
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()
    node.start()
    until(lambda: len(job(node, other.pid).notes) == len(job(node, one.pid).notes) == 1, WITHIN, "both are back")
    assert [one.does("infer"), other.does("infer"), one.does("infer")] == ["right", "right", "right"]


def test_who_comes_in_when_the_daemon_dies_waits_for_the_next_one(node: Turns) -> None:
    """Nobody has made room for it, and what it brings in itself would fail."""
    one, other = Hookless(node), Hookless(node)
    assert one.does("load 160") == "loaded"
    assert other.does("load 160 hangs") == "loaded"
    one.says("infer")
    until(lambda: "(out)" in other.complains(), WITHIN, "the other one is asked")
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()
    assert not one.is_heard(1)
    node.start()
    os.kill(other.pid, signal.SIGKILL)
    assert one.hears() == "right", one.complains()
