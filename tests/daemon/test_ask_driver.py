"""Whom the daemon asks of its devices at the start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpud.config import Config, SimConfig
from gpud.daemon import _ask_driver
from gpud.devices.nvml import Answer, DriverError, Usage, open_driver
from gpud.model.errors import SetupError

USAGE = Usage(uuid=bytes(16), name="simulated", total_bytes=1, used_bytes=0, utilisation=None)


def _config(tmp_path: Path, sim: SimConfig | None) -> Config:
    return Config(
        runtime_dir=tmp_path, log_level="info", native_dir=tmp_path, sim=sim, policies=tmp_path, policies_by="default",
        state_dir=tmp_path,
    )  # fmt: skip


SIM = SimConfig(node="n", profile="test-small", devices=2, time_scale=None, log=None)


def _raises() -> Answer:
    raise DriverError("no driver")


async def test_one_silent_device_keeps_no_daemon_from_starting(tmp_path: Path) -> None:
    async with open_driver(ask=lambda: Answer(usage=(USAGE,), silent=("device 1 does not answer: lost",))) as driver:
        assert await _ask_driver(_config(tmp_path, SIM), driver) == {USAGE.uuid: USAGE}
        assert driver.trouble() == "device 1 does not answer: lost"


@pytest.mark.parametrize("ask", [_raises, lambda: Answer(usage=(), silent=("device 0 does not answer: lost",))])
async def test_a_simulated_driver_of_which_nothing_answers(tmp_path: Path, ask: Callable[[], Answer]) -> None:
    async with open_driver(ask=ask) as driver:
        with pytest.raises(SetupError, match="the simulated GPU does not start: "):
            await _ask_driver(_config(tmp_path, SIM), driver)


async def test_a_real_driver_may_be_silent(tmp_path: Path) -> None:
    async with open_driver(ask=_raises) as driver:
        assert await _ask_driver(_config(tmp_path, None), driver) == {}
