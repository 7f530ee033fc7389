"""Plugins of the running set: those run whose signals a policy uses, and the engine hears what they measure."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gpud.engine.plugin_host import PluginHost, open_plugins
from gpud.engine.service import Engine
from gpud.model.events import PluginSample, PluginsGone
from gpud.policies.plugins.declare import Plugin, PluginError, Plugins

log = logging.getLogger("gpud.plugins")


class PluginSignals:
    """Made by `open_plugin_signals`."""

    def __init__(self, engine: Engine, plugins: Plugins) -> None:
        self._engine = engine
        self._plugins = plugins
        self._host: PluginHost | None = None
        self._used: dict[str, Plugin] = {}

    def follow(self) -> None:
        """Another set may be in force: exactly the plugins of its policies run."""
        names = {name for applied in self._engine.state.board.applied for name in applied.program.ir.uses}
        used: dict[str, Plugin] = {}
        for name in sorted(names):
            try:
                used[name] = self._plugins[name]
            except (KeyError, PluginError) as error:  # uninstalled meanwhile
                log.warning("the plugin %s of the running policies is gone: %s", name, error)
        for name in self._used:
            if used.get(name) is not self._used[name]:
                self._engine.handle(PluginsGone(plugin=name))
        self._used = used
        if self._host is not None:
            self._host.want(used)

    def sample(self, plugin: str, signal: str, target: str, value: Any) -> None:
        """What the host heard."""
        declared = self._used.get(plugin)
        if declared is None:
            return
        row = next(row for row in declared.signals if row.name == signal)
        self._engine.handle(
            PluginSample(
                plugin=plugin,
                signal=signal,
                target=target,
                value=value,
                mono_ns=self._engine.now(),
                stale_after_ns=row.stale_after,
            )
        )

    def host(self, host: PluginHost) -> None:
        self._host = host
        self.follow()


@asynccontextmanager
async def open_plugin_signals(
    engine: Engine, plugins: Plugins, settings: Mapping[str, Mapping[str, Any]]
) -> AsyncIterator[PluginSignals]:
    """Until left. `settings`: of each plugin, `[plugins.NAME]` of gpud.toml."""
    signals = PluginSignals(engine, plugins)
    async with open_plugins(signals.sample, settings) as host:
        signals.host(host)
        yield signals
