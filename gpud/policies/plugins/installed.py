"""Plugins that are installed, found by entry points. A plugin is imported when a file `use`s it, not when it is found.

Groups: `gpud.signals`, `gpud.functions`, `gpud.actuators`; an entry's name is the plugin's, its object a `Plugin`. One
name in several groups must be one object.
"""

from collections.abc import Iterator, Mapping

from gpud.policies.plugins.declare import Plugin, PluginError
from gpud.policies.plugins.validate import wrong_declaration

GROUPS = ("gpud.signals", "gpud.functions", "gpud.actuators")


class InstalledPlugins(Mapping[str, Plugin]):
    """By name. Looking at a name imports its plugin, once. Raises PluginError when that fails, KeyError when there is
    none."""

    def __init__(self) -> None:
        self._entries: dict[str, list[object]] | None = None
        self._loaded: dict[str, Plugin | PluginError] = {}

    def _found(self) -> dict[str, list[object]]:
        if self._entries is None:
            from importlib.metadata import entry_points  # 20 ms, which a set without plugins need not pay

            self._entries = {}
            for group in GROUPS:
                for entry in sorted(entry_points(group=group), key=lambda entry: (entry.name, entry.value)):
                    self._entries.setdefault(entry.name, []).append(entry)
        return self._entries

    def __bool__(self) -> bool:
        """True without looking: `plugins or {}` is no reason to search all installed packages."""
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._found()))

    def __len__(self) -> int:
        return len(self._found())

    def __contains__(self, name: object) -> bool:
        return name in self._found()

    def __getitem__(self, name: str) -> Plugin:
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._found()[name])
        found = self._loaded[name]
        if isinstance(found, PluginError):
            raise found
        return found


def _load(name: str, entries: list[object]) -> Plugin | PluginError:
    loaded: list[object] = []
    for entry in entries:
        try:
            loaded.append(entry.load())  # type: ignore[attr-defined]
        except BaseException as error:  # foreign code, which may even try to exit
            if isinstance(error, KeyboardInterrupt):
                raise
            return PluginError(name, f"importing it failed with {type(error).__name__}: {_short(error)}")
    first = loaded[0]
    if any(other is not first for other in loaded[1:]):
        return PluginError(name, "two packages, or two objects of one package, offer this name")
    if not isinstance(first, Plugin):
        return PluginError(name, f"its entry point is {type(first).__name__}, not a gpud Plugin")
    wrong = wrong_declaration(name, first)
    return PluginError(name, wrong) if wrong else first


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else text[:199] + "…"
