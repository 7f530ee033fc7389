"""Turns operands of one function into C expressions and keeps what each instruction reads, writes and leads to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpud.ptx import ast
from gpud.ptx.backend import special
from gpud.ptx.backend.scope import Register, Scope, Storage, Target
from gpud.ptx.backend.types import PRED, U32, U64, Scalar, float_literal, literal
from gpud.ptx.errors import PtxError


@dataclass(eq=False, slots=True)
class Code:
    """The C code of one step and its part in the flow of data and control.

    `suspend` numbers the point where the thread may wait (0: none); lines then hold the markers SAVE and RESTORE.
    `pure`: the lines depend on nothing but what they read, so they may run again.
    """

    lines: list[str] = field(default_factory=list)
    reads: set[Register] = field(default_factory=set)
    writes: set[Register] = field(default_factory=set)
    jumps: list[str] = field(default_factory=list)
    label: str = ""
    falls_through: bool = True
    guarded: bool = False
    pure: bool = False
    suspend: int = 0


SAVE = "\0save"
RESTORE = "\0restore"


class Emitter:
    """One for each C function. `uses` collects what the function needs of the prelude and of special registers.

    `suspends` tells whether waiting is possible here.
    """

    def __init__(self, *, suspends: bool, call: Callable[[Emitter, ast.Instruction], None]) -> None:
        self.suspends = suspends
        self.call = call
        self.scope: Scope
        self.end = ""
        self.code = Code()
        self.registers: dict[Register, None] = {}
        self.specials: dict[str, str] = {}
        self.uses: set[str] = set()
        self.resume_points = 0
        self.temporaries = 0

    def line(self, text: str) -> None:
        self.code.lines.append(text)

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    # reading

    def read(self, operand: ast.Operand, want: Scalar) -> str:
        """A C expression of type `want.c` with the operand's value.

        Raises PtxError where the operand cannot be one of that type.
        """
        if isinstance(operand, ast.Name):
            return self._name(operand, want)
        if isinstance(operand, ast.Int):
            return self._integer(operand, want)
        if isinstance(operand, ast.Float):
            return self._float(operand, want)
        if isinstance(operand, ast.Not):
            return f"(uint8_t)!{self.read(operand.operand, PRED)}"
        if isinstance(operand, ast.Negate):
            return f"({want.c})(-{self.read(operand.operand, want)})"
        if isinstance(operand, ast.Offset):
            base = self._name(operand.base, U64)
            return convert(f"({base} + {literal(operand.offset, U64)})", U64, want)
        raise PtxError("this operand cannot stand here")

    def _name(self, name: ast.Name, want: Scalar) -> str:
        found = self.scope.find(name.text, name.part)
        if isinstance(found, Register):
            self._touch(found, self.code.reads)
            return convert(found.cname, found.image, want)
        if isinstance(found, Storage):
            return convert(f"({found.address})", U64, want)
        if found is None:
            known = special.find(name)
            if known is not None:
                return convert(self.special(known), U64 if known.bits == 64 else U32, want)
            raise self.unknown(name)
        raise PtxError(
            f"the address of {name.text} is not supported here", remedy="function pointers and labels are no values"
        )

    def special(self, known: special.Special) -> str:
        """The C name of a special register; one that never changes is read once, at the start of the function."""
        self.uses.update(known.needs)
        if known.changes:
            self.code.pure = False
            return known.expression
        self.specials[known.cname] = known.expression
        return known.cname

    def unknown(self, name: ast.Name) -> PtxError:
        text = f"{name.text}.{name.part}" if name.part else name.text
        if text.startswith("%") and special.looks_special(name.text):
            return PtxError(f"the special register {text} is not supported")
        return PtxError(f"{text} is not declared", remedy=f"declare {text} before its use")

    def _integer(self, operand: ast.Int, want: Scalar) -> str:
        if want.kind == "p":
            return "1" if operand.value else "0"
        if want.kind == "f":
            raise PtxError(f"a whole number where a .{want} is needed", remedy="write 0f... or 0d... constants")
        return literal(operand.value, want)

    def _float(self, operand: ast.Float, want: Scalar) -> str:
        if want.kind == "f" and want.bits == operand.bits:
            return float_literal(operand.image, operand.bits)
        if want.kind == "f":
            return f"({want.c}){float_literal(operand.image, operand.bits)}"
        if want.bits == operand.bits:
            return literal(operand.image, want)
        raise PtxError(f"a floating constant where a .{want} is needed")

    def _touch(self, register: Register, group: set[Register]) -> None:
        group.add(register)
        self.registers[register] = None

    # writing

    def write(self, operand: ast.Operand, have: Scalar, value: str) -> None:
        """Assigns `value`, of type `have.c`, to a register; narrower values are extended by `have`'s sign."""
        if isinstance(operand, ast.Name) and operand.text == "_":
            self.line(f"(void)({value});")
            return
        register = self.register(operand)
        self._touch(register, self.code.writes)
        self.line(f"{register.cname} = {_store(value, have, register.image)};")

    def register(self, operand: ast.Operand) -> Register:
        if isinstance(operand, ast.Name):
            found = self.scope.find(operand.text, operand.part)
            if isinstance(found, Register):
                return found
            if found is None:
                raise self.unknown(operand)
        raise PtxError("the result must go to a register")

    # addresses and labels

    def address(self, operand: ast.Operand, space: str) -> str:
        """A C pointer value (uintptr_t) for the address operand of an access to `space` ("" for generic)."""
        if not isinstance(operand, ast.Address) or operand.more:
            raise PtxError("expected one address in brackets")
        base = operand.base
        if isinstance(base, ast.Int):
            text = literal(base.value, U64)
        else:
            found = self.scope.find(base.text, base.part)
            if isinstance(found, Storage):
                if found.space == "shared":
                    space = "shared"
                self.code.pure |= found.constant
                return self._absolute(f"{found.address}", operand.offset, space)
            if isinstance(found, Register) and found.image.bits == 32 and found.image.kind == "u":
                self._touch(found, self.code.reads)
                plus = f" + {literal(operand.offset, U32)}" if operand.offset else ""
                return self._absolute(f"(uint32_t)({found.cname}{plus})", 0, space)
            text = self._name(base, U64)
        return self._absolute(text, operand.offset, space)

    def _absolute(self, text: str, offset: int, space: str) -> str:
        plus = f" + {literal(offset, U64)}" if offset else ""
        if space == "shared":
            self.uses.add("shared")
            return f"(shared + ({text}{plus}))"
        return f"({text}{plus})" if plus else text

    def label(self, name: str) -> str:
        """The C label of a PTX label."""
        found = self.scope.find(name)
        if not isinstance(found, Target):
            raise PtxError(f"there is no label {name} here")
        return found.cname

    def jump(self, name: str) -> str:
        """A goto, noted for the flow analysis."""
        cname = self.label(name)
        self.code.jumps.append(cname)
        return f"goto {cname};"


