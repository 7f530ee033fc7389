import sys
import threading
import types
from pathlib import Path

import pytest
import trio
import trio.testing

from gpud.devices import inventory, nvml
from gpud.devices.nvml import DriverError, Usage, ask_nvml, open_driver, uuid_bytes, uuid_text
from tests.engine.conftest import UUID, World

USAGE = Usage(uuid=UUID, name="A100", total_bytes=1 << 30, used_bytes=5, utilisation=0.5, pids=(7, 8))


async def test_an_answer_is_used_again_while_it_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    async with open_driver(ask=lambda: asked.append(1) or [USAGE]) as driver:  # type: ignore[func-returns-value]
        assert driver.trouble() == "not asked yet"
        assert await driver.usage() == await driver.usage() == {UUID: USAGE}
        assert (len(asked), driver.trouble()) == (1, "ok")
        monkeypatch.setattr(nvml, "FRESH_S", -1)
        await driver.usage()
        assert len(asked) == 2


async def test_a_driver_that_hangs_holds_nobody() -> None:
    go_on = threading.Event()
    calls = []

    def hang() -> list[Usage]:
        calls.append(1)
        go_on.wait(10)
        return [USAGE]

    async with open_driver(ask=hang, deadline_s=0.05) as driver:
        with trio.fail_after(2):
            assert await driver.usage() == {}
            assert "has not answered for" in driver.trouble()
            assert await driver.usage() == {}
        assert len(calls) == 1  # no second thread runs into it
        go_on.set()
        with trio.fail_after(5):
            while await driver.usage() != {UUID: USAGE}:  # noqa: ASYNC110 (a thread ends: there is no event)
                await trio.sleep(0.01)
        assert driver.trouble() == "ok"


async def test_who_asks_meanwhile_gets_the_same_answer() -> None:
    go_on = threading.Event()
    calls, answers = [], []

    def ask() -> list[Usage]:
        calls.append(1)
        go_on.wait(10)
        return [USAGE]

    async with open_driver(ask=ask) as driver:

        async def usage() -> None:
            answers.append(await driver.usage())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(usage)
            nursery.start_soon(usage)
            await trio.testing.wait_all_tasks_blocked()
            go_on.set()
    assert (len(calls), answers) == (1, [{UUID: USAGE}] * 2)


@pytest.mark.parametrize(
    ("error", "says"),
    [(DriverError("no driver"), "no driver"), (ZeroDivisionError("x"), "library failed: ZeroDivision")],
)
async def test_a_driver_that_fails(error: Exception, says: str) -> None:
    def fail() -> list[Usage]:
        raise error

    async with open_driver(ask=fail) as driver:
        assert await driver.usage() == {}
        assert says in driver.trouble()


class FakeNvml(types.ModuleType):
    """The part of pynvml that we use."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.fail: set[str] = set()
        self.open = 0

    def _check(self, name: str) -> None:
        if name in self.fail:
            raise self.NVMLError(f"{name} failed")

    def nvmlInit(self) -> None:
        self._check("init")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._check("count")
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        return uuid_text(UUID).encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "A100"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> types.SimpleNamespace:
        return types.SimpleNamespace(total=1 << 30, used=5)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> types.SimpleNamespace:
        self._check("rates")
        return types.SimpleNamespace(gpu=50, memory=1)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[types.SimpleNamespace]:
        self._check("processes")
        return [types.SimpleNamespace(pid=8), types.SimpleNamespace(pid=7)]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    module = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_what_is_asked(fake: FakeNvml) -> None:
    assert ask_nvml() == [USAGE]
    assert fake.open == 0  # a screen must not keep the GPU awake
    fake.fail = {"rates", "processes"}
    (device,) = ask_nvml()
    assert (device.utilisation, device.pids) == (None, ())


def test_no_driver(fake: FakeNvml) -> None:
    fake.fail = {"init"}
    with pytest.raises(DriverError, match="no NVIDIA driver answers: init failed"):
        ask_nvml()
    fake.fail = {"count"}
    with pytest.raises(DriverError, match="does not tell of its devices"):
        ask_nvml()
    assert fake.open == 0


def test_a_simulated_driver_that_cannot_be_loaded(fake: FakeNvml, tmp_path: Path) -> None:
    bad = tmp_path / "libnvidia-ml.so.1"
    bad.write_text("no library")
    with pytest.raises(DriverError, match="the simulated driver cannot be loaded"):
        ask_nvml(bad)


def test_uuids() -> None:
    assert uuid_bytes(uuid_text(UUID)) == UUID
    assert uuid_text(UUID) == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert uuid_bytes("MIG-00010203-0405-0607-0809-0a0b0c0d0e0f") == UUID
    for bad in ("", "GPU-", "GPU-xyz", "GPU-00"):
        with pytest.raises(DriverError, match="no UUID"):
            uuid_bytes(bad)


def test_inventory_is_the_union() -> None:
    world = World()
    world.react(inventory.found([USAGE]))
    client = world.low()
    pid = world.state.clients[client].who.pid
    other = bytes(reversed(UUID))
    only_reported = world.ready(devices=[other])
    ninth = Usage(uuid=b"9" * 16, name="H200", total_bytes=1, used_bytes=0, utilisation=None, pids=())
    now = Usage(uuid=UUID, name="A100", total_bytes=1 << 30, used_bytes=9, utilisation=0.1, pids=(5, pid, 999))
    shown = inventory.views(world.state, {UUID: now, ninth.uuid: ninth}, own_pid=5)
    assert [(d.slot, d.name, d.used_bytes) for d in shown] == [(0, "A100", 9), (1, "", None), (None, "H200", 0)]
    assert shown[0].jobs == (world.state.clients[client].job,)
    assert shown[0].unmanaged_pids == (999,)
    assert shown[1].jobs == (world.state.clients[only_reported].job,)
    assert shown[2].unmanaged_pids == ()
