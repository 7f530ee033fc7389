"""What a world is, and what it says of itself for `check` and the manual."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from gpud.policies.ir import IrPolicy
from gpud.policies.schema import UNLIMITED, Range
from gpud.policies.tenants import TenantFacts
from gpud.policies.types import Type

MOST = 2**62
"""Of any argument that cannot be unlimited."""
Knob = Callable[[str, str], Any]
"""(class or attached tenant, knob) → the value in force."""


class WorldParameter(NamedTuple):
    """An argument of `simulate`, and unless it is a class, something `world.name = v` may change."""

    name: str
    type: Type
    default: Any
    """None: must be given. Of a class: the name that is looked for. `unlimited` can only be what it is by itself."""
    doc: str


class Setup(NamedTuple):
    """What a world begins with."""

    policy: IrPolicy
    arguments: Mapping[str, Any]
    """By parameter, defaults filled in; by member, where the world takes some."""
    members: Mapping[str, str]
    """Class or attached tenant named in the arguments → its class, in the order of the arguments."""
    attached: Mapping[str, TenantFacts]
    """All of them, named or not."""
    now: int


class World(Protocol):
    """A running one. Times are monotonic nanoseconds."""

    def set(self, name: str, value: Any, now: int) -> None:
        """`world.name = value`"""

    def decided(self, knob: Knob, now: int) -> None:
        """From now on these knobs are in force."""

    def signals(self, now: int) -> Iterable[tuple[str, Any]]:
        """What is measured now: (`high.launch_rate`, value)."""

    def next_ns(self, now: int) -> int | None:
        """When a signal changes next although nobody sets anything (but for one that only counts); None: never."""

    def reading(self, name: str, now: int) -> Any:
        """`world.name`: a parameter's value now, or one of `WorldKind.readings`."""


class WorldKind(NamedTuple):
    """One name after `simulate`."""

    name: str
    doc: str
    parameters: tuple[WorldParameter, ...]
    of_member: Type | None
    """Type of the arguments that are named as a class or an attached tenant; None: it takes no such."""
    of_member_most: float
    """What such an argument may be at most."""
    of_member_doc: str
    readings: tuple[tuple[str, Type, str], ...]
    """(name, type, what it says) of `world.name`, beside the parameters."""
    modes: frozenset[str]
    """Arbiters that it can stand for; "" is a policy without one."""
    heeds: frozenset[str]
    """Knobs that make a difference in it."""
    measures: tuple[str, ...]
    """Signals that it sets, of its members or of its parameters that are classes, …"""
    measures_more: tuple[str, ...]
    """… and of the device and the host. A test cannot set them."""

    def range_of(self, name: str) -> Range:
        """What an argument may be."""
        for row in self.parameters:
            if row.name == name:
                return Range(0, False, UNLIMITED if row.default == UNLIMITED else MOST)
        return Range(0, False, self.of_member_most)

    def drives(self, arguments: Mapping[str, Any], members: Iterable[str]) -> tuple[str, ...]:
        """`high.launch_rate`, …"""
        owners = [*members, *(arguments[row.name] for row in self.parameters if row.type is Type.CLASS)]
        return (*(f"{owner}.{signal}" for owner in owners for signal in self.measures), *self.measures_more)
