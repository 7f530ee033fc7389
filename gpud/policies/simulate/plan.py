"""A test, resolved: what happens when, and what is expected. Times are nanoseconds from the beginning of the test."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from gpud.policies import ast
from gpud.policies.ir import IrExpr, IrPolicy
from gpud.policies.plugins.declare import Plugins
from gpud.policies.simulate.evaluate import Reading
from gpud.policies.simulate.worlds.kind import WorldKind
from gpud.policies.source import Source, Span
from gpud.policies.tenants import TenantFacts
from gpud.policies.types import Type


class WorldPlan(NamedTuple):
    """`simulate kind(…)`"""

    kind: WorldKind
    arguments: Mapping[str, Any]
    """Of parameters, defaults filled in, and of members."""
    members: tuple[str, ...]
    """Names among the arguments that are classes or attached tenants."""


class Change(NamedTuple):
    """What a poke or a sample of a feed sets."""

    owner: str
    """"" is the world."""
    name: str
    """`launch_rate`; of the world a parameter or a member."""

    @property
    def key(self) -> str:
        return f"{self.owner or 'world'}.{self.name}"


class Poke(NamedTuple):
    t_ns: int
    change: Change
    value: Any


class Feed(NamedTuple):
    change: Change
    every_ns: int
    runs: tuple[tuple[Any, int], ...]
    """(value, times)"""


class Check(NamedTuple):
    """Something expected. `always` holds from begin to end, `eventually` at some moment of that, `at` once."""

    kind: str
    begin_ns: int
    end_ns: int
    condition: IrExpr
    span: Span
    """Of the condition."""
    reads: tuple[Reading, ...]
    """What its condition reads, each once."""


class Plan(NamedTuple):
    """A test that can be run."""

    name: str
    source: Source
    policy: IrPolicy
    plugins: Plugins
    wall_ns: int
    """Unix time at the beginning."""
    has_clock: bool
    """The test says so itself."""
    tenants: Mapping[str, TenantFacts]
    """Attached ones, in text order."""
    members: Mapping[str, str]
    """Attached tenant → its class."""
    world: WorldPlan | None
    replay: ast.Replay | None
    pokes: tuple[Poke, ...]
    feeds: tuple[Feed, ...]
    checks: tuple[Check, ...]
    fed: Mapping[str, Type]
    """Types of all signals that the policy's classes, the device and used plugins have, for recordings."""

    @property
    def end_ns(self) -> int:
        """When the last expectation is looked at."""
        return max(check.end_ns for check in self.checks)
