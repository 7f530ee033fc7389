import sys
import threading
import types
from pathlib import Path

import pytest
import trio
import trio.testing
from attrs import evolve

from gpud.devices import inventory, nvml
from gpud.devices.nvml import Answer, DriverError, Usage, ask_nvml, open_driver, uuid_bytes, uuid_text
from gpud.model import events as ev
from gpud.model.events import Process
from tests.engine.conftest import UUID, World

ONE = Process(pid=7, started=70, user="ann", command="python a.py", used_bytes=3)
TWO = Process(pid=8, started=80, user="bob", command="b", used_bytes=None)
USAGE = Usage(
    uuid=UUID, name="A100", total_bytes=1 << 30, used_bytes=5, utilisation=0.5, power_w=250.5, temperature_c=64.0,
    processes=(ONE, TWO),
)  # fmt: skip
ANSWER = Answer(usage=(USAGE,))


async def test_an_answer_is_used_again_while_it_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    async with open_driver(ask=lambda: asked.append(1) or ANSWER) as driver:  # type: ignore[func-returns-value]
        assert driver.trouble() == "not asked yet"
        assert await driver.usage() == await driver.usage() == {UUID: USAGE}
        assert (len(asked), driver.trouble()) == (1, "ok")
        monkeypatch.setattr(nvml, "FRESH_S", -1)
        await driver.usage()
        assert len(asked) == 2


async def test_a_driver_that_hangs_holds_nobody() -> None:
    go_on = threading.Event()
    calls = []

    def hang() -> Answer:
        calls.append(1)
        go_on.wait(60)
        return ANSWER

    async with open_driver(ask=hang, deadline_s=0.05) as driver:
        with trio.fail_after(60):
            assert await driver.usage() == {}
            assert "has not answered for" in driver.trouble()
            assert await driver.usage() == {}
        assert len(calls) == 1  # no second thread runs into it
        go_on.set()
        with trio.fail_after(60):
            while await driver.usage() != {UUID: USAGE}:  # noqa: ASYNC110 (a thread ends: there is no event)
                await trio.sleep(0.01)
        assert driver.trouble() == "ok"


async def test_who_asks_meanwhile_gets_the_same_answer() -> None:
    go_on = threading.Event()
    calls, answers = [], []

    def ask() -> Answer:
        calls.append(1)
        go_on.wait(60)
        return ANSWER

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
    def fail() -> Answer:
        raise error

    async with open_driver(ask=fail) as driver:
        assert await driver.usage() == {}
        assert says in driver.trouble()


async def test_a_device_that_does_not_answer_is_told_of_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nvml, "FRESH_S", -1)
    answers = [
        Answer(usage=(USAGE,), silent=("device 1 does not answer: GPU is lost",)),
        Answer(usage=(USAGE,), silent=("device 1 does not answer: GPU is lost",)),
        ANSWER,
    ]
    troubles = []
    async with open_driver(ask=lambda: answers.pop(0)) as driver:
        while answers:
            assert await driver.usage() == {UUID: USAGE}
            troubles.append(driver.trouble())
    assert troubles == ["device 1 does not answer: GPU is lost"] * 2 + ["ok"]
    assert [record.getMessage() for record in caplog.records] == ["device 1 does not answer: GPU is lost"]


