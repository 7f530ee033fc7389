"""The vocabulary of the language as tables: signals, knobs, blocks, functions. `check`, `explain`, the manual
(`gpud policy docs`), completion and the daemon all read these rows; a new word is a row here.
"""

from typing import Any, NamedTuple

from gpud.policies.types import Type
from gpud.policies.values import EQUAL

UNLIMITED = float("inf")
MODES = ("open", "preempt", "share", "exclusive")
_ALL = frozenset(MODES)


class Range(NamedTuple):
    """What a number may be: from `least` (`above`: not `least` itself) to `most`."""

    least: Any = 0
    above: bool = False
    most: Any = UNLIMITED

    def holds(self, value: Any) -> bool:
        return self.least <= value <= self.most and not (self.above and value == self.least)


NOT_NEGATIVE = Range()
POSITIVE = Range(0, True)
ONE_OR_MORE = Range(1)
PART = Range(0, True, 1)
"""More than 0 %, at most 100 %."""
MICROSECOND_OR_MORE = Range(1_000)
"""Pages keep microseconds, and 0 says unlimited there."""


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
    range: Range = NOT_NEGATIVE
    """What makes sense; outside is GP206."""

    @property
    def in_each(self) -> bool:
        """It holds for each tenant, so a rule about one may set it."""
        return self.holds in ("tenant", "turn")


