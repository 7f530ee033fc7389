"""Floating-point arithmetic. Rounding to nearest is C's own; directed rounding goes through the prelude."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import F32, F64, PRED, Scalar
from gpud.ptx.errors import PtxError

_ROUNDING = ("rn", "rz", "rm", "rp")
_HALVES = "f16 bf16 f16x2 bf16x2"


def flushed(form: Form, kind: Scalar, text: str) -> str:
    """Denormals as zero, where the instruction says .ftz (single precision only)."""
    return f"gp_ftz({text})" if "ftz" in form and kind == F32 else text


def _finish(e: Emitter, d: ast.Operand, kind: Scalar, form: Form, value: str) -> None:
    value = flushed(form, kind, value)
    if "sat" in form:
        value = f"gp_sat_{kind.short}({value})"
    e.write(d, kind, value)


def _call(e: Emitter, form: Form, kind: Scalar, name: str, plain: str, *values: str) -> str:
    """`plain` when rounding to nearest, else a prelude function that rounds as the flag says."""
    mode = form.one_of("rz", "rm", "rp")
    if not mode:
        return plain
    e.uses.add("rounding")
    return f"gp_{name}_{kind.short}({', '.join(values)}, GP_{mode.upper()})"


def binary(e: Emitter, ins: ast.Instruction) -> None:
    """add, sub, mul"""
    form = Form(ins, (*_ROUNDING, "ftz", "sat"))
    d, a, b = operands(ins, 3)
    kind = form.type
    need(kind, "f32 f64 " + _HALVES)
    if kind.kind in "he":
        _half(e, form, ins.opcode, d, a, b)
        return
    x, y = (flushed(form, kind, e.read(operand, kind)) for operand in (a, b))
    symbol = {"add": "+", "sub": "-", "mul": "*"}[ins.opcode]
    _finish(e, d, kind, form, _call(e, form, kind, ins.opcode, f"({x} {symbol} {y})", x, y))


def _half(e: Emitter, form: Form, name: str, d: ast.Operand, *sources: ast.Operand) -> None:
    """16-bit formats are computed in single precision (fma: double) and rounded once."""
    e.uses.add("half")
    kind = form.type
    lane = "f16" if kind.kind == "h" else "bf16"
    if {"sat", "rz", "rm", "rp"} & form.flags:
        raise PtxError(f"this modifier is not supported with .{kind}")
    wide = "_x2" if kind.bits == 32 else ""
    values = ", ".join(e.read(source, Scalar("u", kind.bits)) for source in sources)
    e.write(d, Scalar("u", kind.bits), f"gp_{name}_{lane}{wide}({values})")


@instruction("fma")
def fused(e: Emitter, ins: ast.Instruction) -> None:
    """fma, and mad of floating types, which is the same."""
    form = Form(ins, (*_ROUNDING, "ftz", "sat", "relu"))
    d, a, b, c = operands(ins, 4)
    kind = form.type
    need(kind, "f32 f64 " + _HALVES)
    if "relu" in form:
        raise PtxError("the modifier .relu is not supported with fma")
    if kind.kind in "he":
        _half(e, form, "fma", d, a, b, c)
        return
    x, y, z = (flushed(form, kind, e.read(operand, kind)) for operand in (a, b, c))
    name = "__builtin_fmaf" if kind == F32 else "__builtin_fma"
    _finish(e, d, kind, form, _call(e, form, kind, "fma", f"{name}({x}, {y}, {z})", x, y, z))


def division(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, (*_ROUNDING, "ftz", "approx", "full"))
    d, a, b = operands(ins, 3)
    kind = form.type
    need(kind, "f32 f64")
    x, y = (flushed(form, kind, e.read(operand, kind)) for operand in (a, b))
    _finish(e, d, kind, form, _call(e, form, kind, "div", f"({x} / {y})", x, y))


def min_max(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("ftz", "NaN", "xorsign", "abs"))
    d, a, b, *c = operands(ins, 3, 4)
    kind = form.type
    need(kind, "f32 f64 " + _HALVES)
    if "xorsign" in form:
        raise PtxError("the modifier .xorsign.abs is not supported")
    nan = "_nan" if "NaN" in form else ""
    if kind.kind in "he":
        _half(e, form, ins.opcode + nan, d, a, b)
        return
    name = f"gp_{ins.opcode}{nan}_{kind.short}"
    value = f"{name}({flushed(form, kind, e.read(a, kind))}, {flushed(form, kind, e.read(b, kind))})"
    if c:
        value = f"{name}({value}, {flushed(form, kind, e.read(c[0], kind))})"
    e.write(d, kind, value)


def sign(e: Emitter, ins: ast.Instruction) -> None:
    """abs, neg: they change the sign bit alone."""
    form = Form(ins, ("ftz",))
    d, a = operands(ins, 2)
    kind = form.type
    need(kind, "f32 f64 " + _HALVES)
    if kind.kind in "he":
        image = Scalar("u", kind.bits)
        mask = "0x8000u" if kind.bits == 16 else "0x80008000u"
        change = f"& ~{mask}" if ins.opcode == "abs" else f"^ {mask}"
        e.write(d, image, f"({image.c})({e.read(a, image)} {change})")
        return
    x = flushed(form, kind, e.read(a, kind))
    builtin = "__builtin_fabsf" if kind == F32 else "__builtin_fabs"
    e.write(d, kind, f"{builtin}({x})" if ins.opcode == "abs" else f"(-{x})")


HANDLERS = {
    "add": binary,
    "sub": binary,
    "mul": binary,
    "div": division,
    "min": min_max,
    "max": min_max,
    "abs": sign,
    "neg": sign,
}


@instruction("rcp", "sqrt", "rsqrt")
def roots(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, (*_ROUNDING, "ftz", "approx"))
    d, a = operands(ins, 2)
    kind = form.type
    need(kind, "f32 f64")
    x = flushed(form, kind, e.read(a, kind))
    if "ftz" in form and kind == F64:
        x = f"gp_ftz_f64({x})"
    root = "__builtin_sqrtf" if kind == F32 else "__builtin_sqrt"
    one = "1.0f" if kind == F32 else "1.0"
    if ins.opcode == "rcp":
        value = _call(e, form, kind, "div", f"({one} / {x})", one, x)
    elif ins.opcode == "sqrt":
        value = _call(e, form, kind, "sqrt", f"{root}({x})", x)
    else:
        value = f"gp_rsqrt_{kind.short}({x})"
    _finish(e, d, kind, form, value)


_LIBM = {"sin": "sin", "cos": "cos", "lg2": "log2", "ex2": "exp2", "tanh": "tanh"}


@instruction(*_LIBM)
def approximate(e: Emitter, ins: ast.Instruction) -> None:
    """The approximate functions: at least as close as the hardware's."""
    form = Form(ins, ("approx", "ftz"))
    d, a = operands(ins, 2)
    need(form.type, "f32")
    value = f"__builtin_{_LIBM[ins.opcode]}f({flushed(form, F32, e.read(a, F32))})"
    _finish(e, d, F32, form, value)


@instruction("copysign")
def copy_sign(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a, b = operands(ins, 3)
    need(kind, "f32 f64")
    builtin = "__builtin_copysignf" if kind == F32 else "__builtin_copysign"
    e.write(d, kind, f"{builtin}({e.read(b, kind)}, {e.read(a, kind)})")


_TESTS = {
    "finite": "__builtin_isfinite({0})",
    "infinite": "__builtin_isinf({0})",
    "number": "{0} == {0}",
    "notanumber": "{0} != {0}",
    "normal": "__builtin_isnormal({0})",
    "subnormal": "gp_subnormal_{1}({0})",
}


@instruction("testp")
def test_property(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _TESTS)
    d, a = operands(ins, 2)
    need(form.type, "f32 f64")
    test = form.required(*_TESTS)
    e.write(d, PRED, f"(uint8_t)!!({_TESTS[test].format(e.read(a, form.type), form.type.short)})")
