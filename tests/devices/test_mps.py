"""MPS is seen: by the driver's lists, and by the server's process and pipe."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from gpud.devices import inventory, mps, nvml
from gpud.devices.mps import is_offered, is_server, pipe_directory
from gpud.devices.nvml import ask_nvml
from gpud.engine.why import why
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.text import TURNS_UNDER_MPS, UNDER_MPS
from tests.devices.test_nvml import ANSWER, USAGE, FakeNvml
from tests.devices.test_nvml import fake as fake
from tests.engine.conftest import UUID, World, board, only, preempt_mix
from tests.engine.test_lock import TURNS, Turns


@pytest.fixture
def server(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of the server's name."""
    binary = tmp_path / "nvidia-cuda-mps-server"
    shutil.copy(shutil.which("cat") or "/bin/cat", binary)
    with subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        yield process
        process.communicate()


def test_a_server_is_known_by_its_name(server: "subprocess.Popen[bytes]") -> None:
    assert is_server(server.pid)
    assert not is_server(os.getpid())
    server.communicate()
    assert not is_server(server.pid)


def test_where_programs_would_find_it(tmp_path: Path, server: "subprocess.Popen[bytes]") -> None:
    environment = {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert pipe_directory(environment) == tmp_path
    assert pipe_directory({}) == Path("/tmp/nvidia-mps") == pipe_directory({"CUDA_MPS_PIPE_DIRECTORY": ""})
    assert not is_offered(environment), "there is no pipe"
    os.mkfifo(tmp_path / "control")
    assert is_offered(environment)


def test_a_pipe_that_was_left_behind_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "control")
    monkeypatch.setattr(mps, "_COMM", "no such process")
    assert not is_offered({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)})


def test_by_the_clients_that_the_driver_names(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    clients = {0: [], 1: [object()]}
    fake.count = 2
    fake.nvmlDeviceGetMPSComputeRunningProcesses = (  # type: ignore[attr-defined]
        lambda handle: asked.append(handle) or clients[handle]
    )
    monkeypatch.setattr(nvml, "is_server", lambda pid: False)
    answer = ask_nvml()
    assert asked == [0, 1]
    assert [one.mps for one in answer.usage] == [one.mps_clients for one in answer.usage] == [False, True]
    assert answer.silent == (f"device 1: {UNDER_MPS}",)


def test_by_the_server_among_the_processes(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a driver or a pynvml that has no list of clients."""
    assert ask_nvml() == ANSWER
    monkeypatch.setattr(nvml, "is_server", lambda pid: pid == 8)
    answer = ask_nvml()
    assert answer.usage == (evolve(USAGE, mps=True),)
    assert answer.silent == (f"device 0: {UNDER_MPS}",)
    monkeypatch.setattr(nvml, "sees_all_processes", lambda: False)  # numbers mean nothing here
    assert [one.mps for one in ask_nvml().usage] == [False]
    monkeypatch.setattr(nvml, "sees_all_processes", lambda: True)
    fake.fail = {"processes"}
    assert [one.mps for one in ask_nvml().usage] == [False]


def test_turns_there_are_said_loudly_once_whichever_came_first() -> None:
    world = Turns()
    tenant = world.state.tenants[world.state.clients[world.low()].job]

    def told(there: bool) -> list[str]:
        seen = ev.Seen(total_bytes=1, used_bytes=0, mps=there)
        return [one.text for one in only(world.react(ev.DriverTold(devices={UUID: seen})), do.Record)]

    for _ in range(2):
        assert told(False) == []
        assert told(True) == [f"device 0 is used through MPS: {TURNS_UNDER_MPS}"]
        assert told(True) == [], "once"
    (device,) = why(world.state, tenant, {}, world.now, {}).devices
    assert device.notes == (TURNS_UNDER_MPS, UNDER_MPS)
    world.react(ev.BoardChanged(board=preempt_mix()))
    assert told(True) == []
    world.react(ev.BoardChanged(board=board(("turns", TURNS))))
    assert len(told(True)) == 1


def test_it_is_said_where_one_asks_why() -> None:
    world = World()
    client = world.low()
    tenant = world.state.tenants[world.state.clients[client].job]
    for there in (False, True, False):
        seen = ev.Seen(total_bytes=1, used_bytes=0, mps=there)
        world.react(ev.DriverTold(devices={UUID: seen}))
        (device,) = why(world.state, tenant, {}, world.now, {}).devices
        assert device.notes == ((UNDER_MPS,) if there else ())
        (shown,) = inventory.views(world.state, {UUID: evolve(USAGE, mps=there)})
        assert shown.notes == device.notes
