"""The load generator on a simulated node, told by the device log."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench import device_log as truth
from bench.simulated import FULL, Load, load_program, rig, together
from gpud.cli.sim.devicelog import DeviceLog
from gpud.testing.measured import Bounds, measured

KERNELS: Mapping[str, float | str] = {"a": 1.0, "b": 0.25, "varied": "0.1 0.5"}


@pytest.fixture(scope="module")
def binary() -> Iterator[Path]:
    with load_program() as compiled:
        yield compiled


def kernels(log: DeviceLog, load: Load) -> list[str]:
    return [kernel.name for kernel in sorted(log.kernels, key=lambda one: one.start_ns) if kernel.pid == load.pid]


def test_rounds_are_what_was_asked_for(binary: Path) -> None:
    with rig(KERNELS, binary=binary, policy=None, scale=0.5) as node:
        plain = node.load(kernels=f"a:{FULL}:2,b:{FULL}:1", warm=2)
        graph = node.load(kernels=f"b:{FULL}:3", graph=1, depth=2)
        streams = node.load(kernels=f"b:{FULL // 4}:4", streams=4)
        for load in (plain, graph, streams):
            load.begin("go 5")
            assert load.done().rounds == 5
        log = node.log()
    assert kernels(log, plain) == ["a", "a", "b"] * 7
    assert kernels(log, graph) == ["b"] * 18
    assert kernels(log, streams) == ["b"] * 24
    assert len({kernel.queue for kernel in log.kernels if kernel.pid == streams.pid}) == 4
    assert len({kernel.queue for kernel in log.kernels if kernel.pid == plain.pid}) == 1


def test_work_goes_on_for_as_long_as_was_asked_for(binary: Path) -> None:
    measured(lambda bounds: _as_long(binary, bounds))


def _as_long(binary: Path, bounds: Bounds) -> None:
    with rig(KERNELS, binary=binary, policy=None, switch_ms=0.0) as node:
        one = node.load(kernels=f"a:{FULL}:1", depth=4)
        two = node.load(kernels=f"varied:{FULL}:4", depth=4)
        at = together([one, two], 0.5)
        said = [load.done() for load in (one, two)]
        log = node.log()
    assert all(done.begin_ns == at and done.end_ns >= at + 0.5e9 for done in said)
    times = {str(load.pid): truth.intervals(truth.work_of(log, [load.pid])) for load in (one, two)}
    first = log.model_ns(at)
    had = [truth.within(spans, first, first + 500_000_000) for spans in times.values()]
    for one in had:
        bounds.near(one / 1e6, 250, 150, "ms of 500: back to back, in turns")
    varied = {kernel.run_ns for kernel in log.kernels if kernel.name == "varied" and not kernel.overrun_ns}
    assert {round(ns / 1e5) for ns in varied} == {1, 5}, "each launch takes one of its durations"


def test_requests_arrive_at_the_same_times_again(binary: Path) -> None:
    with rig(KERNELS, binary=binary, policy=None) as node:
        load = node.load(kernels=f"a:{FULL}:2", rate="50@0,100@0.2", poisson=3)
        said = []
        for _ in range(2):
            load.begin("for 0.4")
            said.append(load.done())
        log = node.log()
    first, second = ([round((r.arrival_ns - one.begin_ns) / 1e3) for r in one.requests] for one in said)
    assert first == second
    assert 10 < len(first) < 60
    latencies = truth.latencies_ms(log, load.pid, said[0].requests, 2)
    assert all(ms >= 2 for ms in latencies)
    assert min(latencies) < 20, "some request had the device to itself"


def test_even_arrivals(binary: Path) -> None:
    with rig(KERNELS, binary=binary, policy=None) as node:
        load = node.load(kernels=f"b:{FULL}:1", rate="100@0,20@0.2", nowait=1)
        load.begin("for 0.4")
        assert load.done().rounds == 19 + 4, "at 10, 20, … 200 ms, then each 50 ms"
        node.log()


@pytest.mark.parametrize(
    "options", [{"kernels": "a:216"}, {"kernels": "a:216:1", "depth": 0}, {"kernels": "a:216:1", "colour": 1}]
)
def test_nonsense_is_refused(binary: Path, options: dict[str, object]) -> None:
    with rig(KERNELS, binary=binary, policy=None) as node, pytest.raises(RuntimeError, match="load ended"):
        node.load(None, **options)
