"""Functions of plugins run inside a tick, on the daemon's own thread: one that hangs must not stop the daemon.

After LONGEST_S of CPU time it is interrupted by a signal, and its value is unknown; the tick is then a strike, and with
the third the policy is put out of action. A function that hangs inside C cannot be interrupted.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from gpud.policies.plugins.declare import Function, Plugin, Plugins

LONGEST_S = 0.05
"""CPU time of this process. (Wall time would interrupt good functions on a busy machine.)"""

Step = Callable[[Any, Mapping[str, Any], int], tuple[Any, Any]]


class TookTooLong(Exception):
    """Raised inside the function."""


class GuardedPlugins(Mapping[str, Plugin]):
    """The same plugins, whose functions are interrupted when they take too long. Raises what those raise."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._guarded: dict[str, tuple[Plugin, Plugin]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def __bool__(self) -> bool:
        return bool(self._plugins)

    def __contains__(self, name: object) -> bool:
        return name in self._plugins

    def __getitem__(self, name: str) -> Plugin:
        plugin = self._plugins[name]
        kept = self._guarded.get(name)
        if kept is None or kept[0] is not plugin:
            functions = tuple(function.but(step=guarded(function)) for function in plugin.functions)
            kept = self._guarded[name] = plugin, plugin.but(functions=functions)
        return kept[1]


def guarded(function: Function) -> Step:
    """Its step under a timer. On other threads than the first one, where no signal arrives, it is the step itself."""
    step, name = function.step, function.name

    def call(state: Any, arguments: Mapping[str, Any], now_ns: int) -> tuple[Any, Any]:
        if threading.current_thread() is not threading.main_thread():
            return step(state, arguments, now_ns)

        def interrupt(number: int, frame: FrameType | None) -> None:
            raise TookTooLong(f"{name} took more than {LONGEST_S:g} s")

        before = signal.signal(signal.SIGVTALRM, interrupt)
        # It comes again and again: a function may catch what is raised in it.
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S, LONGEST_S)
        try:
            return step(state, arguments, now_ns)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return call
