"""The vocabulary of the language as tables: signals, knobs, blocks, functions. `check`, `explain`, the manual
(`gpud policy docs`), completion and the daemon all read these rows; a new word is a row here.
"""

from typing import Any, NamedTuple

from gpud.policies.types import Type
from gpud.policies.values import EQUAL

UNLIMITED = float("inf")
MODES = ("open", "preempt", "share", "exclusive")
_ALL = frozenset(MODES)


class Signal(NamedTuple):
    """Something measured."""

    name: str
    type: Type
    scope: str
    """`class`, `gpu`, `host`."""
    doc: str
    idle: Any = 0
    """What a class without members, or without launches, has; for gpu and host: what a test begins with."""
    of_tenant: bool = False
    """May be read of one tenant, inside `each`."""


SIGNALS = {
    (row.scope, row.name): row
    for row in (
        Signal("active", Type.BOOL, "class", "any member has work on the device", False, True),
        Signal("idle_for", Type.DURATION, "class", "how long all members have been idle", UNLIMITED, True),
        Signal("queued", Type.NUMBER, "class", "launches held at the gate now", 0, True),
        Signal("launch_rate", Type.RATE, "class", "kernel launches, last 100 ms", 0.0, True),
        Signal("block_rate", Type.RATE, "class", "thread blocks launched, last 100 ms", 0.0, True),
        Signal("copy_rate", Type.BANDWIDTH, "class", "bytes copied, last 100 ms", 0.0, True),
        Signal("busy", Type.RATIO, "class", "measured GPU time, last 100 ms", 0.0, True),
        Signal("wait_p99", Type.DURATION, "class", "wait at the gate, 99th percentile of all launches of 1 s", 0, True),
        Signal("delay_p99", Type.DURATION, "class", "launch to start, sampled, 99th percentile of 1 s", 0, True),
        Signal("memory_used", Type.BYTES, "class", "device memory held", 0, True),
        Signal("tenants", Type.NUMBER, "class", "members"),
        Signal("waiters", Type.NUMBER, "class", "members that wait for the device lock"),
        Signal("longest_wait", Type.DURATION, "class", "the longest wait for the device lock now", 0, True),
        Signal("busy", Type.RATIO, "gpu", "measured GPU time of all classes, last 100 ms", 0.0),
        Signal("memory_free", Type.BYTES, "gpu", "device memory nobody holds", 40 * 2**30),
        Signal("memory_total", Type.BYTES, "gpu", "device memory", 40 * 2**30),
        Signal("waiters", Type.NUMBER, "gpu", "tenants that wait for the device lock"),
        Signal("power", Type.NUMBER, "gpu", "power drawn, watt"),
        Signal("temperature", Type.NUMBER, "gpu", "temperature, °C"),
        Signal("memory_free", Type.BYTES, "host", "host memory that is free", 64 * 2**30),
    )
}


class Knob(NamedTuple):
    """Something a rule may set."""

    name: str
    type: Type
    doc: str
    holds: str
    """`class`, `unit`, `tenant`, `turn`, `new` (tenants not attached yet)."""
    combine: str
    """How siblings meet: `any`, `all`, `min`, `furthest`, `none`."""
    modes: frozenset[str]
    """Arbiters under which it has an effect (a policy without one: all)."""
    default: Any
    finest: Any = None
    """The smallest that makes sense; below is GP206."""

    @property
    def in_each(self) -> bool:
        """It holds for each tenant, so a rule about one may set it."""
        return self.holds in ("tenant", "turn")


