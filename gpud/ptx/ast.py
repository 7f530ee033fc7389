"""PTX modules as data. Every node is frozen; `line` never takes part in comparisons."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Name:
    """A register, variable, label or function; `part` is the component of `%tid.x` or of a vector register."""

    text: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class Int:
    """An integer constant, as the 64-bit value it stands for: -2^63 .. 2^64 - 1."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating constant by its bit pattern; `bits` is 32 (0f...) or 64 (0d... and decimal)."""

    image: int
    bits: int


@dataclass(frozen=True, slots=True)
class Offset:
    """`variable+4` as a value or an initialiser."""

    base: Name
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, ...}`"""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`; `more` holds further operands within the brackets (textures, bulk copies)."""

    base: Name | Int
    offset: int = 0
    more: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """`!%p`"""

    operand: Name


@dataclass(frozen=True, slots=True)
class Negate:
    """`-%r`, which a few old instructions allow."""

    operand: Name


@dataclass(frozen=True, slots=True)
class Pair:
    """`%p|%q`: two results."""

    first: Name
    second: Name


@dataclass(frozen=True, slots=True)
class Group:
    """`(a, b)`: the results or the arguments of a call; also `generic(x)` within initialisers, with `text` set."""

    items: tuple[Operand, ...]
    text: str = ""


Operand = Name | Int | Float | Offset | Vector | Address | Not | Negate | Pair | Group


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`"""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """`opcode` is the first word, `modifiers` the rest without dots: `ld`, ("global", "v2", "f32")."""

    opcode: str
    modifiers: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    guard: Guard | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Label:
    name: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class BranchTargets:
    """`name: .branchtargets a, b, ...;`"""

    name: str
    labels: tuple[str, ...]
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Pragma:
    text: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Variable:
    """A declaration in any space, registers and parameters among them.

    `dims` are the array's sides, -1 for an open one; `count` is the n of `%r<n>` (registers name+0 .. name+n-1);
    `pointer` is ("global", 16) for `.ptr .global .align 16`; `initial` nests as in the text.
    """

    space: str
    type: str
    name: str
    align: int = 0
    vector: int = 1
    dims: tuple[int, ...] = ()
    count: int = 0
    initial: Operand | None = None
    linkage: tuple[str, ...] = ()
    pointer: tuple[str, int] | None = None
    attributes: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Block:
    """`{ ... }`: a scope of names."""

    body: tuple[Statement, ...]
    line: int = field(default=0, compare=False)


Statement = Instruction | Label | BranchTargets | Pragma | Variable | Block


@dataclass(frozen=True, slots=True)
class Directive:
    """A directive with numbers or words behind it: `.maxntid 256, 1, 1`; `pragma` for `.pragma "x"`."""

    name: str
    values: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """`.entry` or `.func`; `body` is None for a declaration."""

    entry: bool
    name: str
    params: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    directives: tuple[Directive, ...] = ()
    linkage: tuple[str, ...] = ()
    body: Block | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Alias:
    name: str
    target: str
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Module:
    """`version` is (8, 0) for 8.0; `target` the words of `.target`; `address_size` 32 or 64."""

    version: tuple[int, int]
    target: tuple[str, ...]
    address_size: int
    items: tuple[Function | Variable | Alias | Pragma, ...] = ()
