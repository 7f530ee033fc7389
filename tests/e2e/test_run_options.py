"""Every option of `gpud run` does what it says, with a real daemon, a real hook and the simulated driver."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpud.model.views import JobView
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e
PATIENCE_S = 60
MIB = 1 << 20
PROGRAM = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
count, context, seen = ctypes.c_int(), ctypes.c_void_p(), []
assert call("cuInit", 0) == 0
call("cuDeviceGetCount", ctypes.byref(count))
for index in range(count.value):
    uuid = (ctypes.c_ubyte * 16)()
    call("cuDeviceGetUuid_v2", uuid, index)
    seen.append(bytes(uuid).hex())
call("cuCtxCreate_v2", ctypes.byref(context), 0, 0)
results = []
for mib in map(int, sys.argv[1:]):
    memory = ctypes.c_uint64()
    results.append(call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20)))
print(json.dumps({"devices": seen, "allocations": results}), flush=True)
sys.stdin.read()
"""
OUT_OF_MEMORY = 2
QUOTAS = """gpol 1
policy "quotas" {
  class all { match any  limit { memory = 96MiB  compute = 50% } }
  arbitrate open {}
}
apply "quotas" to gpu *
"""
LINE = """gpol 1
policy "line" {
  class all { match any  limit { tenants = 1 } }
  arbitrate open {}
  admit { when_full = queue(max = 300s) }
}
apply "line" to gpu *
"""


class Program:
    """A job that stays until `end`."""

    def __init__(self, node: Node, options: Sequence[str], allocations: Sequence[int] = ()) -> None:
        command = [sys.executable, "-c", PROGRAM, *map(str, allocations)]
        self._process = node.run(command, options=options, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def said(self) -> dict[str, list[str]]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"ended": [self.ended()[1]]}

    def ended(self) -> tuple[int, str]:
        _, said = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, said


def the_job(node: Node, name: str = "job") -> JobView:
    with node.client() as client:
        (found,) = [one for one in client.ps() if one.name == name]
    return found


def node_of(directory: Path, text: str, devices: int = 1) -> Node:
    (directory / "p.gpol").write_text(text)
    environment = {"GPUD_SIM_DEVICES": str(devices)}
    return Node(profile="test-small", policies=directory, policy=None, environment=environment)


@pytest.fixture
def two() -> Iterator[Node]:
    with Node(profile="test-small", environment={"GPUD_SIM_DEVICES": "2"}) as node:
        yield node


def uuids(node: Node) -> list[str]:
    with node.client() as client:
        devices = sorted(client.status().devices, key=lambda one: one.slot or 0)
    return [one.uuid.removeprefix("GPU-").replace("-", "") for one in devices]


def test_class_label_and_name(two: Node) -> None:
    Program(two, ["--class", "high", "--name", "job", "--label", "team=blue"]).said()
    job = the_job(two)
    assert (job.job_class, job.pinned, job.labels) == ("high", True, {"team": "blue"})
    assert Program(two, ["--class", "gold"]).ended()[0] == 77


def test_mem_is_a_limit(two: Node) -> None:
    """On each device; beside a limit of the policy see below."""
    assert Program(two, ["--mem", "64MiB", "--name", "job"], [40, 40, 10]).said()["allocations"] == [
        0,
        OUT_OF_MEMORY,
        0,
    ]
    memory = the_job(two).memory[0]
    assert memory.limit == 64 * MIB
    assert memory.place.startswith("set by ")


def test_compute_is_a_limit(tmp_path: Path) -> None:
    with node_of(tmp_path, QUOTAS) as node:
        Program(node, ["--compute", "12.5%", "--name", "job"]).said()
        Program(node, ["--compute", "80%", "--name", "loose"]).said()
        assert the_job(node).time[0].limit == 0.125
        assert the_job(node, "loose").time[0].limit == 0.5


def test_of_request_and_policy_the_tighter_holds(tmp_path: Path) -> None:
    with node_of(tmp_path, QUOTAS) as node:
        Program(node, ["--mem", "512MiB", "--name", "loose"]).said()
        Program(node, ["--mem", "32MiB", "--name", "tight"]).said()
        loose, tight = the_job(node, "loose").memory[0], the_job(node, "tight").memory[0]
    assert (loose.limit, loose.place.rpartition("/")[2]) == (96 * MIB, "p.gpol:3")
    assert (tight.limit, tight.place[:7]) == (32 * MIB, "set by ")


def test_what_was_asked_for_is_taken_back_by_auto(two: Node) -> None:
    Program(two, ["--mem", "64MiB", "--name", "job"]).said()
    command = [sys.executable, "-m", "gpud.cli.main", "set", "job", "mem=auto"]
    done = subprocess.run(command, env=two.environment, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "no limit of memory on gpu 0" in done.stdout
    assert the_job(two).memory[0].limit is None


@pytest.mark.parametrize("number", [0, 1])
def test_gpu_by_number_and_by_uuid(two: Node, number: int) -> None:
    known = uuids(two)
    assert Program(two, ["--gpu", str(number)]).said()["devices"] == [known[number]]
    with two.client() as client:
        named = next(one.uuid for one in client.status().devices if one.slot == number)
    assert Program(two, ["--gpu", named]).said()["devices"] == [known[number]]
    assert Program(two, ["--gpu", named[:12]]).said()["devices"] == [known[number]]


def test_a_gpu_that_is_not_there(two: Node) -> None:
    code, said = Program(two, ["--gpu", "5"]).ended()
    assert code == 77
    assert "--gpu '5' names no device; there are 0 (GPU-" in said


def test_gpus_are_those_with_the_fewest_jobs(two: Node) -> None:
    known = uuids(two)
    first = Program(two, ["--gpus", "1"]).said()["devices"]
    second = Program(two, ["--gpus", "1"]).said()["devices"]
    assert (first, second) == ([known[0]], [known[1]])
    assert Program(two, ["--gpus", "2"]).said()["devices"] == known
    code, said = Program(two, ["--gpus", "3"]).ended()
    assert code == 77
    assert "this node has 2 devices, 3 were asked for (--gpus)" in said


def test_gpus_are_those_that_let_it_in(tmp_path: Path) -> None:
    """The first device is full and the second is not; when both are, it waits for whichever is free first."""
    with node_of(tmp_path, LINE, devices=2) as node:
        known = uuids(node)
        Program(node, ["--gpu", "0", "--name", "zero"]).said()
        one = Program(node, ["--gpus", "1", "--name", "one"])
        assert one.said()["devices"] == [known[1]]
        waits = Program(node, ["--gpus", "1", "--name", "waits"])
        until(lambda: _state(node, "waits") == "queued", PATIENCE_S, "it waits in line")
        one.ended()
        assert waits.said()["devices"] == [known[1]]


def _state(node: Node, name: str) -> str:
    with node.client() as client:
        return next((one.state for one in client.ps() if one.name == name), "")


def test_timeout_ends_the_wait_in_line(tmp_path: Path) -> None:
    with node_of(tmp_path, LINE) as node:
        Program(node, []).said()
        code, said = Program(node, ["--timeout", "200ms"]).ended()
        assert code == 124
        assert "the job was not let in within 0.2 s" in said
        assert [one for one in _names(node) if one == "queued"] == []


def _names(node: Node) -> list[str]:
    with node.client() as client:
        return [one.state for one in client.ps()]


def test_sim_with_a_daemon_for_real_devices() -> None:
    with Node(policy=None) as node:
        assert len(Program(node, ["--sim", "--name", "job"]).said()["devices"]) == 1
        assert the_job(node).pids