KNOBS = {
    row.name: row
    for row in (
        Knob("pause", Type.BOOL, "hold every launch of the class", "class", "any", _ALL, False),
        Knob("yield", Type.BOOL, "held while a higher rank is active", "class", "any", frozenset({"preempt"}), True),
        Knob("max_launch_rate", Type.RATE, "kernel launches", "unit", "min", _ALL, UNLIMITED, 0),
        Knob("max_block_rate", Type.RATE, "thread blocks", "unit", "min", _ALL, UNLIMITED, 0),
        Knob("max_compute", Type.RATIO, "GPU time", "unit", "min", _ALL, UNLIMITED, 0),
        Knob("max_copy_rate", Type.BANDWIDTH, "bytes copied", "unit", "min", _ALL, UNLIMITED, 0),
        Knob(
            "max_inflight", Type.NUMBER, "launches submitted and unfinished", "tenant", "min",
            _ALL - {"exclusive"}, UNLIMITED, 1,
        ),
        Knob(
            "max_inflight_time", Type.DURATION, "GPU time submitted and unfinished", "tenant", "min",
            _ALL - {"exclusive"}, UNLIMITED, 1,
        ),
        Knob(
            "share", Type.SHARE, "claim on GPU time of each unit", "unit", "none",
            frozenset({"share", "preempt"}), EQUAL,
        ),
        Knob("max_hold", Type.DURATION, "length of a turn", "turn", "min", frozenset({"exclusive"}), UNLIMITED, 1),
        Knob("admit", Type.BOOL, "let new tenants attach", "new", "all", _ALL, True),
        Knob("residency", Type.RESIDENCY, "where the class's memory may live", "tenant", "furthest", _ALL, "device"),
    )
}  # fmt: skip


class Row(NamedTuple):
    """One setting of a block."""

    name: str
    kind: str
    """`number`, `ratio`, `duration`, `bytes`, `bool`, `order`, `tiers`, `share`, `per`; or words separated by `|`, each
    with the kind of its argument in parentheses where it takes one: `fail|wait(duration)|spill(residency)`; `compute`:
    a ratio, or `soft(ratio)`."""
    required: bool
    default: Any
    doc: str
    unlimited: bool = False
    """May be `unlimited`."""


BLOCKS: dict[tuple[str, str], tuple[Row, ...]] = {
    ("arbitrate", "open"): (),
    ("arbitrate", "preempt"): (
        Row("order", "order", True, None, "classes from high to low; a list inside is one rank"),
        Row("resume_after", "duration", True, None, "how long all higher ranks must be idle"),
        Row("max_inflight", "number", False, UNLIMITED, "base of the knob for all classes but the first", True),
        Row("max_inflight_time", "duration", False, UNLIMITED, "base of the knob for all classes but the first", True),
        Row("max_pause", "duration", False, 2_000_000_000, "after this a held tenant gets something through", True),
        Row("pass", "duration", False, None, "what gets through: GPU time; absent: one kernel"),
    ),
    ("arbitrate", "share"): (
        Row("period", "duration", True, None, "shares hold over this time"),
        Row("reclaim", "duration", False, None, "lent time comes back within this; absent: a tenth of the period"),
    ),
    ("arbitrate", "exclusive"): (
        Row("max_hold", "duration", True, None, "length of a turn", True),
        Row("order", "order", False, None, "classes from high to low; absent: one rank"),
        Row("queue", "fifo|fair", False, "fifo", "who is next within a rank"),
        Row("min_hold", "duration", False, None, "never asked back before; absent: 5 × the last swap-in"),
        Row("max_wait", "duration", False, None, "then first, whatever the rank; absent: 10 × max_hold", True),
        Row("grace", "duration", False, 2_000_000_000, "between asking back and taking back"),
        Row("idle_release", "duration", False, 500_000_000, "an owner that launches nothing gives the lock up", True),
    ),
    ("swap", ""): (
        Row("tiers", "tiers", True, None, "where memory goes, in this order; sizes are totals of the node"),
        Row("evict", "oldest|largest", False, "oldest", "whose memory leaves first"),
        Row("keep", "bytes", False, 0, "head-room left free after a swap-in"),
    ),
    ("admit", ""): (
        Row("memory", "ratio", False, 1.0, "sum of promised memory, of the device"),
        Row("compute", "ratio", False, 1.0, "sum of promised compute, of the device"),
        Row("when_full", "reject|queue(duration)", False, "reject", "what happens to who does not fit"),
    ),
    ("failsafe", ""): (
        Row("daemon_lost", "open|hold|closed", True, None, "what a hook does once the daemon's lease has run out"),
        Row("after", "duration", False, 30_000_000_000, "how long `hold` holds before it opens", True),
    ),
    ("limit", ""): (
        Row("memory", "bytes", False, UNLIMITED, "device memory of each tenant", True),
        Row("compute", "compute", False, UNLIMITED, "GPU time of each tenant; soft(…) while others want it", True),
        Row("tenants", "number", False, UNLIMITED, "members per unit", True),
        Row("over_memory", "fail|wait(duration)|spill(residency)", False, "fail", "an allocation over the limit"),
    ),
}
"""(kind, mode) → settings. `limit` stands in a class, the others in a policy."""