def convert(text: str, have: Scalar, want: Scalar) -> str:
    """Reinterprets a C variable of image `have` as `want`: the low bits, never a change of value by rounding."""
    if have.kind == "p" or want.kind == "p":
        if have.kind != want.kind:
            raise PtxError("a predicate and a number cannot stand for each other", remedy="use selp or setp")
        return text
    if have.kind == "f":
        if want.kind == "f":
            if want.bits != have.bits:
                raise PtxError(f"a .{have} register where a .{want} is needed", remedy="convert it with cvt")
            return text
        text = f"gp_u{have.bits}({text})"
        have = Scalar("u", have.bits)
    if want.kind == "f":
        if have.bits < want.bits:
            raise PtxError(f"a {have.bits}-bit register where a .{want} is needed")
        bits = f"(uint{want.bits}_t)" if have.bits > want.bits else ""
        return f"gp_f{want.bits}({bits}{text})"
    if want.c == have.c:
        return text
    return f"({want.c}){text}"


def _store(value: str, have: Scalar, image: Scalar) -> str:
    if (image.kind == "p") != (have.kind == "p"):
        raise PtxError("a predicate and a number cannot stand for each other", remedy="use selp or setp")
    if image.kind == "p":
        return value
    if image.kind == "f":
        if have.kind == "f":
            if have.bits != image.bits:
                raise PtxError(f"a .{have} result cannot go to a .{image} register")
            return value
        return f"gp_f{image.bits}((uint{image.bits}_t)({value}))"
    if have.kind == "f":
        bits = f"gp_u{have.bits}({value})"
        if image.bits < have.bits:
            raise PtxError(f"a .{have} result cannot go to a {image.bits}-bit register")
        return bits
    if image.c == have.c:
        return value
    return f"({image.c})({have.c})({value})"
