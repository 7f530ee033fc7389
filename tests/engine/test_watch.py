"""Real directories, real kernel: what rings and what does not. Events of inotify are there when the system call
returns, so nothing here waits for time to pass but where the watcher itself does."""

import errno
import itertools
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from gpud.engine import inotify, watch
from gpud.engine.inotify import Inotify, signature


def vim(path: Path, text: str) -> None:
    """As vim writes: tries whether it may create a file, renames to a backup, writes, removes the backup."""
    probe = path.parent / "4913"
    probe.write_text("")
    probe.unlink()
    backup = path.with_name(path.name + "~")
    os.rename(path, backup)
    path.write_text(text)
    backup.unlink()


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    directory = tmp_path / "policies"
    (directory / "tests").mkdir(parents=True)
    (directory / "a.gpol").write_text("one")
    (directory / "tests" / "t.gpol").write_text("test")
    return directory


def rings(directory: Path, act: Callable[[], object]) -> bool:
    with Inotify(directory) as watched:
        assert not watched.take()
        act()
        return watched.take()


@pytest.mark.parametrize(
    "act",
    [
        lambda d: (d / "a.gpol").write_text("two"),
        lambda d: (d / "b.gpol").write_text("new"),
        lambda d: (d / "a.gpol").unlink(),
        lambda d: (d / "a.gpol").chmod(0),
        lambda d: (d / "a.gpol").rename(d / "a.gpol.off"),
        lambda d: vim(d / "a.gpol", "two"),
        lambda d: (d / "tests" / "t.gpol").write_text("changed"),
        lambda d: (d / "tests").rename(d / "tests.off"),
        lambda d: shutil.rmtree(d),
        lambda d: d.rename(d.with_name("elsewhere")),
    ],
)
def test_rings(policies: Path, act: Callable[[Path], object]) -> None:
    assert rings(policies, lambda: act(policies))


@pytest.mark.parametrize(
    "act",
    [
        lambda d: (d / ".a.gpol.swp").write_text("x"),
        lambda d: (d / "a.gpol~").write_text("x"),
        lambda d: (d / "4913").write_text("x"),
        lambda d: (d / "#a.gpol#").write_text("x"),
        lambda d: os.symlink("ann@host.1234", d / ".#a.gpol"),
        lambda d: (d / ".git").mkdir(),
        lambda d: (d / "old").mkdir(),
        lambda d: (d / "README.md").write_text("x"),
        lambda d: (d / "a.gpol").read_text(),
        lambda d: (d.parent / "beside.gpol").write_text("x"),
    ],
)
def test_does_not_ring(policies: Path, act: Callable[[Path], object]) -> None:
    assert not rings(policies, lambda: act(policies))


def test_swap_of_a_kubernetes_volume(tmp_path: Path) -> None:
    """`a.gpol` → `..data/a.gpol`, `..data` → `..2026_1`, replaced by a rename."""
    volume = tmp_path / "volume"
    for version in ("..2026_1", "..2026_2"):
        (volume / version).mkdir(parents=True)
        (volume / version / "a.gpol").write_text(version)
    (volume / "..data").symlink_to("..2026_1")
    (volume / "a.gpol").symlink_to("..data/a.gpol")

    def swap() -> None:
        (volume / "..data_tmp").symlink_to("..2026_2")
        os.rename(volume / "..data_tmp", volume / "..data")

    assert rings(volume, swap)
    assert (volume / "a.gpol").read_text() == "..2026_2"


def test_a_file_that_is_a_link_rings_when_its_target_is_written(policies: Path, tmp_path: Path) -> None:
    real = tmp_path / "store" / "real.gpol"
    real.parent.mkdir()
    real.write_text("one")
    (policies / "b.gpol").symlink_to(real)
    assert rings(policies, lambda: real.write_text("two"))


