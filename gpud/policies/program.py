"""A compiled policy. Made by `compile_policy`; pure, so the daemon, the tests and `sim` run the very same thing."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import frozen

from gpud.policies.ir import IrClass, IrPolicy, KnobRef, SignalRef
from gpud.policies.tenants import TenantFacts
from gpud.policies.types import Type

if TYPE_CHECKING:  # `check` has no use for it
    from gpud.model.knobs import Explained

TENANT_CLASS = SignalRef("class", "", "class", Type.CLASS, tenant=True)
"""What stands first in `Program.tenant_signals`: the name of the tenant's class, by which `each` knows its own."""


class Now(NamedTuple):
    """One value for a whole tick."""

    mono_ns: int
    """Dwell times and decay are computed from this."""
    wall_ns: int
    """Unix time; enters through `hours` only."""


class Knobs(NamedTuple):
    """What a tick decides, in the order of `Program.knobs`."""

    values: tuple[Any, ...]
    """As types.py says, rounded as pages keep them (rates to 1/s, durations to 1 µs)."""
    sites: tuple[int, ...]
    """Where each value comes from: index into `Program.sites`; 0 is the base."""
    tenants: tuple[tuple[int, tuple[Any, ...], tuple[int, ...]], ...] = ()
    """By `each`: (tenant, values, sites) in the order of `Program.tenant_knobs`; None where the class's value holds."""


@frozen
class Site:
    """A binding (or the base) that can set a knob."""

    knob: KnobRef
    line: int
    """0: built in."""
    text: str
    """`guard serving.wait_p99 > 20ms for 1s`, `during day`, `built-in false`, `line 10  burst(weight = 1)`."""
    inside: tuple[str, ...]
    """Enclosing rules, innermost first, as `line 19  during day`."""
    because: str
    """The nearest `because` of its rules; "" when there is none."""
    inputs: tuple[SignalRef, ...]
    """Signals that its conditions and its value depend on, through lets."""
    lets: tuple[str, ...]
    """Lets likewise."""


@frozen
class Slot:
    """One thing that a program remembers from tick to tick: a place in its state."""

    name: str
    initial: Any
    key: tuple[str, ...] = ()
    """What it is; carried over a reload to the slot with the same key and signature. Empty: never."""
    signature: tuple[str, ...] = ()
    label: str = ""
    """Of an operator's state, for messages: `aimd.baseline`."""
    inner: "tuple[Slot, ...]" = ()
    """Of an `each`: what it remembers of a tenant."""


@frozen(kw_only=True)
class Program:
    """One policy with its arguments, ready to run on one device.

    `tick` is pure: `tick(state, snapshot, now, tenants) -> (state, Knobs)`. `snapshot` has the values of `signals`, in
    that order, None for one that is missing; `tenants` maps a tenant's number to the values of `tenant_signals` for
    every tenant of a class with an `each` (the first is its class's name; signals of other classes may have any value).
    States are immutable and comparable; `initial` is the first one.
    """

    ir: IrPolicy
    arguments: tuple[tuple[str, Any], ...]
    """Parameters given in `apply`, sorted."""
    digest: str
    """Hex; equal for equal text and arguments."""
    signals: tuple[SignalRef, ...]
    tenant_signals: tuple[SignalRef, ...]
    """Empty without an `each`; else the first is `TENANT_CLASS`, whose value is the name of the tenant's class here."""
    lets: tuple[str, ...]
    """Names, in the order of `let_values`."""
    knobs: tuple[KnobRef, ...]
    """Every knob of every class of the policy, effective under its mode."""
    tenant_knobs: tuple[KnobRef, ...]
    """Knobs that some `each` may set."""
    sites: tuple[Site, ...]
    steps: int
    """Static cost of a tick."""
    slots: tuple[Slot, ...]
    """What a state consists of."""
    initial: Any
    tick: Callable[[Any, tuple[Any, ...], Now, "dict[int, tuple[Any, ...]]"], "tuple[Any, Knobs]"]
    let_values: Callable[[Any], tuple[Any, ...]]
    """state → values of `lets` at the last tick."""
    next_change: Callable[[Any, Now], int | None]
    """The earliest monotonic time at which a tick with the same snapshot could decide otherwise (dwell timers,
    controller periods, hours); None: never. `now + 1` where something moves on all the time (an `ewma` on its way): at
    the next tick, whenever that is. The daemon sleeps and the test runner skips by this."""
    carry: Callable[[Any, "Program", Any], "tuple[Any, tuple[str, ...]]"]
    """(old state, old program, fresh state) → (state of this program with all that could be carried over by identity,
    what starts anew: `aimd.baseline`)."""
    classify: Callable[[TenantFacts], IrClass | None]
    """First match wins; None: no class takes it."""

    @property
    def name(self) -> str:
        return self.ir.name

    def explain(self, knob: int, decided: Knobs, snapshot: tuple[Any, ...], state: Any) -> "Explained":
        """Why `knobs[knob]` has its value."""
        from gpud.policies.explain import explain_knob

        return explain_knob(self, knob, decided, snapshot, state)
