"""Which policies run where. Built from files in a thread, never changed; what policies remember is in runs.py. Pure."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from gpud.model.ids import uuid_text
from gpud.model.units import FOREVER_NS, MILLISECOND, SECOND
from gpud.policies.compile import compile_policy
from gpud.policies.ir import IrExpr, Op, PureCall, TenantRead
from gpud.policies.placement import DeviceFacts, Named, Placement
from gpud.policies.placement import Stack as PlacedStack
from gpud.policies.plugins.declare import Plugins
from gpud.policies.program import TENANT_CLASS, Program
from gpud.policies.schema import BLOCKS

NO_PLUGINS: Plugins = {}
LONGEST_NS = 2**63 - 1
"""What the language calls longer than this is `unlimited` in pages."""
DEFAULT_MAX_PAUSE_NS = 2 * SECOND
DEFAULT_PERIOD_NS = 20 * MILLISECOND
"""Of shares under `preempt`, which says nothing of it."""
LONGEST_PERIOD_NS = 3600 * SECOND
DEFAULT_AFTER_NS = 30 * SECOND
"""`daemon_lost = hold`; `open` opens at once."""


@frozen
class Arbiter:
    """The settings of an `arbitrate` block, and of `failsafe` beside it, as pages keep them."""

    mode: str
    ranks: Mapping[str, int]
    """Class → rank, 0 the highest; empty where the mode ranks nobody."""
    resume_after_ns: int = 0
    max_pause_ns: int = FOREVER_NS
    max_inflight: int | None = None
    """Base for whoever belongs to no class."""
    max_inflight_ns: int | None = None
    """Likewise."""
    pass_ns: int = 0
    """GPU time that goes through at each `max_pause`; 0: one launch."""
    period_ns: int = DEFAULT_PERIOD_NS
    """Shares hold over this time."""
    reclaim_ns: int = DEFAULT_PERIOD_NS // 10
    """Lent time comes back within this."""
    shared: frozenset[int] = frozenset()
    """Ranks within which shares are kept: those with several classes, or of which the policy names a share. (Within
    others the device itself gives everybody the same.)"""
    rise_after_ns: Mapping[str, int] = field(factory=dict)
    """Class → attached longer than this, a tenant is one rank higher."""
    failsafe: "Failsafe | None" = None
    """None: as the daemon does by default."""
    turns: "Turns | None" = None
    """Under `exclusive`."""

    @property
    def lowest(self) -> int:
        """Of a tenant that no class takes."""
        return max(self.ranks.values(), default=-1) + 1 if self.ranks else 0


@frozen(kw_only=True)
class Turns:
    """Who has the device under `exclusive`, and for how long."""

    max_hold_ns: int
    """Of whoever belongs to no class."""
    fair: bool
    min_hold_ns: int | None
    """None: by its last swap-in."""
    max_wait_ns: int
    grace_ns: int
    max_overrun_ns: int
    """Of whoever belongs to no class."""
    idle_release_ns: int
    swap: "Swap | None" = None
    """None: memory stays where it is."""


@frozen(kw_only=True)
class Swap:
    """How memory leaves a device for the next turn."""

    evict: str
    """Whose goes first: `oldest`, `largest`."""
    keep: int
    """Bytes that stay free."""


@frozen
class Failsafe:
    """What gates do once the daemon's lease has run out."""

    after_ns: int | None
    """They open this long after it; None: never by themselves."""


@frozen(eq=False)
class Applied:
    """A policy with its arguments, as it runs on a device."""

    program: Program
    arbiter: Arbiter | None
    """None: it only tightens."""
    knobs: Mapping[tuple[str, str], int]
    """(class, knob) → index into the values of a tick."""
    tenant_knobs: Mapping[tuple[str, str], int]
    """Likewise of those that `each` sets."""
    each: frozenset[str]
    """Classes with rules about one tenant."""
    reads: frozenset[str]
    """Names of signals it reads, of classes, tenants, devices or the host: `wait_p99`, `gpu.memory_free`."""
    label_amounts: tuple[tuple[str, str], ...]
    """(`bytes` or `percent`, key) of labels that its `match` reads as amounts."""

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def watches(self) -> bool:
        """Who comes, goes or moves may change what it says."""
        return bool(self.reads or self.each)