KNOBS = {
    row.name: row
    for row in (
        Knob("pause", Type.BOOL, "hold every launch of the class", "class", "any", _ALL, False),
        Knob("yield", Type.BOOL, "held while a higher rank is active", "class", "any", frozenset({"preempt"}), True),
        Knob("max_launch_rate", Type.RATE, "kernel launches", "unit", "min", _ALL, UNLIMITED),
        Knob("max_block_rate", Type.RATE, "thread blocks", "unit", "min", _ALL, UNLIMITED),
        Knob("max_compute", Type.RATIO, "GPU time", "unit", "min", _ALL, UNLIMITED, Range(0, False, 1)),
        Knob("max_copy_rate", Type.BANDWIDTH, "bytes copied", "unit", "min", _ALL, UNLIMITED),
        Knob(
            "max_inflight", Type.NUMBER, "launches submitted and unfinished", "tenant", "min",
            _ALL - {"exclusive"}, UNLIMITED, ONE_OR_MORE,
        ),
        Knob(
            "max_inflight_time", Type.DURATION, "GPU time submitted and unfinished", "tenant", "min",
            _ALL - {"exclusive"}, UNLIMITED, MICROSECOND_OR_MORE,
        ),
        Knob(
            "share", Type.SHARE, "claim on GPU time of each unit", "unit", "none",
            frozenset({"share", "preempt"}), EQUAL,
        ),
        Knob(
            "max_hold", Type.DURATION, "length of a turn", "turn", "min",
            frozenset({"exclusive"}), UNLIMITED, MICROSECOND_OR_MORE,
        ),
        Knob(
            "max_overrun", Type.DURATION, "how long a job is late before it is ended", "turn", "min",
            frozenset({"exclusive"}), UNLIMITED,
        ),
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
    a ratio, or `soft(ratio)`; `memory`: bytes.

    What the value is: as types.py says for types. `order`: a tuple of ranks from high to low, each a tuple of class
    names. `tiers`: a tuple of `Tier`. `per`: as IrClass.per. Words: a str, with an argument `Choice(word, argument)`.
    `compute`: a ratio, `Choice("soft", ratio)` or a `LabelValue`; `memory`: bytes or a `LabelValue`.
    """
    required: bool
    default: Any
    doc: str
    unlimited: bool = False
    """May be `unlimited`."""
    range: Range = NOT_NEGATIVE


BLOCKS: dict[tuple[str, str], tuple[Row, ...]] = {
    ("arbitrate", "open"): (),
    ("arbitrate", "preempt"): (
        Row("order", "order", True, None, "classes from high to low; a list inside is one rank"),
        Row("resume_after", "duration", True, None, "how long all higher ranks must be idle"),
        Row(
            "max_inflight",
            "number",
            False,
            UNLIMITED,
            "base of the knob for all classes but the first",
            True,
            ONE_OR_MORE,
        ),
        Row(
            "max_inflight_time",
            "duration",
            False,
            UNLIMITED,
            "base of the knob for all classes but the first",
            True,
            MICROSECOND_OR_MORE,
        ),
        Row(
            "max_pause",
            "duration",
            False,
            2_000_000_000,
            "after this a held tenant gets something through",
            True,
            MICROSECOND_OR_MORE,
        ),
        Row(
            "pass",
            "duration",
            False,
            None,
            "what gets through: GPU time; absent: one kernel",
            range=MICROSECOND_OR_MORE,
        ),
    ),
    ("arbitrate", "share"): (
        Row("period", "duration", True, None, "shares hold over this time", range=MICROSECOND_OR_MORE),
        Row(
            "reclaim",
            "duration",
            False,
            None,
            "lent time comes back within this; absent: a tenth of the period",
            range=MICROSECOND_OR_MORE,
        ),
    ),
    ("arbitrate", "exclusive"): (
        Row("max_hold", "duration", True, None, "length of a turn", True, MICROSECOND_OR_MORE),
        Row("order", "order", False, None, "classes from high to low; absent: one rank"),
        Row("queue", "fifo|fair", False, "fifo", "who is next within a rank"),
        Row(
            "min_hold",
            "duration",
            False,
            None,
            "never asked back before; absent: 5 × the last swap-in, at most max_hold",
        ),
        Row(
            "max_wait", "duration", False, None, "then first, whatever the rank; absent: 10 × max_hold", True, POSITIVE
        ),
        Row("grace", "duration", False, 2_000_000_000, "between asking back and taking back"),
        Row(
            "max_overrun",
            "duration",
            False,
            UNLIMITED,
            "who has still not given it back so long after `grace` is ended, while others wait",
            True,
        ),
        Row(
            "idle_release",
            "duration",
            False,
            500_000_000,
            "an owner that launches nothing gives the lock up",
            True,
            MICROSECOND_OR_MORE,
        ),
    ),
    ("swap", ""): (
        Row("tiers", "tiers", True, None, "where memory goes, in this order; sizes are totals of the node"),
        Row("evict", "oldest|largest", False, "oldest", "whose memory leaves first"),
        Row("keep", "bytes", False, 0, "head-room left free after a swap-in"),
    ),
    ("admit", ""): (
        Row("memory", "ratio", False, 1.0, "sum of promised memory, of the device", range=POSITIVE),
        Row("compute", "ratio", False, 1.0, "sum of promised compute, of the device", range=POSITIVE),
        Row("when_full", "reject|queue(duration)", False, "reject", "what happens to who does not fit"),
    ),
    ("failsafe", ""): (
        Row("daemon_lost", "open|hold|closed", True, None, "what a hook does once the daemon's lease has run out"),
        Row("after", "duration", False, 30_000_000_000, "how long `hold` holds before it opens", True),
    ),
    ("limit", ""): (
        Row("memory", "memory", False, UNLIMITED, "device memory of each tenant", True, POSITIVE),
        Row(
            "compute", "compute", False, UNLIMITED, "GPU time of each tenant; soft(…) while others want it", True, PART
        ),
        Row("tenants", "number", False, UNLIMITED, "members per unit", True, ONE_OR_MORE),
        Row("over_memory", "fail|wait(duration)|spill(residency)", False, "fail", "an allocation over the limit"),
    ),
}
"""(kind, mode) → settings. `limit` stands in a class, the others in a policy."""

CLASS_SETTINGS = (
    Row("share", "share", False, EQUAL, "claim on GPU time of each unit (under share and preempt)"),
    Row("per", "per", False, "class", "what shares together: class, tenant, user, group, namespace, label(…)"),
    Row(
        "rise_after",
        "duration",
        False,
        UNLIMITED,
        "attached longer than this: one rank up (under preempt)",
        True,
        POSITIVE,
    ),
)


class Parameter(NamedTuple):
    """Of a function or an operator."""

    name: str
    type: Type | None
    """None: any type with a cap (`min`), or as the other arguments (`aimd`: a rate or a ratio)."""
    required: bool = True
    default: Any = None
    doc: str = ""
    live: bool = False
    """May change from tick to tick; the others are constants."""
    range: Range = NOT_NEGATIVE
    unlimited: bool = False


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
                Parameter("x", None, doc="what is smoothed", live=True),
                Parameter("half_life", Type.DURATION, doc="after this time an old value counts half", range=POSITIVE),
            ),
            None,
            4,
            "exponentially weighted moving average",
        ),
        Operator(
            "peak",
            (
                Parameter("x", None, doc="what is looked at", live=True),
                Parameter(
                    "span",
                    Type.DURATION,
                    False,
                    UNLIMITED,
                    "values older than this are forgotten",
                    range=POSITIVE,
                    unlimited=True,
                ),
                Parameter("forget", Type.BOOL, False, False, "while true, all older values are forgotten", True),
            ),
            None,
            8,
            "the greatest value (of the last `span`, since `forget` was true)",
        ),
        Operator(
            "level",
            (
                Parameter("x", None, doc="what is looked at", live=True),
                Parameter("over", Type.DURATION, doc="how long to learn; the second half counts", range=POSITIVE),
                Parameter("forget", Type.BOOL, False, False, "while true, x is given; then it is learnt anew", True),
            ),
            None,
            6,
            "what x usually is: its mean while it was learnt, at the start and after `forget`",
        ),
        Operator(
            "shifted",
            (
                Parameter("x", None, doc="what is looked at", live=True),
                Parameter("more_than", Type.RATIO, doc="how far from where it was", range=POSITIVE),
                Parameter(
                    "rising",
                    Type.DURATION,
                    doc="how long it must be above; four times as long if it is a quarter as far",
                ),
                Parameter(
                    "falling",
                    Type.DURATION,
                    doc="how long it must be below; ten times as long if it is a quarter as far",
                ),
            ),
            Type.BOOL,
            8,
            "true at the tick at which x is found to have moved to another level",
        ),
        Operator(
            "aimd",
            (
                Parameter("hurt", Type.BOOL, doc="while true, go down", live=True),
                Parameter(
                    "probe", Type.BOOL, False, False, "true: stand aside at `floor` for `settle` and begin anew", True
                ),
                Parameter("settle", Type.DURATION, False, 0, "how long to stand aside, at start and after a probe"),
                Parameter("period", Type.DURATION, doc="one step per period", range=POSITIVE),
                Parameter("start", None, doc="first value after standing aside"),
                Parameter("floor", None, doc="never below"),
                Parameter("ceiling", None, doc="never above"),
                Parameter("add", None, doc="step up", range=POSITIVE),
                Parameter("multiply", Type.RATIO, doc="factor of a step down, below 100 %", range=PART),
                Parameter(
                    "ramp", Type.NUMBER, False, 1.0, "factor of a step up until the first `hurt`", range=ONE_OR_MORE
                ),
                Parameter(
                    "used",
                    None,
                    False,
                    UNLIMITED,
                    "what is taken of it: a step down begins at 5/4 of this at most",
                    True,
                ),
            ),
            None,
            12,
            "additive increase, multiplicative decrease: a rate or a ratio",
        ),
        Operator(
            "tgs",
            (
                Parameter("received", Type.RATE, doc="blocks of the job that must not be hurt", live=True),
                Parameter(
                    "report",
                    Type.DURATION,
                    False,
                    5_000_000_000,
                    "a step each; rates are means over it",
                    range=POSITIVE,
                ),
                Parameter("window", Type.NUMBER, False, 5, "reports that a profile takes at least", range=ONE_OR_MORE),
                Parameter("alike", Type.RATIO, False, 0.05, "a profile ends when two rates differ by no more"),
                Parameter("margin", Type.RATIO, False, 0.025, "of a rate that is taken for the job's own", range=PART),
                Parameter("start", Type.RATE, False, 400_000.0, "first limit: 20,000 blocks per 50 ms"),
                Parameter("ramp", Type.NUMBER, False, 1.5, "factor of a step in slow start", range=ONE_OR_MORE),
                Parameter("ramp_add", Type.RATE, False, 20.0, "added to it: 1 block per 50 ms"),
                Parameter("tolerance", Type.RATIO, False, 0.03, "how far from its own rate is not hurt"),
                Parameter("add", Type.RATIO, False, 0.025, "step up, of the job's own rate"),
                Parameter("add_least", Type.RATE, False, 20_000.0, "at least: 1,000 blocks per 50 ms"),
                Parameter("cut", Type.RATIO, False, 0.08, "step down, of the limit", range=PART),
                Parameter("cut_least", Type.RATE, False, 20_000.0, "at least: 1,000 blocks per 50 ms"),
                Parameter("far", Type.RATIO, False, 0.09, "so far away: `far_factor`, and slow start"),
                Parameter("far_factor", Type.RATIO, False, 0.1, "of the limit", range=PART),
                Parameter("stuck", Type.RATIO, False, 0.12, "so far away for `stuck_reports`: the rate was wrong"),
                Parameter("stuck_reports", Type.NUMBER, False, 20, "in a row", range=ONE_OR_MORE),
                Parameter("stuck_forget", Type.RATIO, False, 0.8, "of the job's own rate, then", range=PART),
                Parameter("stuck_factor", Type.RATIO, False, 0.5, "of the limit, then", range=PART),
                Parameter("again", Type.RATIO, False, 0.2, "further away: profile again"),
                Parameter("idle", Type.RATE, False, 200.0, "below: idle; 1,000 blocks per report of 5 s"),
            ),
            Type.RATE,
            12,
            "the limit of a low job as TGS steers it (NSDI'23)",
        ),
    )
}

CONSTRUCTORS = {
    "fixed": (Parameter("part", Type.RATIO, range=PART),),
    "weight": (Parameter("weight", Type.NUMBER, range=POSITIVE),),
    "burst": (
        Parameter("weight", Type.NUMBER, range=POSITIVE),
        Parameter("max", Type.RATIO, False, 1.0, "of the device", range=PART),
    ),
    "host": (Parameter("max", Type.BYTES, range=POSITIVE, unlimited=True),),
    "disk": (
        Parameter("path", Type.TEXT),
        Parameter("max", Type.BYTES, range=POSITIVE, unlimited=True),
    ),
    "wait": (Parameter("max", Type.DURATION, range=POSITIVE, unlimited=True),),
    "queue": (Parameter("max", Type.DURATION, range=POSITIVE, unlimited=True),),
    "spill": (Parameter("to", Type.RESIDENCY),),
    "soft": (Parameter("part", Type.RATIO, range=PART),),
    "label": (Parameter("key", Type.TEXT),),
    "label_bytes": (Parameter("key", Type.TEXT), Parameter("default", Type.BYTES, False, range=POSITIVE)),
    "label_percent": (Parameter("key", Type.TEXT), Parameter("default", Type.RATIO, False, range=PART)),
}  # fmt: skip
"""Functions that make a value once, at load or when a tenant attaches. All their arguments are constants."""
SHARES = ("fixed", "weight", "burst")

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
