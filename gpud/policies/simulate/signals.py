"""What is measured while nothing real runs: as a test, a recording or a world sets it.

A signal keeps its value until it is set again. A class without attached tenants is looked at as one tenant; with some,
its signals are those of its members together, and are set on the members. The keys are texts: `high.launch_rate`,
`gpu.busy`, `a.active` of an attached tenant `a`.

`active` and `idle_for` go together. A class is active while one of its rates, or `busy`, is above zero; once a test
sets `active` or `idle_for` itself, the rates no longer move them. `active = true` makes `idle_for` zero; `active =
false` lets it count on from that moment, and so does a value given to `idle_for`, which also makes the class idle if it
is above zero. A class that never was active has been idle for `unlimited`, one tenant since it attached, at the start.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import define, field

from gpud.policies.schema import SIGNALS, UNLIMITED

RATES = ("launch_rate", "block_rate", "copy_rate", "busy")
"""Above zero: active."""
_SUMS = frozenset({"queued", *RATES, "memory_used"})
COUNTING = ("idle_for",)
"""Change while nothing happens."""


@define
class Stopwatch:
    """Whether somebody is active, and since when not."""

    active: bool | None = False
    since_ns: int | None = None
    """None: never was active."""
    by_hand: bool = False
    missing: bool = False
    """`idle_for` is."""

    def set_active(self, active: bool | None, now: int) -> bool:
        """Returns whether it went from idle to active or back."""
        flipped = active is not None and active != self.active
        if flipped and not active:
            self.since_ns = now
        if active:
            self.missing = False
        self.active = active
        return flipped

    def set_idle_for(self, idle_for: float | None, now: int) -> bool:
        """The same; None: it is missing."""
        self.missing = idle_for is None
        if idle_for is None:
            return False
        flipped = idle_for > 0 and self.active is not False
        if idle_for > 0:
            self.active = False
        self.since_ns = None if idle_for == UNLIMITED else now - int(idle_for)
        return flipped

    def idle_for(self, now: int) -> float | None:
        if self.missing or self.active is None:
            return None
        if self.active:
            return 0
        return UNLIMITED if self.since_ns is None else now - self.since_ns


@define
class Signals:
    """All of them, of one device."""

    classes: tuple[str, ...]
    members: Mapping[str, str]
    """Attached tenant → its class."""
    values: dict[str, Any] = field(factory=dict)
    watches: dict[str, Stopwatch] = field(factory=dict)
    began_ns: int = 0
    """When members attached."""
    _of_class: dict[str, list[str]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self._of_class = {name: [m for m, own in self.members.items() if own == name] for name in self.classes}
        owners = [name for name in self.classes if not self._of_class[name]] + list(self.members)
        for (scope, name), row in SIGNALS.items():
            for owner in [*self.classes, *self.members] if scope == "class" else [scope]:
                self.values[f"{owner}.{name}"] = row.idle
        for name in self.classes:
            self.values[f"{name}.tenants"] = len(self._of_class[name])
        self.watches = {owner: Stopwatch() for owner in owners}

    def is_joint(self, key: str) -> bool:
        """Is this what the members of a class do together?"""
        owner, _, name = key.partition(".")
        row = SIGNALS.get(("class", name))
        return bool(row and row.of_tenant and self._of_class.get(owner))

    def set(self, key: str, value: Any, now: int) -> bool:
        """None: missing. Returns whether somebody became active or idle."""
        owner, _, name = key.partition(".")
        watch = self.watches.get(owner)
        if watch is not None and name == "active":
            watch.by_hand = True
            return watch.set_active(value, now)
        if watch is not None and name == "idle_for":
            watch.by_hand = True
            return watch.set_idle_for(value, now)
        self.values[key] = value
        if watch is None or watch.by_hand or name not in RATES:
            return False
        return watch.set_active(any((self.values[f"{owner}.{rate}"] or 0) > 0 for rate in RATES), now)

    def read(self, key: str, now: int) -> Any:
        """None: missing, or a plugin's that has not been set yet."""
        owner, _, name = key.partition(".")
        if name in ("active", "idle_for") or self._of_class.get(owner):
            return self.reader(key)(now)
        return self.values.get(key)

    def reader(self, key: str) -> Callable[[int], Any]:
        """The same for whoever reads it often: `reader(key)(now)`."""
        owner, _, name = key.partition(".")
        if self.is_joint(key):
            parts = [self._part(f"{member}.{name}") for member in self._of_class[owner]]
            return lambda now: _together(name, [part(now) for part in parts])
        watch = self.watches.get(owner)
        if watch is not None and name == "idle_for" and owner in self.members:
            return lambda now: self._since_attached(watch.idle_for(now), now)
        return self._part(key)

    def _since_attached(self, idle_for: float | None, now: int) -> float | None:
        return now - self.began_ns if idle_for == UNLIMITED else idle_for

    def _part(self, key: str) -> Callable[[int], Any]:
        """Of one owner, as it counts for its class."""
        owner, _, name = key.partition(".")
        watch = self.watches.get(owner)
        if watch is not None and name == "active":
            return lambda now: watch.active
        if watch is not None and name == "idle_for":
            return watch.idle_for
        return lambda now: self.values.get(key)

    def idle_since(self, owner: str) -> Iterable[int]:
        """When the stopwatches began that make up this owner's `idle_for`."""
        for name in self._of_class.get(owner) or [owner]:
            watch = self.watches[name]
            if watch.active is False and not watch.missing:
                if watch.since_ns is not None:
                    yield watch.since_ns
                elif owner in self.members:
                    yield self.began_ns


def _together(name: str, values: list[Any]) -> Any:
    """Of all members of a class."""
    if name == "active" and any(values):
        return True
    if any(value is None for value in values):
        return None
    if name == "active":
        return False
    if name == "idle_for":
        return min(values)
    if name in _SUMS:
        total = values[0]
        for value in values[1:]:
            total += value
        return total
    return max(values)
