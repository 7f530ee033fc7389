"""Turns of programs that nobody has started under gpud: the lock excludes as it does for others, and that is all."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.cli.sim.devicelog import Kernel, read_log
from gpud.model.text import WITHOUT_HOOK
from gpud.testing.node import Node, until
from tests.e2e.conftest import PROGRAMS
from tests.e2e.test_turns import lock, states
from tests.e2e.test_turns_told import PATIENT, SHORT, Told, asked_back, begun, dies, left, waits

pytestmark = pytest.mark.e2e


class Hookless(Told):
    def __init__(self, node: Node) -> None:
        super().__init__(node, str(PROGRAMS / "hookless.py"), str(PROGRAMS / "counter.ptx"), managed=False)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with begun(tmp_path, PATIENT) as node:
        yield node


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Node]:
    with begun(tmp_path, SHORT) as node:
        yield node


def notes(node: Node) -> list[tuple[str, ...]]:
    with node.client() as client:
        return [job.notes for job in client.ps()]


def waiters(node: Node) -> int:
    with node.client() as client:
        return sum(device.waiters for device in client.status().devices)


def kernels(node: Node) -> list[Kernel]:
    """All, in order. The node must be stopped."""
    return sorted(read_log(node.device_log).kernels, key=lambda one: one.start_ns)


def overlaps(found: list[Kernel]) -> int:
    """How often a kernel began while work that another program had submitted was not done."""
    return sum(one.pid != two.pid and one.submit_ns < two.start_ns < one.end_ns for one in found for two in found)


@pytest.mark.parametrize("kernels_each", ["20", "-20"], ids=["of its thread's context", "of no thread's context"])
def test_one_with_hook_and_one_without_exclude_each_other(
    tmp_path: Path, counter: list[str], kernels_each: str
) -> None:
    """Neither waits for its own work: that is what the end of a turn does."""
    with begun(tmp_path, PATIENT, kernel_ms=2) as node:
        one, other = Hookless(node), Hookless(node)
        assert [one.does("begin"), other.does("begin")] == ["begun", "begun"]
        hooked = node.run([*counter, "20", "10"])
        one.says(f"rounds 8 {kernels_each}")
        other.says(f"rounds 8 {kernels_each}")
        assert (one.hears(), other.hears()) == ("right", "right")
        out, _ = hooked.communicate(timeout=60)
        assert hooked.returncode == 0, out
        node.stop()
        found = kernels(node)
        assert len({kernel.pid for kernel in found}) == 3
        assert overlaps(found) == 0
        node.close()


def test_it_needs_no_driver_and_loads_none(node: Node) -> None:
    one = Hookless(node)
    assert one.does("take") == "in"
    assert one.does("drop") == "out"
    assert one.does("has_driver") == "False"


def test_it_waits_in_line_like_others_and_all_forms_work(node: Node) -> None:
    one, other, hooked = Hookless(node), Hookless(node), Told(node)
    assert one.does("take 600 loading") == "in"
    hooked.says("take")
    waits(node, hooked, 1)
    view = lock(node, hooked.pid)
    assert view is not None
    assert view.reason == "loading"
    other.says("aio")
    waits(node, other, 2)
    asked_back(node, one)
    assert one.does("take") == "in", "nested"
    assert [one.does("drop"), one.does("drop")] == ["out", "out"]
    assert hooked.hears() == "in"
    assert not other.is_heard()
    assert hooked.does("drop") == "out"
    assert other.hears() == "in worked"
    assert one.does("decorated") == "worked"
    assert one.does("threads") == "in in"
    assert one.does("drop") == "out"
    assert other.does("take 0.05").startswith("TurnTimeout")
    assert one.does("drop") == "out"
    assert one.does("release").startswith("NotHeld")
    assert other.does("take") == "in"


def test_it_says_once_what_is_not_done_for_it_and_so_do_the_commands(node: Node) -> None:
    one = Hookless(node)
    assert one.does("warns") == "nothing"
    assert [one.does("take"), one.does("take")] == ["in", "in"]
    warned = one.does("warns")
    assert warned.startswith("NoHookWarning: this program was not started under gpud")
    assert warned.count("NoHookWarning") == 1
    with node.client() as client:
        (job,) = client.ps()
        assert (job.notes, job.pids) == ((WITHOUT_HOOK,), (one.pid,))
        assert not client.unmanaged()
    for verb in (("ps",), ("why", str(job.id))):
        shown = subprocess.run(
            [sys.executable, "-m", "gpud.cli.main", *verb],
            env=node.environment | {"COLUMNS": "400"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert WITHOUT_HOOK in shown


def test_one_that_is_late_keeps_the_device_and_nobody_else_gets_in(strict: Node) -> None:
    one, other = Hookless(strict), Told(strict)
    assert one.does("take") == "in"
    other.says("take")
    until(lambda: states(strict) == ["overruns", "waits"], 60, "it is late")
    view, waiting = lock(strict, one.pid), lock(strict, other.pid)
    assert view is not None
    assert waiting is not None
    assert "it has not released its turn; it runs without hook, so that its launches go on" in view.text
    assert "it runs without hook" in waiting.text
    assert one.does("take 0") == "in", "a nested turn is part of the one that is late"
    assert one.does("drop") == "out"
    assert not other.is_heard()
    until(lambda: "its launches cannot be held" in one.complains(), 60, "it is told")
    assert one.does("drop") == "out"
    assert other.hears() == "in"
    assert other.does("drop") == "out"
    assert one.does("take") == "in"


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
def test_one_that_is_killed_frees_the_device(tmp_path: Path, late: bool) -> None:
    with begun(tmp_path, SHORT if late else PATIENT) as node:
        one, other = Hookless(node), Hookless(node)
        assert one.does("take") == "in"
        other.says("take")
        until(lambda: ("overruns" if late else "leaves") in states(node), 60, "it is asked back")
        os.kill(one.pid, signal.SIGKILL)
        assert other.hears() == "in"


def test_a_forked_child_has_nothing_of_it(node: Node) -> None:
    one, other = Hookless(node), Told(node)
    assert one.does("take") == "in"
    assert one.does("fork") == "0", one.complains()
    other.says("take")
    waits(node, other, 1)
    assert one.does("drop") == "out"
    assert other.hears() == "in"


def test_a_restart_of_the_daemon_changes_neither_who_has_the_device_nor_who_waits(node: Node) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("take") == "in"
    other.says("take")
    waits(node, other, 1)
    dies(node)
    assert one.does("take") == "in", "nested, without a daemon"
    node.start()
    until(lambda: states(node) in (["has", "waits"], ["leaves", "waits"]), 60, "both are back")
    until(lambda: notes(node) == [(WITHOUT_HOOK,)] * 2, 60, "both say again what they are")
    assert not other.is_heard()
    assert [one.does("drop"), one.does("drop")] == ["out", "out"]
    assert other.hears() == "in"
    left(node, one)


def test_released_while_the_daemon_is_gone(node: Node) -> None:
    one, other = Hookless(node), Hookless(node)
    assert one.does("take") == "in"
    other.says("take")
    waits(node, other, 1)
    dies(node)
    assert one.does("drop") == "out"
    node.start()
    assert other.hears() == "in"


def test_without_a_daemon(node: Node) -> None:
    one = Hookless(node)
    dies(node)
    assert one.does("take").startswith("NoDaemon no gpud daemon answers: start one with `gpud serve`")
    assert one.does("warns") == "nothing"
    node.start()

    def comes() -> bool:
        return one.does("take 5") == "in"

    until(comes, 60, "it finds the daemon that is there now")


def test_without_a_daemon_it_may_be_optional(tmp_path: Path) -> None:
    node = begun(tmp_path, PATIENT)
    node.environment["GPUD_OPTIONAL"] = "1"
    with node:
        one = Hookless(node)
        dies(node)
        assert [one.does("take"), one.does("drop"), one.does("warns")] == ["alone", "out", "nothing"]


@pytest.mark.parametrize("optional", ["0", "1"])
def test_without_the_library_it_says_what_to_do(tmp_path: Path, optional: str) -> None:
    node = begun(tmp_path, PATIENT)
    with node:
        node.environment |= {"GPUD_NATIVE_DIR": str(tmp_path), "GPUD_OPTIONAL": optional}
        said = Hookless(node).does("take")
        expected = "alone" if optional == "1" else "NoHook the program was not started under gpud, and gpud's library"
        assert said.startswith(expected)


@pytest.mark.parametrize("visible", [None, "1,0", "uuid", "driver"])
def test_several_devices_and_how_they_are_named(tmp_path: Path, visible: str | None) -> None:
    with begun(tmp_path, PATIENT, devices=2) as node:
        with node.client() as client:
            uuids = [device.uuid for device in client.status().devices]
        if visible not in (None, "driver"):
            node.environment["CUDA_VISIBLE_DEVICES"] = ",".join(reversed(uuids)) if visible == "uuid" else "1,0"
        one, other = Hookless(node), Hookless(node)
        if visible == "driver":
            assert one.does("begin") == "begun"
        assert one.does("both 0,1") == "in"
        assert other.does("both 1 0.05").startswith("TurnTimeout device 1")
        assert one.does("both 2 1").startswith("TurnError device 2 does not exist")
        until(lambda: not waiters(node), 60, "the daemon has heard that nobody waits any more")
        assert one.does("drop") == "out"
        assert other.does("both 0") == "in"
        with node.client() as client:
            (job,) = [job for job in client.ps() if job.pids == (other.pid,)]
        turns = {view.device: view.state for view in job.lock}
        assert turns == ({0: "has", 1: "none"} if visible in (None, "driver") else {1: "has", 0: "none"})