CLASS_SETTINGS = (
    Row("share", "share", False, EQUAL, "claim on GPU time of each unit (under share and preempt)"),
    Row("per", "per", False, "class", "what shares together: class, tenant, user, group, namespace, label(…)"),
    Row("rise_after", "duration", False, UNLIMITED, "attached longer than this: one rank up (under preempt)", True),
)


class Parameter(NamedTuple):
    """Of a function or an operator."""

    name: str
    type: Type | None
    """None: any type with a cap (`min`), or as the other arguments (`aimd`: a rate or a ratio)."""
    required: bool = True
    default: Any = None
    doc: str = ""


class Operator(NamedTuple):
    """Keeps a state from tick to tick; O(1) an update, bounded."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | None
    """None: the type of the first parameter of type None."""
    cost: int
    doc: str


OPERATORS = {
    row.name: row
    for row in (
        Operator(
            "ewma",
            (
                Parameter("x", None, doc="what is smoothed"),
                Parameter("half_life", Type.DURATION, doc="after this time an old value counts half"),
            ),
            None,
            4,
            "exponentially weighted moving average",
        ),
        Operator(
            "peak",
            (
                Parameter("x", None, doc="what is looked at"),
                Parameter("span", Type.DURATION, False, UNLIMITED, "values older than this are forgotten"),
                Parameter("forget", Type.BOOL, False, False, "while true, all older values are forgotten"),
            ),
            None,
            8,
            "the greatest value (of the last `span`, since `forget` was true)",
        ),
        Operator(
            "shifted",
            (
                Parameter("x", None, doc="what is looked at"),
                Parameter("more_than", Type.RATIO, doc="how far from where it was"),
                Parameter("rising", Type.DURATION, doc="how long it must be above"),
                Parameter("falling", Type.DURATION, doc="how long it must be below"),
            ),
            Type.BOOL,
            8,
            "true at the tick at which x is found to have moved to another level",
        ),
        Operator(
            "aimd",
            (
                Parameter("hurt", Type.BOOL, doc="while true, go down"),
                Parameter("probe", Type.BOOL, False, False, "true: stand aside at `floor` for `settle` and begin anew"),
                Parameter("settle", Type.DURATION, False, 0, "how long to stand aside, at start and after a probe"),
                Parameter("period", Type.DURATION, doc="one step per period"),
                Parameter("start", None, doc="first value after standing aside"),
                Parameter("floor", None, doc="never below"),
                Parameter("ceiling", None, doc="never above"),
                Parameter("add", None, doc="step up"),
                Parameter("multiply", Type.RATIO, doc="factor of a step down"),
                Parameter("ramp", Type.NUMBER, False, 1.0, "factor of a step up until the first `hurt`"),
            ),
            None,
            12,
            "additive increase, multiplicative decrease: a rate or a ratio",
        ),
    )
}

PURE_FUNCTIONS = ("min", "max", "fixed", "weight", "burst", "host", "disk", "wait", "spill", "queue", "soft")
TENANT_FIELDS = ("cgroup", "exe", "user", "group", "namespace", "pod")
LABEL_FUNCTIONS = ("label", "label_bytes", "label_percent")

RESERVED = (
    "gpol", "use", "policy", "doc", "param", "let", "class", "match", "per", "hours", "each", "as", "in",
    "timezone", "during", "early", "when", "until", "for", "because", "guard", "else", "apply", "to", "test",
    "at", "from", "by", "expect", "attach", "feed", "every", "times", "clock", "simulate", "replay", "and", "or",
    "not", "true", "false", "unlimited",
)  # fmt: skip
"""Keywords, everywhere."""
NOT_NAMES = frozenset(
    {
        *("gpu", "host", "world", "any", "device", "disk", "equal"),
        *PURE_FUNCTIONS, *OPERATORS, *TENANT_FIELDS, *LABEL_FUNCTIONS,
    }
)  # fmt: skip
"""Names of things that a class, let, param or hours cannot be called (nor units and used plugins)."""

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MAX_NESTING = 4
MAX_CLASSES = 32
MAX_RULES = 256
MAX_STEPS = 2000
EACH_COST = 32