Stack = tuple[Applied, ...]
"""Of one device, in the order of the `apply` line."""


@frozen(kw_only=True, eq=False)
class Board:
    """The running set."""

    digest: str
    """Of all its files."""
    applied: Stack = ()
    """Each policy (with its arguments) that applies somewhere, present or not, once."""
    named: tuple[tuple[Named, Stack], ...] = ()
    """What `apply` names devices for; the first that fits counts."""
    others: Stack = ()
    """Of every other device."""
    arbiters: Stack = field(init=False)

    @arbiters.default
    def _arbiters(self) -> Stack:
        return tuple(applied for applied in self.applied if applied.arbiter is not None)

    def stack(self, uuid: bytes, index: int) -> Stack:
        """Of one device; `index` in PCI order."""
        device = DeviceFacts(index, uuid_text(uuid))
        return next((stack for named, stack in self.named if named.fits(device)), self.others)


OPEN = Board(digest="")
"""No policy at all: every gate is open."""


def build_board(placement: Placement, digest: str, plugins: Plugins = NO_PLUGINS) -> Board:
    """Compiles what `apply` lines name. The placement has been checked."""
    compiled: dict[tuple[str, tuple[tuple[str, Any], ...]], Applied] = {}

    def stack_of(placed: PlacedStack) -> Stack:
        found: list[Applied] = []
        for one in placed.policies:
            key = (one.policy.name, one.arguments)
            if key not in compiled:
                compiled[key] = applied(compile_policy(one.policy, one.arguments, plugins))
            found.append(compiled[key])
        return tuple(found)

    named = tuple((one, stack_of(one.stack)) for one in placement.named)
    others = stack_of(placement.every)
    return Board(digest=digest, applied=tuple(compiled.values()), named=named, others=others)


def applied(program: Program) -> Applied:
    """Everything of a program that the engine asks for often."""
    ir = program.ir
    signals = [ref for ref in (*program.signals, *program.tenant_signals) if ref != TENANT_CLASS]
    return Applied(
        program=program,
        arbiter=_arbiter(program),
        knobs={(knob.job_class, knob.name): index for index, knob in enumerate(program.knobs)},
        tenant_knobs={(knob.job_class, knob.name): index for index, knob in enumerate(program.tenant_knobs)},
        each=frozenset(each.job_class for each in ir.eaches),
        reads=frozenset(ref.name if ref.scope == "class" else f"{ref.scope}.{ref.name}" for ref in signals),
        label_amounts=tuple(found for job_class in ir.classes for found in _label_amounts(job_class.match)),
    )


def nanoseconds(duration: Any) -> int:
    """A duration of the language, as pages keep it."""
    return FOREVER_NS if duration == math.inf or duration > LONGEST_NS else int(duration)


def duration(value: Any) -> int | None:
    """A limit in time likewise; None: unlimited."""
    found = nanoseconds(value)
    return None if found == FOREVER_NS else max(found, 1)


def launches(count: Any) -> int | None:
    """A number of launches likewise; None: unlimited."""
    return None if count == math.inf or count >= 2**32 else max(int(count), 1)


def _label_amounts(expression: IrExpr) -> Iterator[tuple[str, str]]:
    if isinstance(expression, TenantRead) and expression.field.startswith("label_"):
        yield expression.field.removeprefix("label_"), expression.key
    for argument in expression.args if isinstance(expression, Op | PureCall) else ():
        yield from _label_amounts(argument)


def ranks(order: Any) -> dict[str, int]:
    """`[high, [near, low], scrap]` → class → rank."""
    found: dict[str, int] = {}
    for rank, entry in enumerate(order):
        for name in (entry,) if isinstance(entry, str) else entry:
            found[name] = rank
    return found


