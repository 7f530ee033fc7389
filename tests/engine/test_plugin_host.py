"""Plugins run in processes of their own: what they publish arrives, and whatever they do harms nobody."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from gpud.engine.plugin_host import PluginHost, open_plugins
from gpud.policies.plugins.declare import Plugin, PluginError
from gpud.policies.plugins.installed import InstalledPlugins

HEAD = """
import os, sys, time, trio
from contextlib import asynccontextmanager
from gpud.policies.plugins.declare import *
def make(run):
    @asynccontextmanager
    async def open(publish, settings):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, publish, settings)
            yield
    return Plugin(name=NAME, signals=(Signal("depth", Number, every=ms(10), stale_after=ms(100)),), open=open)
"""

Install = Callable[[str, str], Plugin]
Got = list[tuple[str, str, str, Any]]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a plugin where entry points find it, here and in children."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}")

    def install(name: str, run: str) -> Plugin:
        (tmp_path / f"plug_{name}.py").write_text(f"NAME = {name!r}\n{HEAD}\n{run}\nplugin = make(run)\n")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[gpud.signals]\n{name} = plug_{name}:plugin\n")
        return InstalledPlugins()[name]

    return install


class Heard:
    """What arrived."""

    def __init__(self) -> None:
        self.got: Got = []
        self._more = trio.Event()

    def __call__(self, plugin: str, name: str, target: str, value: Any) -> None:
        self.got.append((plugin, name, target, value))
        self._more.set()
        self._more = trio.Event()

    async def until(self, wanted: Callable[[Got], bool]) -> None:
        with trio.fail_after(60):
            while not wanted(self.got):
                await self._more.wait()


async def started(host: PluginHost, name: str, times: int) -> None:
    with trio.fail_after(60):
        while host.starts.get(name, 0) < times:  # noqa: ASYNC110 - the host counts, it tells nobody
            await trio.sleep(0.01)


async def test_samples_arrive_with_settings_and_stop_when_it_is_not_wanted(install: Install) -> None:
    plugin = install("asks", "async def run(publish, settings):\n    publish('depth', settings['class'], 12)")
    heard = Heard()
    async with open_plugins(heard, {"asks": {"class": "serving"}}) as host:
        host.want({"asks": plugin})
        await heard.until(lambda got: got == [("asks", "depth", "serving", 12)])
        host.want({"asks": plugin})
        assert host.starts == {"asks": 1}


async def test_one_that_crashes_is_started_again(install: Install, caplog: pytest.LogCaptureFixture) -> None:
    plugin = install(
        "crashes", "async def run(publish, settings):\n    publish('depth', 'c', 1)\n    raise OSError('gone')"
    )
    heard = Heard()
    async with open_plugins(heard, {}, first_pause_s=0.01) as host:
        host.want({"crashes": plugin})
        await heard.until(lambda got: len(got) >= 3)
    assert "the plugin crashes ended: OSError: gone" in caplog.text


async def test_one_that_is_killed_by_a_signal_is_started_again(install: Install) -> None:
    plugin = install(
        "dies", "async def run(publish, settings):\n    publish('depth', 'c', os.getpid())\n    time.sleep(3600)"
    )
    heard = Heard()
    async with open_plugins(heard, {}, first_pause_s=0.01) as host:
        host.want({"dies": plugin})
        await heard.until(lambda got: len(got) == 1)
        os.kill(heard.got[0][3], signal.SIGKILL)
        await heard.until(lambda got: len(got) == 2)
        assert heard.got[0][3] != heard.got[1][3]


async def test_one_that_blocks_is_ended_with_its_silence(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("gpud.engine.plugin_host.SILENCE_S", 3.0)
    plugin = install(
        "hangs", "async def run(publish, settings):\n    publish('depth', 'c', os.getpid())\n    time.sleep(3600)"
    )
    heard = Heard()
    async with open_plugins(heard, {}, first_pause_s=0.01) as host:
        host.want({"hangs": plugin})
        await heard.until(lambda got: len(got) >= 2)
    assert "has published nothing for 3 s" in caplog.text
    for _, _, _, pid in heard.got:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b'["depth", "c"]\n', b'["other", "c", 1]\n', b'["depth", "c", "many"]\n', b"x" * 200_000,
     b'["depth", "c", -1]\n', b'["depth", 5, 1]\n', b'["depth", "c", NaN]\n', b"[" * 50_000 + b"\n",
     b'["depth", "c", 1' + b"0" * 400 + b"]\n", b'["depth", "c", 1' + b"0" * 5000 + b"]\n",
     b'["depth", "c", Infinity]\n', b'["depth", "' + b"c" * 254 + b'", 1]\n', b'[["depth"], "c", 1]\n'],
    ids=lambda line: line[:40].decode().strip(),  # pytest hands it to every process that a test starts
)  # fmt: skip
async def test_one_that_writes_nonsense_is_ended(
    install: Install, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    run = f"""async def run(publish, settings):
    publish.__closure__  # it goes round publish, straight to the pipe
    for fd in range(3, 64):
        try:
            os.write(fd, {line!r}) if 'pipe' in os.readlink(f'/proc/self/fd/{{fd}}') else None
        except OSError:
            pass
    await trio.sleep_forever()"""
    plugin = install("babbles", run)
    heard = Heard()
    async with open_plugins(heard, {}, first_pause_s=0.01) as host:
        host.want({"babbles": plugin})
        await started(host, "babbles", 2)
    assert "wrote something that is no sample" in caplog.text
    assert heard.got == []


async def test_what_it_started_ends_with_it(install: Install) -> None:
    """Whether it crashes or is not wanted any more."""
    run = """async def run(publish, settings):
    import subprocess
    helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])
    publish('depth', 'c', helper.pid)
    await trio.sleep(settings['seconds'])
    raise OSError('gone')"""
    plugin = install("helped", run)
    heard = Heard()
    async with open_plugins(heard, {"helped": {"seconds": 0}}, first_pause_s=0.01) as host:
        host.want({"helped": plugin})
        await heard.until(lambda got: len(got) >= 2)
    async with open_plugins(heard, {"helped": {"seconds": 3600}}) as host:
        before = len(heard.got)
        host.want({"helped": plugin})
        await heard.until(lambda got: len(got) > before)
    helpers = {value for _, _, _, value in heard.got}
    with trio.fail_after(60):
        while any(runs(pid) for pid in helpers):  # noqa: ASYNC110 - the kernel tells nobody
            await trio.sleep(0.01)


def runs(pid: int) -> bool:
    """Not only a process that nobody has waited for."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def test_an_error_of_the_host_itself_ends_that_plugin_only(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(kind: object, value: object) -> bool:
        raise ZeroDivisionError

    plugin = install("judged", "async def run(publish, settings):\n    publish('depth', 'c', 1)")
    async with open_plugins(Heard(), {}, first_pause_s=0.01) as host:
        monkeypatch.setattr("gpud.engine.plugin_host.fits", broken)
        host.want({"judged": plugin})
        await started(host, "judged", 3)
    assert "an error in gpud about the plugin judged" in caplog.text


