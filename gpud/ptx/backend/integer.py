"""Whole-number arithmetic and carries."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend import floating
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import U32, Scalar
from gpud.ptx.errors import PtxError

_INTEGERS = "u16 s16 u32 s32 u64 s64"


def _wide(scalar: Scalar) -> Scalar:
    return Scalar(scalar.kind, scalar.bits * 2)


@instruction("add", "sub", "mul", "div", "min", "max", "abs", "neg")
def arithmetic(e: Emitter, ins: ast.Instruction) -> None:
    """Goes to the floating handlers by the last type."""
    last = ins.modifiers[-1] if ins.modifiers else ""
    if last in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
        floating.HANDLERS[ins.opcode](e, ins)
    elif last in ("u16x2", "s16x2"):
        _packed(e, ins, last)
    else:
        _TABLE[ins.opcode](e, ins)


def _packed(e: Emitter, ins: ast.Instruction, kind: str) -> None:
    """add, min, max of two 16-bit numbers side by side."""
    Form(ins, (kind,), types=0)
    d, a, b = operands(ins, 3)
    half = "int16_t" if kind == "s16x2" else "uint16_t"
    choose = {"add": "{0} + {1}", "min": "{0} < {1} ? {0} : {1}", "max": "{0} > {1} ? {0} : {1}"}.get(ins.opcode)
    if choose is None:
        raise PtxError(f"{ins.opcode} of .{kind} is not supported")
    x, y = e.temporary(), e.temporary()
    e.line(f"const uint32_t {x} = {e.read(a, U32)}, {y} = {e.read(b, U32)};")
    low = choose.format(f"({half}){x}", f"({half}){y}")
    high = choose.format(f"({half})({x} >> 16)", f"({half})({y} >> 16)")
    e.write(d, U32, f"((uint32_t)(uint16_t)({high}) << 16 | (uint16_t)({low}))")


def _add_sub(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sat", "cc"))
    d, a, b = operands(ins, 3)
    kind = form.type
    need(kind, _INTEGERS + " b32 b64")
    symbol = "+" if ins.opcode == "add" else "-"
    if "cc" in form:
        _carry(e, d, kind, e.read(a, kind), e.read(b, kind), symbol, carry_in=False, carry_out=True)
    elif "sat" in form:
        need(kind, "s32")
        e.write(d, kind, f"gp_sat_s32((int64_t){e.read(a, kind)} {symbol} {e.read(b, kind)})")
    else:
        e.write(d, kind, f"({kind.c})({e.read(a, kind)} {symbol} {e.read(b, kind)})")


@instruction("addc", "subc")
def add_with_carry(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("cc",))
    d, a, b = operands(ins, 3)
    symbol = "+" if ins.opcode == "addc" else "-"
    kind = form.type
    need(kind, "u32 s32 u64 s64 b32 b64")
    _carry(e, d, kind, e.read(a, kind), e.read(b, kind), symbol, carry_in=True, carry_out="cc" in form)


def _carry(
    e: Emitter, d: ast.Operand, kind: Scalar, a: str, b: str, symbol: str, *, carry_in: bool, carry_out: bool
) -> None:
    """a ± b ± carry through a double-width sum; for subtraction the flag is the borrow."""
    e.uses.add("carry")
    wide = "uint64_t" if kind.bits == 32 else "unsigned __int128"
    narrow = f"uint{kind.bits}_t"
    total = e.temporary()
    tail = f" {symbol} carry" if carry_in else ""
    e.line(f"{wide} {total} = ({wide})({narrow}){a} {symbol} ({wide})({narrow}){b}{tail};")
    if carry_out:
        e.line(f"carry = (uint32_t)({total} >> {kind.bits}) & 1u;")
    e.write(d, Scalar("u", kind.bits), f"({narrow}){total}")


def _product(kind: Scalar, part: str, a: str, b: str) -> str:
    """a × b: the low half, the high half or the whole, of type kind (wide: twice as wide)."""
    if part == "lo":
        narrow = "uint32_t" if kind.bits == 16 else kind.c
        return f"({kind.c})(({narrow}){a} * ({narrow}){b})"
    wide = f"{'un' if not kind.signed else ''}signed __int128" if kind.bits == 64 else _wide(kind).c
    if part == "wide":
        return f"({_wide(kind).c})(({wide}){a} * ({wide}){b})"
    return f"({kind.c})((({wide}){a} * ({wide}){b}) >> {kind.bits})"


def _mul(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("lo", "hi", "wide"))
    d, a, b = operands(ins, 3)
    kind = form.type
    need(kind, _INTEGERS)
    part = form.required("lo", "hi", "wide")
    result = _wide(kind) if part == "wide" else kind
    e.write(d, result, _product(kind, part, e.read(a, kind), e.read(b, kind)))


@instruction("mad", "madc")
def multiply_add(e: Emitter, ins: ast.Instruction) -> None:
    if ins.modifiers and ins.modifiers[-1] in ("f32", "f64"):
        floating.fused(e, ins)
        return
    form = Form(ins, ("lo", "hi", "wide", "cc", "sat"))
    d, a, b, c = operands(ins, 4)
    kind = form.type
    need(kind, _INTEGERS)
    part = form.required("lo", "hi", "wide")
    result = _wide(kind) if part == "wide" else kind
    product = _product(kind, part, e.read(a, kind), e.read(b, kind))
    if "cc" in form or ins.opcode == "madc":
        _carry(e, d, kind, product, e.read(c, kind), "+", carry_in=ins.opcode == "madc", carry_out="cc" in form)
    elif "sat" in form:
        need(kind, "s32")
        e.write(d, kind, f"gp_sat_s32((int64_t){product} + {e.read(c, kind)})")
    else:
        e.write(d, result, f"({result.c})({product} + {e.read(c, result)})")


@instruction("mul24", "mad24")
def multiply_24(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("lo", "hi"))
    d, a, b, *c = operands(ins, 3 if ins.opcode == "mul24" else 4)
    kind = form.type
    need(kind, "u32 s32")
    shift = 16 if "hi" in form else 0
    wide = "int64_t" if kind.signed else "uint64_t"

    def low(x: str) -> str:
        return f"({wide})(({kind.c})((uint32_t){x} << 8) >> 8)"

    value = f"({kind.c})(({low(e.read(a, kind))} * {low(e.read(b, kind))}) >> {shift})"
    e.write(d, kind, f"({kind.c})({value} + {e.read(c[0], kind)})" if c else value)


def _div(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b = operands(ins, 3)
    need(kind, _INTEGERS)
    e.write(d, kind, f"gp_{ins.opcode}_{kind.short}({e.read(a, kind)}, {e.read(b, kind)})")


@instruction("rem")
def remainder(e: Emitter, ins: ast.Instruction) -> None:
    _div(e, ins)


def _min_max(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins, ("relu",)).type
    d, a, b = operands(ins, 3)
    need(kind, _INTEGERS)
    x, y = e.read(a, kind), e.read(b, kind)
    value = f"({x} {'<' if ins.opcode == 'min' else '>'} {y} ? {x} : {y})"
    if "relu" in ins.modifiers:
        need(kind, "s32")
        value = f"gp_relu_s32({value})"
    e.write(d, kind, value)


def _unary(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a = operands(ins, 2)
    need(kind, "s16 s32 s64")
    x = e.read(a, kind)
    value = f"({x} < 0 ? -{x} : {x})" if ins.opcode == "abs" else f"-{x}"
    e.write(d, kind, f"({kind.c})({value})")


_TABLE = {
    "add": _add_sub,
    "sub": _add_sub,
    "mul": _mul,
    "div": _div,
    "min": _min_max,
    "max": _min_max,
    "abs": _unary,
    "neg": _unary,
}


@instruction("sad")
def absolute_difference(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b, c = operands(ins, 4)
    need(kind, _INTEGERS)
    x, y = e.read(a, kind), e.read(b, kind)
    e.write(d, kind, f"({kind.c})({e.read(c, kind)} + ({x} < {y} ? {y} - {x} : {x} - {y}))")
