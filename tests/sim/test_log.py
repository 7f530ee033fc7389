"""The device log of a real simulated node says what ran, for whom, and in which order."""

import itertools
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from gpud.cli.sim.devicelog import DeviceLog, read_log
from gpud.cli.sim.summary import on_device
from gpud.native import sim_dir

PROGRAM = """
import ctypes, sys
cuda, ctx, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
size, rounds = ctypes.c_size_t(1 << 20), int(sys.argv[1])
def ok(result): assert result == 0, result
ok(cuda.cuInit(0))
ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
ok(cuda.cuCtxSetCurrent(ctx))
ok(cuda.cuMemAlloc_v2(ctypes.byref(address), size))
host = ctypes.create_string_buffer(1 << 20)
for i in range(rounds):
    ok(cuda.cuMemcpyHtoD_v2(address, host, size))
    ok(cuda.cuMemsetD8_v2(address, i % 256, size))
    ok(cuda.cuMemcpyDtoH_v2(host, address, size))
    assert host.raw == bytes([i % 256]) * (1 << 20)
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[DeviceLog, list[int]]]:
    """Runs the program several times on one node, and reads the node's log; the pids of the programs."""
    library = next((d for d in (sim_dir(), sim_dir() / "cuda") if (d / "libcuda.so.1").exists()), None)
    if library is None:
        pytest.skip(f"there is no simulated libcuda.so.1 in {sim_dir()}")

    def start(rounds: int, programs: int, **environment: str) -> tuple[DeviceLog, list[int]]:
        log = tmp_path / "device.jsonl"
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUD_SIM_", "CUDA_"))}
        own = {"GPUD_SIM_NODE": f"log-{uuid.uuid4().hex[:8]}", "GPUD_SIM_LOG": str(log)}
        command = [sys.executable, "-c", PROGRAM, str(rounds)]
        variables = clean | own | {"LD_LIBRARY_PATH": str(library)} | environment
        started = [
            subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(programs)
        ]
        for process in started:  # all stay until all are done, so that the node lives
            assert process.stdout
            assert process.stdout.readline() in ("done\n", "")
        for process in started:
            process.communicate()
        deadline = time.monotonic() + 20
        while not (found := read_log(log)).complete:
            assert time.monotonic() < deadline, "the device process does not end"
            time.sleep(0.05)
        return found, [process.pid for process in started]

    return start


def test_all_work_is_there(run: Callable[..., tuple[DeviceLog, list[int]]]) -> None:
    log, pids = run(20, 2)
    assert {client.pid for client in log.clients if client.what == "attached"} == set(pids)
    for pid in pids:
        own = [copy for copy in log.copies if copy.pid == pid]
        assert sum(copy.direction == "h2d" for copy in own) == 20
        assert sum(copy.direction == "d2h" for copy in own) == 20
        assert all(copy.size == 1 << 20 for copy in own)
        assert sum(memset.pid == pid for memset in log.memsets) == 20
        # One stream: each waits for the one before it.
        in_order = sorted((one for one in log.work if one.pid == pid), key=lambda one: one.start_ns)
        assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(in_order))
    assert log.counters[0].copies == 80


def test_contexts_take_turns(run: Callable[..., tuple[DeviceLog, list[int]]]) -> None:
    log, _ = run(30, 3)
    spans = sorted((a, b, one.context) for one in on_device(log.work) for a, b in one.pieces)
    for (_, end, one), (begin, _, other) in itertools.pairwise(spans):
        assert begin >= end or one == other, "two contexts had the device at once"
    assert len(log.switches) == log.counters[0].switches
    assert sum(s.end_ns - s.start_ns for s in log.switches) == log.counters[0].switch_ns
    for switch in log.switches:
        assert not any(a < switch.end_ns and switch.start_ns < b for a, b, _ in spans), "something ran during a switch"


def test_faults_are_in_the_log(run: Callable[..., tuple[DeviceLog, list[int]]]) -> None:
    log, pids = run(1, 2, GPUD_SIM_FAULTS="all cuMemsetD8: fail LAUNCH_FAILED at 2; all cuMemcpyHtoD: stall 10ms at 1")
    assert sorted((fault.call, fault.what) for fault in log.faults) == [
        ("cuMemcpyHtoD_v2", "stall"),
        ("cuMemsetD8_v2", "fail ERROR_LAUNCH_FAILED"),
    ]
    assert {fault.pid for fault in log.faults} <= set(pids)
    assert len(log.memsets) == 1


def test_a_lost_device_is_in_the_log(run: Callable[..., tuple[DeviceLog, list[int]]]) -> None:
    log, (pid,) = run(5, 1, GPUD_SIM_FAULTS="cuMemcpyDtoH: lose at 3")
    assert [(lost.device, lost.pid) for lost in log.lost] == [(0, pid)]
    assert len(log.memsets) <= 3
