"""Logic, shifts, bit fields and the small integer oddities."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import PRED, S32, U32, Scalar
from gpud.ptx.errors import PtxError

_BITS = "pred b16 b32 b64 u16 s16 u32 s32 u64 s64"


@instruction("and", "or", "xor")
def logic(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b = operands(ins, 3)
    need(kind, _BITS)
    symbol = {"and": "&", "or": "|", "xor": "^"}[ins.opcode]
    e.write(d, kind, f"({kind.c})({e.read(a, kind)} {symbol} {e.read(b, kind)})")


@instruction("not", "cnot")
def complement(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a = operands(ins, 2)
    need(kind, _BITS if ins.opcode == "not" else "b16 b32 b64")
    logical = kind == PRED or ins.opcode == "cnot"
    e.write(d, kind, f"({kind.c}){'!' if logical else '~'}{e.read(a, kind)}")


@instruction("shl", "shr")
def shift(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b = operands(ins, 3)
    need(kind, "b16 b32 b64 u16 s16 u32 s32 u64 s64")
    left = ins.opcode == "shl"
    if left:
        kind = Scalar("u", kind.bits)
    x = e.read(a, kind)
    symbol = "<<" if left else ">>"
    if isinstance(b, ast.Int) and 0 <= b.value < kind.bits:
        e.write(d, kind, f"({kind.c})({x} {symbol} {b.value})")
        return
    amount = e.read(b, U32)
    if kind.signed:
        e.write(d, kind, f"({kind.c})({x} >> ({amount} < {kind.bits}u ? {amount} : {kind.bits - 1}u))")
    else:
        e.write(d, kind, f"({kind.c})({amount} < {kind.bits}u ? {x} {symbol} {amount} : 0)")


@instruction("shf")
def funnel_shift(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("l", "r", "clamp", "wrap"))
    d, a, b, c = operands(ins, 4)
    need(form.type, "b32")
    amount = f"gp_shift_{'wrap' if 'wrap' in form else 'clamp'}({e.read(c, U32)})"
    side = "left" if "l" in form else "right"
    e.write(d, U32, f"gp_funnel_{side}({e.read(a, U32)}, {e.read(b, U32)}, {amount})")


@instruction("lop3")
def three_input_logic(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("or", "and"))
    count = 5 if form.flags == set() else 6
    d, a, b, c, table, *q = operands(ins, count)
    need(form.type, "b32")
    if not isinstance(table, ast.Int):
        raise PtxError("the table of lop3 must be a constant")
    x, y, z = (e.read(operand, U32) for operand in (a, b, c))
    terms = [
        f"({'' if row & 4 else '~'}{x} & {'' if row & 2 else '~'}{y} & {'' if row & 1 else '~'}{z})"
        for row in range(8)
        if table.value >> row & 1
    ]
    value = f"({' | '.join(terms) or '0u'})"
    if not q:
        e.write(d, U32, value)
        return
    if not isinstance(d, ast.Pair):
        raise PtxError("lop3 with .or or .and needs two results")
    found = e.temporary()
    e.line(f"uint32_t {found} = {value};")
    predicate = f"(uint8_t)(({found} != 0) {'|' if 'or' in form else '&'} {e.read(q[0], PRED)})"
    e.write(d.second, PRED, predicate)
    e.write(d.first, U32, found)


@instruction("popc", "clz", "brev", "bfind", "fns", "bmsk", "szext")
def count_bits(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("shiftamt", "clamp", "wrap"))
    kind = form.type
    name = ins.opcode
    if name in ("popc", "clz"):
        d, a = operands(ins, 2)
        need(kind, "b32 b64")
        e.write(d, U32, f"gp_{name}_{kind.short}({e.read(a, kind)})")
    elif name == "brev":
        d, a = operands(ins, 2)
        need(kind, "b32 b64")
        e.write(d, kind, f"gp_brev_{kind.short}({e.read(a, kind)})")
    elif name == "bfind":
        d, a = operands(ins, 2)
        need(kind, "u32 s32 u64 s64")
        e.write(d, U32, f"gp_bfind_{kind.short}({e.read(a, kind)}, {int('shiftamt' in form)})")
    elif name == "fns":
        d, a, b, c = operands(ins, 4)
        need(kind, "b32")
        e.write(d, U32, f"gp_fns({e.read(a, U32)}, {e.read(b, U32)}, {e.read(c, S32)})")
    else:
        d, a, b = operands(ins, 3)
        need(kind, "b32" if name == "bmsk" else "u32 s32")
        mode = int("clamp" in form)
        e.write(d, kind, f"gp_{name}_{kind.short}({e.read(a, kind)}, {e.read(b, U32)}, {mode})")


@instruction("bfe")
def extract_field(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b, c = operands(ins, 4)
    need(kind, "u32 s32 u64 s64")
    e.write(d, kind, f"gp_bfe_{kind.short}({e.read(a, kind)}, {e.read(b, U32)}, {e.read(c, U32)})")


@instruction("bfi")
def insert_field(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    f, a, b, c, d = operands(ins, 5)
    need(kind, "b32 b64")
    values = f"{e.read(a, kind)}, {e.read(b, kind)}, {e.read(c, U32)}, {e.read(d, U32)}"
    e.write(f, kind, f"gp_bfi_{kind.short}({values})")


@instruction("prmt")
def permute_bytes(e: Emitter, ins: ast.Instruction) -> None:
    modes = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    form = Form(ins, modes)
    d, a, b, c = operands(ins, 4)
    need(form.type, "b32")
    mode = form.one_of(*modes, default="any")
    e.write(d, U32, f"gp_prmt_{mode}({e.read(a, U32)}, {e.read(b, U32)}, {e.read(c, U32)})")


@instruction("dp4a", "dp2a")
def dot_product(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("lo", "hi"), types=2)
    d, a, b, c = operands(ins, 4)
    first, second = form.types
    need(first, "u32 s32")
    need(second, "u32 s32")
    result = S32 if first.signed or second.signed else U32
    signs = f"{int(first.signed)}, {int(second.signed)}"
    half = f", {int('hi' in form)}" if ins.opcode == "dp2a" else ""
    values = f"{e.read(a, U32)}, {e.read(b, U32)}, {e.read(c, U32)}, {signs}{half}"
    e.write(d, result, f"({result.c})gp_{ins.opcode}({values})")
