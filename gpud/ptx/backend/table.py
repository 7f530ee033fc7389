"""The table of instructions: opcode to the function that writes its C code."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.types import SCALARS, Scalar
from gpud.ptx.errors import PtxError

Handler = Callable[[Emitter, ast.Instruction], None]

TABLE: dict[str, Handler] = {}


def instruction(*opcodes: str) -> Callable[[Handler], Handler]:
    """Enters a handler for these opcodes."""

    def enter(handler: Handler) -> Handler:
        for opcode in opcodes:
            if opcode in TABLE:
                raise ValueError(f"two handlers for {opcode}")
            TABLE[opcode] = handler
        return handler

    return enter


class Form:
    """The modifiers of an instruction, sorted: `types` in order, `flags` the rest. Unknown ones are refused."""

    def __init__(self, ins: ast.Instruction, flags: Iterable[str] = (), *, types: int | tuple[int, ...] = 1) -> None:
        allowed = frozenset(flags)
        self.types: list[Scalar] = []
        self.flags: set[str] = set()
        for modifier in ins.modifiers:
            scalar = SCALARS.get(modifier)
            if scalar is not None:
                self.types.append(scalar)
            elif modifier in allowed:
                self.flags.add(modifier)
            else:
                raise PtxError(f"the modifier .{modifier} is not supported with {ins.opcode}")
        wanted = (types,) if isinstance(types, int) else types
        if len(self.types) not in wanted:
            raise PtxError(f"{ins.opcode} needs {' or '.join(map(str, wanted))} types, {len(self.types)} given")

    @property
    def type(self) -> Scalar:
        """The last type, which is the operands'."""
        return self.types[-1]

    def __contains__(self, flag: str) -> bool:
        return flag in self.flags

    def one_of(self, *flags: str, default: str = "") -> str:
        """The flag among `flags` that is set."""
        for flag in flags:
            if flag in self.flags:
                return flag
        return default

    def required(self, *flags: str) -> str:
        """The flag among `flags` that is set; refused where none is."""
        found = self.one_of(*flags)
        if not found:
            raise PtxError(f"one of .{', .'.join(flags)} is needed")
        return found


def operands(ins: ast.Instruction, *counts: int) -> tuple[ast.Operand, ...]:
    """The operands, refused where their number is not one of `counts`."""
    if len(ins.operands) not in counts:
        raise PtxError(f"{len(ins.operands)} operands where {' or '.join(map(str, counts))} belong")
    return ins.operands


def need(scalar: Scalar, allowed: str) -> None:
    """Refuses a type that is not in `allowed`, a string such as "u32 s32 f64"."""
    if str(scalar) not in allowed.split():
        raise PtxError(f"the type .{scalar} is not supported here")
