from collections.abc import Mapping
from contextlib import asynccontextmanager

import trio

from gpud.engine.board import Board
from gpud.engine.plugin_signals import PluginSignals
from gpud.engine.service import open_engine
from gpud.model import events as ev
from gpud.model.units import SECOND
from gpud.policies.plugins.declare import Class, Number, Plugin, Signal, s
from gpud.testing.boards import board_from_texts
from tests.engine.conftest import new_state, preempt_mix
from tests.engine.test_service import Outside

WEB = Plugin(name="web", signals=(Signal("depth", Number, scope=Class, stale_after=s(3)),), open=lambda: None)
USES = """gpol 1
use web
policy "p" {
  class all { match any }
  when all.web.depth > 3 { all.pause = true }
}
apply "p" to gpu *
"""


class Host:
    """Notes who shall run."""

    def __init__(self) -> None:
        self.wanted: list[list[str]] = []

    def want(self, plugins: Mapping[str, Plugin]) -> None:
        self.wanted.append(sorted(plugins))


def using() -> Board:
    return board_from_texts({"p.gpol": USES}, plugins={"web": WEB})


@asynccontextmanager
async def running(board: Board, installed: Mapping[str, Plugin]):  # type: ignore[no-untyped-def]
    outside, host = Outside(), Host()
    send, receive = trio.open_memory_channel[ev.Event](10)
    async with send, open_engine(new_state(board), outside, outside, outside, receive, boot="b") as engine:
        signals = PluginSignals(engine, installed)
        signals.host(host)  # type: ignore[arg-type]
        yield engine, signals, host


async def test_exactly_the_plugins_of_the_running_policies_run() -> None:
    async with running(preempt_mix(), {"web": WEB}) as (engine, signals, host):
        for board in (using(), preempt_mix()):
            engine.handle(ev.BoardChanged(board=board))
            signals.follow()
        assert host.wanted == [[], ["web"], []]


async def test_samples_reach_the_engine_until_the_plugin_is_gone() -> None:
    async with running(using(), {"web": WEB}) as (engine, signals, _):
        signals.sample("web", "depth", "all", 5)
        ((key, (value, until)),) = engine.state.samples.items()
        assert (key, value) == (("web", "depth", "all"), 5)
        assert 0 < until - engine.now() <= 3 * SECOND
        engine.handle(ev.BoardChanged(board=preempt_mix()))
        signals.follow()
        assert engine.state.samples == {}
        signals.sample("web", "depth", "all", 6)  # one that was under way
        assert engine.state.samples == {}


async def test_a_plugin_that_was_uninstalled_meanwhile() -> None:
    async with running(using(), {}) as (_, signals, host):
        signals.follow()
        assert host.wanted == [[], []]
