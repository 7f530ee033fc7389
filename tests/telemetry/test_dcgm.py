"""Files that tell dcgm-exporter which jobs are on a device."""

import os
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gpud.engine.reducer import react
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import JobId
from gpud.telemetry.dcgm import DcgmFiles, open_dcgm_files
from tests.engine.conftest import GIB, UUID, World

OTHER = b"\xee" * 16
PATIENCE_S = 30.0


class Mapped(World):
    """A node with two devices, in the order of the driver."""

    files: DcgmFiles | None

    def __init__(self) -> None:
        super().__init__()
        self.files = None
        self.react(ev.DevicesFound(devices=((OTHER, "A100", GIB), (UUID, "A100", GIB))))

    def react(self, event: ev.Event) -> list[Effect]:
        effects = react(self.state, event, self.now)
        if self.files is not None:
            self.files.saw(event, effects, self.now)
        return effects

    def job(self, *devices: bytes) -> JobId:
        return self.state.clients[self.ready(self.launch()[0], devices)].job


@asynccontextmanager
async def mapped(directory: Path) -> AsyncIterator[Mapped]:
    world = Mapped()
    async with open_dcgm_files(world.state, directory) as world.files:
        yield world


def read(directory: Path) -> dict[str, str]:
    """All that is no hidden file."""
    return {path.name: path.read_text() for path in directory.iterdir() if path.name[0] != "."}


async def shows(world: Mapped, directory: Path, **files: str) -> None:
    """The directory has these (`gpu0="1\\n"`) and nothing else, once all is written."""
    assert world.files is not None
    with trio.fail_after(PATIENCE_S):
        await world.files.rest()
    assert read(directory) == {name.removeprefix("gpu"): content for name, content in files.items()}


async def test_jobs_come_and_go(tmp_path: Path) -> None:
    async with mapped(tmp_path) as w:
        await shows(w, tmp_path, gpu0="", gpu1="")
        first, both = w.job(UUID), w.job(OTHER, UUID)
        await shows(w, tmp_path, gpu0=f"{both}\n", gpu1=f"{first}\n{both}\n")
        (client,) = w.state.tenants[first].clients
        w.gone(client)
        await shows(w, tmp_path, gpu0=f"{both}\n", gpu1=f"{both}\n")
    assert read(tmp_path) == {"0": f"{both}\n", "1": f"{both}\n"}, "jobs go on without the daemon"


async def test_a_device_that_only_its_jobs_knew_of(tmp_path: Path) -> None:
    """The driver does not answer: it is gone with them, and its file is not."""
    async with mapped(tmp_path) as w:
        third = w.ready(w.launch()[0], (b"\xdd" * 16,))
        await shows(w, tmp_path, gpu0="", gpu1="", gpu2=f"{w.state.clients[third].job}\n")
        w.gone(third)
        await shows(w, tmp_path, gpu0="", gpu1="", gpu2="")


async def test_what_a_daemon_before_has_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("99\n")
    (tmp_path / "7").write_text("a device that gpud does not know\n")
    async with mapped(tmp_path) as w:
        await shows(w, tmp_path, gpu0="", gpu1="", gpu7="a device that gpud does not know\n")


async def test_nothing_is_written_that_is_there_already(tmp_path: Path) -> None:
    async with mapped(tmp_path) as w:
        job = w.job(UUID)
        await shows(w, tmp_path, gpu0="", gpu1=f"{job}\n")
        before = (tmp_path / "0").stat().st_ino
        second = w.job(UUID)
        await shows(w, tmp_path, gpu0="", gpu1=f"{job}\n{second}\n")
        assert (tmp_path / "0").stat().st_ino == before


async def test_a_missing_directory_costs_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    there = tmp_path / "later"
    async with mapped(there) as w:
        with trio.fail_after(PATIENCE_S):
            for number in range(1, 4):
                w.job(UUID)
                assert w.files is not None
                await w.files.rest()
                assert caplog.text.count("dcgm_mapping_dir") == 1, number
        assert f"{there}/0: No such file or directory" in caplog.text
        there.mkdir()
        w.job(UUID)
        await shows(w, there, gpu0="", gpu1="1\n2\n3\n4\n")
        (there / "0").unlink()
        (there / "1").unlink()
        there.rmdir()
        w.job(UUID)
        await w.files.rest()
        assert caplog.text.count("dcgm_mapping_dir") == 2


async def test_a_full_disk_leaves_what_was_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with mapped(tmp_path) as w:
        assert w.files is not None
        job = w.job(UUID)
        await shows(w, tmp_path, gpu0="", gpu1=f"{job}\n")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # as a disk without room
        try:
            w.job(UUID)
            await w.files.rest()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caplog.text.count("dcgm_mapping_dir") == 1
        assert sorted(os.listdir(tmp_path)) == ["0", "1"]
        assert (tmp_path / "1").read_text() == f"{job}\n"
        third = w.job(UUID)
        await shows(w, tmp_path, gpu0="", gpu1=f"{job}\n{third - 1}\n{third}\n")


async def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    directory, victim = tmp_path / "map", tmp_path / "victim"
    directory.mkdir()
    victim.write_text("mine")
    (directory / ".0.gpud").symlink_to(victim)
    (directory / "1").symlink_to(victim)
    async with mapped(directory) as w:
        assert w.files is not None
        await w.files.rest()  # it could not, and has taken it away
        job = w.job(UUID)
        await shows(w, directory, gpu0="", gpu1=f"{job}\n")
    assert victim.read_text() == "mine"
