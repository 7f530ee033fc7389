"""Comparisons and choices."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.floating import flushed
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import F32, PRED, S32, Scalar
from gpud.ptx.errors import PtxError

# Ordered comparisons are false with a NaN, those with a u behind are true.
_INTEGER = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_FLOAT = {
    "eq": "({0} == {1})",
    "ne": "gp_ordered_ne({0}, {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "equ": "!gp_ordered_ne({0}, {1})",
    "neu": "({0} != {1})",
    "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})",
    "gtu": "!({0} <= {1})",
    "geu": "!({0} < {1})",
    "num": "({0} == {0} && {1} == {1})",
    "nan": "({0} != {0} || {1} != {1})",
}
_LOGIC = {"and": "&", "or": "|", "xor": "^"}
_TRUTH = {  # true and false as the result's type has them
    "u32": "0xffffffffu : 0u",
    "s32": "0xffffffffu : 0u",
    "u16": "0xffff : 0",
    "s16": "0xffff : 0",
    "f32": "1.0f : 0.0f",
    "f16": "0x3c00 : 0",
    "bf16": "0x3f80 : 0",
}
_FLAGS = (*_INTEGER, *_FLOAT, *_LOGIC, "ftz")


def _comparison(e: Emitter, form: Form, kind: Scalar, a: ast.Operand, b: ast.Operand) -> str:
    if kind.floating:
        test = form.one_of(*_FLOAT)
        if not test:
            raise PtxError("this comparison does not exist for floating types")
        if kind.bits == 16:
            e.uses.add("half")
            widen = "gp_from_f16" if kind.kind == "h" else "gp_from_bf16"
            bits = Scalar("u", 16)
            x, y = (f"{widen}({e.read(operand, bits)})" for operand in (a, b))
        else:
            need(kind, "f32 f64")
            x, y = (flushed(form, kind, e.read(operand, kind)) for operand in (a, b))
        return _FLOAT[test].format(x, y)
    test = form.one_of(*_INTEGER)
    if not test:
        raise PtxError("this comparison does not exist for whole numbers")
    if kind.kind == "b" and test not in ("eq", "ne"):
        raise PtxError(f".{test} does not exist for untyped bits")
    return f"({e.read(a, kind)} {_INTEGER[test]} {e.read(b, kind)})"


def _combined(e: Emitter, form: Form, c: list[ast.Operand], value: str) -> str:
    logic = form.one_of(*_LOGIC)
    if bool(logic) != bool(c):
        raise PtxError("a predicate operand goes with .and, .or or .xor")
    return f"(({value}) {_LOGIC[logic]} {e.read(c[0], PRED)})" if logic else value


@instruction("setp")
def set_predicate(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _FLAGS)
    d, a, b, *c = operands(ins, 3, 4)
    value = _comparison(e, form, form.type, a, b)
    if not isinstance(d, ast.Pair):
        e.write(d, PRED, _combined(e, form, c, value))
        return
    found = e.temporary()
    e.line(f"const uint8_t {found} = {value};")
    first, second = _combined(e, form, c, found), _combined(e, form, c, f"!{found}")
    other = e.temporary()
    e.line(f"const uint8_t {other} = {second};")
    e.write(d.first, PRED, first)
    e.write(d.second, PRED, other)


@instruction("set")
def set_value(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _FLAGS, types=2)
    d, a, b, *c = operands(ins, 3, 4)
    result, kind = form.types
    value = _combined(e, form, c, _comparison(e, form, kind, a, b))
    if str(result) not in _TRUTH:
        raise PtxError(f"set to .{result} is not supported")
    e.write(d, F32 if result == F32 else Scalar("u", result.bits), f"({value} ? {_TRUTH[str(result)]})")


@instruction("selp")
def select(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b, p = operands(ins, 4)
    need(kind, "b16 u16 s16 b32 u32 s32 b64 u64 s64 f32 f64 f16 bf16")
    value = Scalar("u", 16) if kind.kind in "he" else kind
    e.write(d, value, f"({e.read(p, PRED)} ? {e.read(a, value)} : {e.read(b, value)})")


@instruction("slct")
def select_by_sign(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("ftz",), types=2)
    d, a, b, c = operands(ins, 4)
    kind, by = form.types
    need(by, "s32 f32")
    sign = flushed(form, F32, e.read(c, F32)) if by == F32 else e.read(c, S32)
    e.write(d, kind, f"({sign} >= 0 ? {e.read(a, kind)} : {e.read(b, kind)})")