def _arbiter(program: Program) -> Arbiter | None:
    ir = program.ir
    if ir.arbiter is None:
        return None
    settings = ir.arbiter.settings
    failsafe = _failsafe(program)
    if ir.arbiter.mode == "share":
        period = min(nanoseconds(settings["period"].value), LONGEST_PERIOD_NS)
        reclaim = nanoseconds(settings["reclaim"].value) if "reclaim" in settings else max(period // 10, 1)
        return Arbiter(mode="share", ranks={}, period_ns=period, reclaim_ns=reclaim, failsafe=failsafe)
    if ir.arbiter.mode == "exclusive":
        order = settings.get("order")
        by_rank = ranks(order.value) if order is not None else {}
        return Arbiter(mode="exclusive", ranks=by_rank, turns=_turns(program, settings), failsafe=Failsafe(None))
    if ir.arbiter.mode != "preempt":
        return Arbiter(mode=ir.arbiter.mode, ranks={}, failsafe=failsafe)
    max_pause, inflight, passes = settings.get("max_pause"), settings.get("max_inflight"), settings.get("pass")
    inflight_time = settings.get("max_inflight_time")
    by_class = ranks(settings["order"].value)
    rises = {one.name: one.settings["rise_after"].value for one in ir.classes if "rise_after" in one.settings}
    return Arbiter(
        mode="preempt",
        ranks=by_class,
        resume_after_ns=nanoseconds(settings["resume_after"].value),
        max_pause_ns=nanoseconds(max_pause.value) if max_pause else DEFAULT_MAX_PAUSE_NS,
        max_inflight=launches(inflight.value) if inflight else None,
        max_inflight_ns=duration(inflight_time.value) if inflight_time else None,
        pass_ns=nanoseconds(passes.value) if passes else 0,
        shared=_shared(program, by_class),
        rise_after_ns={name: nanoseconds(after) for name, after in rises.items() if after != math.inf},
        failsafe=failsafe,
    )


def _turns(program: Program, settings: Mapping[str, Any]) -> Turns:
    rows = {row.name: row.default for row in BLOCKS["arbitrate", "exclusive"]}
    said = {name: settings[name].value if name in settings else default for name, default in rows.items()}
    max_hold = nanoseconds(said["max_hold"])
    longest = max_hold * 10 if said["max_wait"] is None else said["max_wait"]
    return Turns(
        max_hold_ns=max_hold,
        fair=said["queue"] == "fair",
        min_hold_ns=None if said["min_hold"] is None else nanoseconds(said["min_hold"]),
        max_wait_ns=nanoseconds(longest),
        grace_ns=nanoseconds(said["grace"]),
        max_overrun_ns=nanoseconds(said["max_overrun"]),
        idle_release_ns=nanoseconds(said["idle_release"]),
        swap=_swap(program),
    )


def _swap(program: Program) -> Swap | None:
    block = program.ir.swap
    if block is None:
        return None
    rows = {row.name: row.default for row in BLOCKS["swap", ""]}
    said = {name: block.settings[name].value if name in block.settings else rows[name] for name in rows}
    keep = said["keep"]
    return Swap(evict=said["evict"], keep=int(min(keep, LONGEST_NS)))


def _shared(program: Program, by_class: Mapping[str, int]) -> frozenset[int]:
    named = {site.knob.job_class for site in program.sites if site.knob.name == "share"}
    named |= {one.name for one in program.ir.classes if "share" in one.settings}
    classes = [*by_class.values()]
    return frozenset(rank for name, rank in by_class.items() if name in named or classes.count(rank) > 1)


def _failsafe(program: Program) -> Failsafe | None:
    block = program.ir.failsafe
    if block is None:
        return None
    word = block.settings["daemon_lost"].value
    after = block.settings.get("after")
    if word == "closed":
        return Failsafe(None)
    held = 0 if word == "open" else nanoseconds(after.value) if after else DEFAULT_AFTER_NS
    return Failsafe(None if held == FOREVER_NS else held)
