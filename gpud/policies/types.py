"""Types of the language, and what arithmetic makes of them.

How values are kept while a program runs: bool · number int|float · ratio float (1.0 = 100 %) · duration ns · bytes int
· rate float per second · bandwidth float bytes per second · text str · residency "device"|"host"|"disk" · share
`Share` · class and enumerations str. `unlimited` is `math.inf` and fits every type of `CAPS`. A value that is not
known is None.
"""

from enum import Enum


class Type(Enum):
    """The name a message uses is the value: "a duration"."""

    BOOL = "a condition"
    NUMBER = "a plain number"
    RATIO = "a percentage"
    DURATION = "a duration"
    BYTES = "an amount of memory"
    RATE = "a rate"
    BANDWIDTH = "a bandwidth"
    TEXT = "a text"
    CLASS = "a class"
    SHARE = "a share"
    RESIDENCY = "a place for memory"
    UNLIMITED = "unlimited"
    CHOICE = "a word"
    """One of the words a setting lists."""
    LIST = "a list"


CAPS = frozenset({Type.NUMBER, Type.RATIO, Type.DURATION, Type.BYTES, Type.RATE, Type.BANDWIDTH})
"""Types that `unlimited` fits."""

EXAMPLES = {
    Type.BOOL: "true",
    Type.NUMBER: "4",
    Type.RATIO: "30%",
    Type.DURATION: "250ms",
    Type.BYTES: "4GiB",
    Type.RATE: "2000/s",
    Type.BANDWIDTH: "2GiB/s",
    Type.TEXT: '"online"',
    Type.SHARE: "weight(2)",
    Type.RESIDENCY: "host",
}
"""For `= help: for example …`."""

_N, _P, _D, _B, _R, _W = Type.NUMBER, Type.RATIO, Type.DURATION, Type.BYTES, Type.RATE, Type.BANDWIDTH
_SCALED = (_N, _P, _D, _B, _R, _W)

ARITHMETIC: dict[tuple[str, Type, Type], Type] = {}
"""(operator, left, right) → result; what is not here is an error."""
for _t in _SCALED:
    ARITHMETIC["+", _t, _t] = ARITHMETIC["-", _t, _t] = _t
    ARITHMETIC["/", _t, _t] = _N
    for _factor in (_N, _P):
        ARITHMETIC["*", _factor, _t] = ARITHMETIC["*", _t, _factor] = _t
        if _t is not _factor:
            ARITHMETIC["/", _t, _factor] = _t
ARITHMETIC["*", _N, _N] = _N
ARITHMETIC["*", _N, _P] = ARITHMETIC["*", _P, _N] = ARITHMETIC["*", _P, _P] = _P
ARITHMETIC["/", _P, _P] = ARITHMETIC["/", _N, _P] = _N
ARITHMETIC["/", _P, _N] = _P
ARITHMETIC |= {
    ("*", _R, _D): _N,
    ("*", _D, _R): _N,
    ("*", _W, _D): _B,
    ("*", _D, _W): _B,
    ("/", _B, _D): _W,
    ("/", _N, _D): _R,
    ("/", _N, _R): _D,
    ("/", _B, _W): _D,
}


def per_second(op: str, left: Type, right: Type) -> int:
    """Durations are kept in nanoseconds, rates and bandwidths per second: what comes out of `op` must be multiplied by
    10⁹ (1), divided by it (-1), or is right (0)."""
    result = ARITHMETIC[op, left, right]
    if op == "*":
        return -1 if {left, right} & {_R, _W} and _D in (left, right) else 0
    if op == "/" and result in (_R, _W):
        return 1 if right is _D else 0
    return 1 if op == "/" and result is _D and right in (_R, _W) else 0
