"""What the hooks and the daemon count is what the simulated driver has given, after any sequence of allocations and
frees, calls that fail, and kills."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpud.testing.node import Node, until

from .allocators import CONTEXT, MIB, UNIT, Process, job, limited, memory, truth

pytestmark = pytest.mark.e2e

KINDS = ("linear", "managed", "pitched", "ordered", "pooled", "handle", "mapped", "array", "cube", "mipmap")
LIMIT = 96 * MIB
SEES_S = 30.0
FAULTS = (
    "cuMemAlloc,cuMemAllocPitch,cuMemAllocManaged,cuMemAllocAsync,cuMemAllocFromPoolAsync,cuMemCreate,cuMemMap,cuMemUnmap,"
    "cuMemRelease,cuMemFree,cuMemFreeAsync,cuArrayCreate,cuArray3DCreate,cuArrayDestroy,cuMipmappedArrayCreate,"
    "cuMipmappedArrayDestroy,cuMemPoolCreate,cuMemPoolTrimTo"
)
OPS = ("alloc", "alloc", "alloc", "alloc", "free", "free", "trim")
who = st.integers(0, 1)
steps = st.lists(
    st.tuples(st.sampled_from(OPS), who, st.sampled_from(KINDS), st.integers(1, 4), st.integers(0, 1000)),
    min_size=24,
    max_size=48,
)
kills = st.one_of(st.none(), st.tuples(st.integers(0, 40), who))
"""Before which step, and whom."""
CHECK_EVERY = 6
faults = st.one_of(
    st.just(""), st.builds(lambda seed: f"{FAULTS}: fail OUT_OF_MEMORY random 0.2 seed {seed}", st.integers(1, 999))
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    policies = limited(tmp_path_factory.mktemp("truth") / "p", "96MiB")
    with Node(profile="test-small", policy="memory", policies=policies) as one:
        yield one


class Run:
    """One job of two processes, and what each of them believes to have."""

    def __init__(self, node: Node, name: str, processes: list[Process]) -> None:
        self.node, self.name = node, name
        self.alive = dict(enumerate(processes))
        self.held: dict[int, list[int]] = {0: [], 1: []}

    def step(self, op: str, which: int, kind: str, units: int, pick: int) -> None:
        process = self.alive.get(which)
        if process is None:
            return
        held = self.held[which]
        if op == "alloc":
            result, number = process.ask("alloc", kind, units)
            if not result:
                held.append(number)
        elif op == "free" and held:
            number = held.pop(pick % len(held))
            if process.ask("free", number)[0]:
                held.append(number)
        elif op == "trim":
            process.ask("trim")

    def kill(self, which: int) -> None:
        self.alive.pop(which).kill()

    def given(self) -> int:
        """By the driver, without contexts. A killed process's memory may still be on its way back."""
        pids = {process.pid for process in self.alive.values()}
        seen = until(lambda: self._truth(pids), SEES_S, "what the killed ones had is the driver's again")
        return sum(seen[pid] for pid in pids) - CONTEXT * len(pids)

    def _truth(self, pids: set[int]) -> dict[int, int] | None:
        seen = truth(next(iter(self.alive.values())))
        return seen if set(seen) == pids else None

    def check(self) -> None:
        # A pool may have given memory to the driver since it was looked at last: never is less counted than is held.
        given = self.given()
        assert memory(self.node, self.name).reserved >= given
        for process in self.alive.values():
            self._look(process)
        given = self.given()
        assert given + CONTEXT * len(self.alive) <= LIMIT + 2 * CONTEXT  # the contexts' first moments
        until(
            lambda: memory(self.node, self.name).reserved == given, SEES_S, f"the daemon counts {given // UNIT} units"
        )
        # Of a job at rest, the hook's own answer: all that is not left is held, or the driver's own.
        left, total = next(iter(self.alive.values())).ask("info")[1:3]
        beside = LIMIT - left - given
        assert total == LIMIT
        assert left == 0 or 0 <= beside <= 2 * CONTEXT, f"{left} of {LIMIT} left, {given} held"

    def _look(self, process: Process) -> None:
        until(lambda: process.ask("trim") == [0], SEES_S, "its pools are looked at")


names = (str(number) for number in itertools.count(1))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sequence=steps, failing=faults, kill=kills)
def test_what_is_counted_is_what_the_driver_has_given(
    node: Node, sequence: list[Any], failing: str, kill: tuple[int, int] | None
) -> None:
    name = next(names)
    with job(node, 2, labels={"n": name}, faults=failing) as processes:
        run = Run(node, name, processes)
        for number, step in enumerate(sequence):
            if kill is not None and kill[0] == number:
                run.kill(kill[1])
            run.step(*step)
            if number % CHECK_EVERY == 0 or number == len(sequence) - 1:
                run.check()
    until(lambda: not _is_there(node, name), SEES_S, "the job is gone")


def _is_there(node: Node, name: str) -> bool:
    with node.client() as client:
        return any(job.labels.get("n") == name for job in client.ps())