class FakeNvml(types.ModuleType):
    """The part of pynvml that we use."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.fail: set[str] = set()
        self.open = 0
        self.count = 1
        self.nameless: int | None = None

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
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._check(f"handle {index}")
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:
        self._check(f"uuid {handle}")
        return b"no uuid" if handle == self.nameless else uuid_text(UUID[:-1] + bytes([UUID[-1] + handle])).encode()

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "A100"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> types.SimpleNamespace:
        self._check(f"memory {handle}")
        return types.SimpleNamespace(total=1 << 30, used=5)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> types.SimpleNamespace:
        self._check("rates")
        return types.SimpleNamespace(gpu=50, memory=1)

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._check("power")
        return 250_500

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        self._check("temperature")
        assert sensor == 0
        return 64

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[types.SimpleNamespace]:
        self._check("processes")
        return [
            types.SimpleNamespace(pid=8, usedGpuMemory=None),
            types.SimpleNamespace(pid=7, usedGpuMemory=3),
        ]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    module = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", module)
    known = {7: ONE, 8: TWO}
    monkeypatch.setattr(
        nvml, "named", lambda found: tuple(evolve(known[pid], used_bytes=used) for pid, used in sorted(found))
    )
    monkeypatch.setattr(nvml, "sees_all_processes", lambda: True)
    return module


def test_what_is_asked(fake: FakeNvml) -> None:
    assert ask_nvml() == ANSWER
    assert fake.open == 0  # a screen must not keep the GPU awake
    fake.fail = {"rates", "processes", "power", "temperature"}
    (device,) = ask_nvml().usage
    assert (device.utilisation, device.power_w, device.temperature_c, device.processes) == (None, None, None, None)


def test_numbers_of_processes_mean_nothing_in_a_pid_namespace(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "sees_all_processes", lambda: False)
    answer = ask_nvml()
    assert [one.processes for one in answer.usage] == [None]
    (why,) = answer.silent
    assert "docker run --pid=host" in why


def test_no_driver(fake: FakeNvml) -> None:
    fake.fail = {"init"}
    with pytest.raises(DriverError, match="no NVIDIA driver answers: init failed"):
        ask_nvml()
    fake.fail = {"count"}
    with pytest.raises(DriverError, match="does not tell of its devices"):
        ask_nvml()
    assert fake.open == 0


@pytest.mark.parametrize("question", ["handle", "uuid", "memory"])
def test_a_lost_device_costs_its_own_figures_only(fake: FakeNvml, question: str) -> None:
    fake.count = 3
    fake.fail = {f"{question} 1"}
    answer = ask_nvml()
    assert [usage.uuid[-1] for usage in answer.usage] == [UUID[-1], UUID[-1] + 2]
    assert answer.silent == (f"device 1 does not answer: {question} 1 failed",)
    assert fake.open == 0


def test_a_device_without_a_uuid_costs_its_own_figures_only(fake: FakeNvml) -> None:
    fake.count, fake.nameless = 2, 0
    answer = ask_nvml()
    assert [usage.uuid[-1] for usage in answer.usage] == [UUID[-1] + 1]
    assert answer.silent == ("device 0 does not answer: the driver names a device 'no uuid', which is no UUID",)


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


def told(*usage: Usage) -> ev.DriverTold:
    return ev.DriverTold(
        devices={
            one.uuid: ev.Seen(total_bytes=one.total_bytes, used_bytes=one.used_bytes, processes=one.processes)
            for one in usage
        }
    )


def test_inventory_is_the_union() -> None:
    world = World()
    world.react(inventory.found([USAGE]))
    client = world.low()
    who = world.state.clients[client].who
    other = bytes(reversed(UUID))
    only_reported = world.ready(devices=[other])
    ninth = Usage(uuid=b"9" * 16, name="H200", total_bytes=1, used_bytes=0, utilisation=None, processes=(TWO,))
    own = Process(pid=who.pid, started=who.started, user="ann", command="x", used_bytes=1)
    now = evolve(USAGE, used_bytes=9, processes=(own, ONE))
    world.react(told(now, ninth))
    shown = inventory.views(world.state, {UUID: now, ninth.uuid: ninth})
    assert [(d.slot, d.name, d.used_bytes) for d in shown] == [(0, "A100", 9), (1, "", None), (None, "H200", 0)]
    assert (shown[0].power_w, shown[0].temperature_c) == (250.5, 64.0)
    assert shown[0].jobs == (world.state.clients[client].job,)
    assert [(one.pid, one.device, one.used_bytes) for one in shown[0].unmanaged] == [(7, 0, 3)]
    assert shown[1].jobs == (world.state.clients[only_reported].job,)
    assert [(one.pid, one.device, one.used_bytes) for one in shown[2].unmanaged] == [(8, None, None)]