async def test_a_flood_is_read_at_the_daemons_pace_and_only_the_newest_counts(install: Install) -> None:
    run = "async def run(publish, settings):\n    for n in range(10**9):\n        publish('depth', 'c', n)"
    plugin = install("floods", run)
    heard = Heard()
    async with open_plugins(heard, {}) as host:
        host.want({"floods": plugin})
        await heard.until(lambda got: len(got) >= 10)
    values = [value for _, _, _, value in heard.got]
    assert values == sorted(values)
    assert values[9] - values[0] > 90  # between two that count lie many that do not


@pytest.mark.parametrize(
    ("name", "target", "value", "text"),
    [("no", "c", 1, "declares no signal 'no'; it has depth"), ("depth", "", 1, "a target is"),
     ("depth", "c", float("nan"), "is not a plain number"), ("depth", "c", True, "is not a plain number")],
)  # fmt: skip
def test_publish_refuses_what_was_not_declared(
    install: Install, name: str, target: str, value: object, text: str
) -> None:
    from gpud.engine.plugin_child import publisher

    written: list[bytes] = []
    publish = publisher(install("checks", "async def run(publish, settings): ..."), written.append)
    with pytest.raises(ValueError, match=text):
        publish(name, target, value)
    publish("depth", "c", None)
    assert written == [b'["depth", "c", null]\n']


def test_finding_imports_nothing_and_a_broken_one_says_why(install: Install, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="importing it failed with ZeroDivisionError"):
        install("broken", "1 / 0")
    with pytest.raises(PluginError, match="it calls itself `alias`, its entry point `other`"):
        install("other", "NAME = 'alias'\nasync def run(publish, settings): ...")
    installed = InstalledPlugins()
    assert {"broken", "other"} <= set(installed)
    assert "absent" not in installed