def test_the_directory_itself_may_be_a_link(policies: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    link = tmp_path / "link"
    link.symlink_to(policies)
    assert rings(link, lambda: (policies / "a.gpol").write_text("two"))

    def swap() -> None:
        (tmp_path / "link.new").symlink_to(tmp_path / "new")
        os.rename(tmp_path / "link.new", link)

    assert rings(link, swap)


def test_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b" / "policies"
    assert rings(directory, lambda: (tmp_path / "a").mkdir())
    assert not rings(directory, lambda: (tmp_path / "a" / "other").mkdir())
    assert rings(directory, lambda: directory.mkdir(parents=True))


def swap(link: Path, target: str) -> None:
    """As deployments do: another link is renamed over it."""
    fresh = link.with_name("fresh-link")
    fresh.symlink_to(target)
    os.rename(fresh, link)


@pytest.mark.parametrize("inside", ["current/policies", "policies"])
def test_a_link_on_the_way_is_swapped(tmp_path: Path, inside: str) -> None:
    """`current` stands for one release after the other, above the directory, or behind a link to it."""
    for release in ("r1", "r2"):
        (tmp_path / release / "policies").mkdir(parents=True)
    (tmp_path / "current").symlink_to("r1")
    (tmp_path / "policies").symlink_to("current/policies")
    assert rings(tmp_path / inside, lambda: swap(tmp_path / "current", "r2"))
    assert not rings(tmp_path / inside, lambda: (tmp_path / "other").mkdir())


def test_a_link_on_the_way_to_a_file_is_swapped(policies: Path, tmp_path: Path) -> None:
    for release in ("r1", "r2"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "b.gpol").write_text(release)
    (tmp_path / "current").symlink_to(tmp_path / "r1")
    (policies / "b.gpol").symlink_to("../current/b.gpol")
    assert rings(policies, lambda: swap(tmp_path / "current", "r2"))


def test_a_file_that_is_linked_from_the_place_of_the_directory(policies: Path, tmp_path: Path) -> None:
    """One place is watched for two names."""
    (tmp_path / "shared.gpol").write_text("one")
    (policies / "b.gpol").symlink_to("../shared.gpol")
    (tmp_path / "fresh").write_text("two")
    assert rings(policies, lambda: os.rename(tmp_path / "fresh", tmp_path / "shared.gpol"))
    assert rings(policies, lambda: policies.rename(tmp_path / "elsewhere"))


def test_links_in_a_circle(policies: Path, tmp_path: Path) -> None:
    (policies / "b.gpol").symlink_to("c.gpol")
    (policies / "c.gpol").symlink_to("b.gpol")
    assert rings(policies, lambda: swap(policies / "b.gpol", "a.gpol"))


def test_signature_sees_what_policies_are(policies: Path) -> None:
    before = signature(policies)
    (policies / ".a.gpol.swp").write_text("x")
    (policies / "README.md").write_text("x")
    assert signature(policies) == before
    (policies / "tests" / "t.gpol").write_text("longer than before")
    assert signature(policies) != before
    (policies / "dangling.gpol").symlink_to("nowhere")
    assert signature(policies)
    assert signature(policies / "absent") == ()


def come_back(directory: Path) -> None:
    directory.mkdir()
    (directory / "a.gpol").write_text("back")


class Calls:
    """What `watch` called."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[str](100)
        self.read: Callable[[], str] = lambda: ""

    async def changed(self) -> None:
        await self._send.send(self.read())

    async def next(self) -> str:
        with trio.fail_after(60):
            return await self._receive.receive()

    async def until(self, text: str) -> None:
        while await self.next() != text:
            pass


@asynccontextmanager
async def watching(directory: Path, look_s: float = watch.LOOK_S) -> AsyncIterator[Calls]:
    calls = Calls()
    calls.read = lambda: (directory / "a.gpol").read_text() if (directory / "a.gpol").exists() else "absent"
    async with trio.open_nursery() as nursery:

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            await watch.watch(directory, calls.changed, look_s=look_s, task_status=task_status)

        await nursery.start(run)
        yield calls
        nursery.cancel_scope.cancel()


async def test_a_burst_of_saves_is_one_call(policies: Path) -> None:
    async with watching(policies) as calls:
        for number in range(50):
            vim(policies / "a.gpol", f"save {number}")
        assert await calls.next() == "save 49"


async def test_who_never_stops_writing_is_read_all_the_same(policies: Path) -> None:
    async with watching(policies) as calls, trio.open_nursery() as nursery:
        written: list[float] = []

        async def write() -> None:
            while True:
                (policies / "a.gpol").write_text("again")
                written.append(trio.current_time())
                await trio.sleep(0.05)

        nursery.start_soon(write)
        await calls.next()
        written.append(trio.current_time())
        rested = max(later - earlier for earlier, later in itertools.pairwise(written))
        assert rested >= watch.SETTLED_S or written[-1] - written[0] >= watch.LONGEST_S - 0.1
        nursery.cancel_scope.cancel()


async def test_a_directory_that_goes_and_comes_back(policies: Path) -> None:
    async with watching(policies) as calls:
        shutil.rmtree(policies)
        await calls.until("absent")
        come_back(policies)
        await calls.until("back")
        (policies / "a.gpol").write_text("and watched")
        await calls.until("and watched")


async def test_what_happens_while_it_is_read_is_not_lost(policies: Path) -> None:
    async with watching(policies) as calls:
        read = calls.read

        def slow() -> str:
            calls.read = read
            text = read()
            (policies / "a.gpol").write_text("meanwhile")
            return text

        calls.read = slow
        (policies / "a.gpol").write_text("two")
        assert await calls.next() == "two"
        assert await calls.next() == "meanwhile"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC])
async def test_without_inotify_it_looks_itself(
    policies: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    refused = True

    def refuse(result: int, where: str) -> int:
        if refused:
            raise OSError(number, os.strerror(number), where)
        return result

    monkeypatch.setattr(inotify, "_checked", refuse)
    monkeypatch.setattr(watch, "LOOKS", 3)
    with caplog.at_level(logging.WARNING):
        async with watching(policies, look_s=0.05) as calls:
            (policies / "a.gpol").write_text("longer than one")
            await calls.until("longer than one")
            shutil.rmtree(policies)
            await calls.until("absent")
            refused = False
            come_back(policies)
            await calls.until("back")
            monkeypatch.setattr(watch, "signature", lambda directory: pytest.fail("inotify works again"))
            (policies / "a.gpol").write_text("told")
            await calls.until("told")
    (warning,) = caplog.messages
    assert "fs.inotify.max_user_" in warning
    assert str(policies) in warning
