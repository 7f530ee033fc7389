"""The process that one plugin's signals run in: `python -m gpud.engine.plugin_child NAME`.

It may block, spin, leak and crash: it is not the daemon. Settings come as one line of JSON on standard input, whose end
ends the process; samples go out as lines of JSON, `["queue_depth", "serving", 12]`. What the plugin prints goes to
standard error.
"""

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import trio

from gpud.policies.plugins.declare import Plugin, PluginError
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.policies.types import Type

Publish = Callable[[str, str, Any], None]

LARGEST = 1e300
"""A whole number may be larger than any that can be calculated with."""
LONGEST_TARGET = 253
"""Characters."""


def publisher(plugin: Plugin, write: Callable[[bytes], object]) -> Publish:
    """What `Plugin.open` gets. It raises ValueError for a name, a target or a value that the plugin has not declared;
    None says that the value is not known. May be called from any thread."""
    declared = {signal.name: signal for signal in plugin.signals}

    def publish(signal: str, target: str, value: Any) -> None:
        row = declared.get(signal)
        if row is None:
            raise ValueError(f"{plugin.name} declares no signal {signal!r}; it has {', '.join(declared)}")
        if not isinstance(target, str) or not 0 < len(target) <= LONGEST_TARGET:
            raise ValueError(f"{plugin.name}.{signal}: a target is the name of a class or the UUID of a device")
        if value is not None and not fits(row.type, value):
            raise ValueError(f"{plugin.name}.{signal}: {value!r} is not {row.type.value}")
        write(json.dumps([signal, target, value]).encode() + b"\n")

    return publish


def fits(kind: Type, value: Any) -> bool:
    """Is it a value that this type can have: finite, not negative? (Of a float that is no number, nothing is true.)"""
    if kind is Type.BOOL:
        return isinstance(value, bool)
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST


async def sample(plugin: Plugin, publish: Publish, settings: dict[str, Any]) -> None:
    """Runs the plugin until it fails or the process ends."""
    assert plugin.open is not None
    async with plugin.open(publish, settings):
        await trio.sleep_forever()


def main() -> int:
    """1: the plugin could not be loaded, or failed; the reason is the last line on standard error."""
    name = sys.argv[1]
    out = os.dup(1)
    os.dup2(2, 1)
    settings = json.loads(sys.stdin.readline() or "{}")
    threading.Thread(target=_end_with_daemon, daemon=True).start()
    lock = threading.Lock()

    def write(line: bytes) -> None:
        with lock:
            while line:
                line = line[os.write(out, line) :]

    try:
        plugin = InstalledPlugins()[name]
        trio.run(sample, plugin, publisher(plugin, write), settings)
    except KeyError:
        print(f"no plugin {name} is installed", file=sys.stderr)
    except PluginError as error:
        print(error.text, file=sys.stderr)
    except BaseException as error:
        print(f"{type(_first(error)).__name__}: {_first(error)}", file=sys.stderr)
    return 1


def _end_with_daemon() -> None:
    """In a thread, since the plugin may block the other one."""
    while sys.stdin.readline():
        pass
    os._exit(0)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
