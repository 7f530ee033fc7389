"""A job's memory limit, on real programs over the simulated driver: contexts count, queries answer from it, it can be
lowered under a running job, and its processes never exceed it together."""

from pathlib import Path

import pytest

from gpud.testing.node import Node, until

from .allocators import CONTEXT, MIB, OUT_OF_MEMORY, UNIT, job, limited, memory, peak, truth

pytestmark = pytest.mark.e2e

ROUNDS = 300
SEES_S = 30.0


def node_with(directory: Path, limit: str) -> Node:
    return Node(profile="test-small", policy="memory", policies=limited(directory / "p", limit))


def overhead(node: Node, count: int) -> bool:
    """Has the daemon told the hooks that so many contexts count?"""
    return memory(node).overhead == count * CONTEXT


def test_contexts_count_and_queries_answer_from_the_limit(tmp_path: Path) -> None:
    with node_with(tmp_path, "64MiB") as node, job(node) as (one,):
        until(lambda: overhead(node, 1), SEES_S, "the context is measured")
        assert one.ask("info") == [0, 64 * MIB - CONTEXT, 64 * MIB, 64 * MIB]
        assert one.ask("fill", "linear") == [OUT_OF_MEMORY, (64 * MIB - CONTEXT) // UNIT]
        assert truth(one) == {one.pid: 64 * MIB}
        assert one.ask("nvml") == [0, *[64 * MIB, 0, 64 * MIB] * 2]
        assert one.ask("info") == [0, 0, 64 * MIB, 64 * MIB]
        assert set(one.ask("leave")) == {0}
        assert one.ask("info")[1] == 64 * MIB - CONTEXT


def test_unlimited_jobs_see_the_device(tmp_path: Path) -> None:
    with node_with(tmp_path, "unlimited") as node, job(node) as (one,):
        assert one.ask("alloc", "linear", 4)[0] == 0
        assert memory(node).reserved == 4 * UNIT
        assert memory(node).limit is None
        result, total, *_ = one.ask("nvml")
        assert (result, total) == (0, 1024 * MIB)
        assert one.ask("info") == [0, (1024 - 16 - 8 - 8) * MIB, 1024 * MIB, 1024 * MIB]


def test_lowered_below_what_is_used(tmp_path: Path) -> None:
    with node_with(tmp_path, "64MiB") as node, job(node) as (one,):
        until(lambda: overhead(node, 1), SEES_S, "the context is measured")
        numbers = [one.ask("alloc", "linear", 1)[1] for _ in range(20)]
        limited(tmp_path / "p", "32MiB")
        with node.client() as client:
            client.reload()
        assert memory(node).limit == 32 * MIB
        assert memory(node).over
        assert one.ask("info") == [0, 0, 32 * MIB, 32 * MIB]
        assert one.ask("alloc", "linear", 1) == [OUT_OF_MEMORY, 0]
        assert truth(one) == {one.pid: 20 * UNIT + CONTEXT}, "nothing is taken away"
        for number in numbers[:9]:
            assert one.ask("free", number) == [0]
        assert one.ask("info")[1] == 2 * MIB
        assert not memory(node).over
        assert one.ask("fill", "linear") == [OUT_OF_MEMORY, 1]


def test_two_processes_of_a_job_never_exceed_its_limit_together(tmp_path: Path) -> None:
    node = node_with(tmp_path, "96MiB")
    try:
        node.start()
        with job(node, 2) as both:
            until(lambda: overhead(node, 2), SEES_S, "the contexts are measured")
            for one in both:
                one.say("fight", ROUNDS)
            for one in both:
                result, refused = one.hear()
                assert result == 0
                assert refused > 0
            assert truth(both[0]) == {one.pid: CONTEXT for one in both}
            assert memory(node).reserved == 0
        node.stop()
        until(lambda: '"type":"end"' in node.device_log.read_text(), SEES_S, "the device log is whole")
        # Less than one allocation of each is left unused when they are refused.
        assert (96 - 2 * 3 * 2) * MIB <= peak(node.device_log) <= 96 * MIB
    finally:
        node.close()


def test_what_a_killed_process_had_is_free(tmp_path: Path) -> None:
    with node_with(tmp_path, "96MiB") as node, job(node, 2) as (one, other):
        until(lambda: overhead(node, 2), SEES_S, "the contexts are measured")
        assert one.ask("fill", "handle") == [OUT_OF_MEMORY, (96 * MIB - 2 * CONTEXT) // UNIT]
        assert other.ask("alloc", "linear", 1) == [OUT_OF_MEMORY, 0]
        one.kill()
        until(lambda: memory(node).reserved == 0, SEES_S, "what it had is given back")
        until(lambda: overhead(node, 1), SEES_S, "and its context")
        assert other.ask("fill", "linear") == [OUT_OF_MEMORY, (96 * MIB - CONTEXT) // UNIT]
