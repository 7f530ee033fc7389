"""What programs do with memory that moves: graphs, threads, children, resets; what others find of it; and a daemon that
ends at any of these times. Programs know all bytes of their memory (programs/moved.c, large.c).
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.testing.node import until
from tests.e2e.conftest import PROGRAMS, compiled
from tests.e2e.test_swap import MIB, WITHIN, Large, Turns

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def moved(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of programs/moved.c; append MIB, SEED."""
    binary = compiled(tmp_path_factory, "moved", libraries=("-ldl", "-lpthread"))
    return [str(binary), str(PROGRAMS / "counter.ptx"), "add_amount"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Turns]:
    with Turns(tmp_path) as node:
        yield node


@pytest.fixture
def two(node: Turns, moved: list[str]) -> tuple[Large, Large]:
    """Two programs that do not fit together; the first one's memory is out, the second one has the device."""
    return out_and_in(node, moved, 160)


def out_and_in(node: Turns, command: list[str], mib: int) -> tuple[Large, Large]:
    """Likewise, of any programs."""
    one = Large(node, command, "one", mib)
    one.filled()
    other = Large(node, command, "two", mib)
    other.filled()
    is_out(node, "one")
    return one, other


def is_out(node: Turns, name: str) -> None:
    until(lambda: node.memory(name).host > 0, WITHIN, f"some of {name} is out")


def killed(node: Turns) -> None:
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()


def test_a_graph_captured_before_a_swap_is_launched_after_it(node: Turns, two: tuple[Large, Large]) -> None:
    one, other = two
    one.do("g")
    other.do("r")
    other.do("g")
    for _ in range(2):
        is_out(node, "one")
        one.do("l 3")
        is_out(node, "two")
        other.do("l 2")
        one.do("c")
        other.do("c")


def test_two_threads_of_one_program_go_on_while_its_memory_comes_and_goes(two: tuple[Large, Large]) -> None:
    one, other = two
    one.ask("t 12")
    other.ask("t 12")
    for program in two:
        assert program.answered()[-1] == "ok"
        program.do("c")


def test_a_child_of_a_program_whose_memory_is_out_changes_nothing(node: Turns, two: tuple[Large, Large]) -> None:
    one, other = two
    for what in "ke":
        is_out(node, "one")
        out = node.memory("one").host
        one.do(what)
        assert node.memory("one").host == out
        other.do(what)
        one.do("c")
        other.do("c")
    one.do("r")
    one.do("c")


def test_a_context_is_reset_in_mid_turn_and_while_its_memory_is_out(node: Turns, two: tuple[Large, Large]) -> None:
    one, other = two
    other.do("n")
    other.do("x")
    other.do("r")
    other.do("c")
    is_out(node, "one")
    one.do("x")
    for program in (one, other, one):
        program.do("r")
        program.do("c")


def test_nobody_finds_bytes_of_another_one(node: Turns, two: tuple[Large, Large], moved: list[str]) -> None:
    one, other = two
    seeds = {name: sum(name.encode()) for name in ("one", "two")}
    one.do("c")
    other.do("c")
    other.ask(f"s {seeds['two']}")
    saw, _ = looks(other)
    assert saw > MIB, "it finds its own: it can look"
    one.ends()
    third = Large(node, moved, "three", 160)
    third.filled()
    is_out(node, "two")
    third.do("c")
    other.do("c")
    is_out(node, "three")
    for seed in seeds.values():
        third.ask(f"s {seed}")
        saw, looked = looks(third)
        assert saw == 0
        assert looked > 0, "it has host slots"
    other.ask(f"s {seeds['one']}")
    assert looks(other)[0] == 0


def looks(program: Large) -> tuple[int, int]:
    """How many words it has found, and how many bytes of host slots it has looked at."""
    _, saw, _, looked = program.answered()[-1].split()
    return int(saw), int(looked)


@pytest.mark.parametrize("when", ["waits", "has", "leaves", "comes in"])
def test_a_daemon_that_is_killed_at_any_time_costs_nobody_a_byte(tmp_path: Path, large: list[str], when: str) -> None:
    with Turns(tmp_path, gbs="0.2" if when in ("leaves", "comes in") else "20", host="500MiB") as node:
        one, two = out_and_in(node, large, 200)
        holder = node.pid("two")
        if when == "has":
            two.do("r")
        else:
            if when == "waits":
                os.kill(holder, signal.SIGSTOP)  # it has the device, and does not give it back
            one.ask("c")
            until(lambda: is_at(node, when), WITHIN, f"it {when}", step=0.001)
        killed(node)
        os.kill(holder, signal.SIGCONT)
        two.ask("r")
        node.start()
        for program in (one, two):
            if program.told:
                assert program.answered()[-1] == "ok"
            for what in "rc":
                program.do(what)


def is_at(node: Turns, when: str) -> bool:
    one = node.job("one")
    if one is None or not one.lock:
        return False
    if when == "leaves":
        return node.moves("two", "one")
    return one.lock[0].state == when


def test_a_daemon_that_stops_for_a_while_and_is_then_killed(node: Turns, large: list[str]) -> None:
    one, two = out_and_in(node, large, 150)
    assert node.daemon is not None
    os.kill(node.daemon.pid, signal.SIGSTOP)
    one.ask("c")
    two.ask("c")
    killed(node)
    node.start()
    for program in (one, two):
        assert program.answered()[-1] == "ok"
        program.do("r")
        program.do("c")


def test_programs_end_while_the_daemon_is_gone_and_their_memory_is_free_when_it_is_back(
    node: Turns, large: list[str]
) -> None:
    before = node.used()
    one, two = out_and_in(node, large, 150)
    pid = node.pid("two")
    killed(node)
    os.kill(pid, signal.SIGKILL)
    two.process.wait(WITHIN)
    node.start()
    one.do("c")
    again = Large(node, large, "again", 150)
    again.filled()
    one.do("c")
    again.do("c")
    for program in (one, again):
        program.ends()
    until(lambda: node.used() <= before, WITHIN, "all of the device's memory is free again")
    assert node.host_files() == 0
