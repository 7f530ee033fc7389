"""mov, cvt and address conversions."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.scope import Callee
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import F32, F64, PRED, U64, Scalar
from gpud.ptx.errors import PtxError

_ROUND_TO_WHOLE = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@instruction("mov")
def move(e: Emitter, ins: ast.Instruction) -> None:
    kind = Form(ins).type
    d, a = operands(ins, 2)
    if isinstance(d, ast.Vector):
        _unpack(e, d, a, kind)
        return
    if isinstance(a, ast.Vector):
        _pack(e, d, a, kind)
        return
    if isinstance(a, ast.Name) and isinstance(e.scope.find(a.text), Callee):
        raise PtxError("the address of a function is not supported", remedy="call functions by name")
    value = Scalar("u", kind.bits) if kind.kind in "he" else kind
    e.write(d, value, e.read(a, value))


def _unpack(e: Emitter, d: ast.Vector, a: ast.Operand, kind: Scalar) -> None:
    part = Scalar("b", kind.bits // len(d.items))
    whole = Scalar("b", kind.bits)
    value = e.temporary()
    e.line(f"const {whole.c} {value} = {e.read(a, whole)};")
    for index, item in enumerate(d.items):
        if not (isinstance(item, ast.Name) and item.text == "_"):
            e.write(item, part, f"({part.c})({value} >> {index * part.bits})")


def _pack(e: Emitter, d: ast.Operand, a: ast.Vector, kind: Scalar) -> None:
    part = Scalar("b", kind.bits // len(a.items))
    whole = Scalar("b", kind.bits)
    terms = [f"(({whole.c}){e.read(item, part)} << {index * part.bits})" for index, item in enumerate(a.items)]
    e.write(d, whole, f"({whole.c})({' | '.join(terms)})")


@instruction("cvta")
def convert_address(e: Emitter, ins: ast.Instruction) -> None:
    """Only shared addresses differ from generic ones: they are offsets into the block's buffer."""
    form = Form(ins, ("to", "global", "local", "const", "param", "shared", "shared::cta", "param::entry"))
    d, a = operands(ins, 2)
    kind = form.type
    need(kind, "u32 u64")
    value = e.read(a, U64 if kind.bits == 64 else kind)
    if "shared" in form or "shared::cta" in form:
        e.uses.add("shared")
        value = f"({value} {'-' if 'to' in form else '+'} shared)"
    e.write(d, kind, f"({kind.c}){value}")


@instruction("isspacep")
def is_space(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("global", "local", "const", "shared", "shared::cta", "shared::cluster", "param"), types=0)
    p, a = operands(ins, 2)
    e.uses.add("shared")
    inside = f"({e.read(a, U64)} - shared < b->shared_bytes)"
    if "global" in form:
        e.write(p, PRED, f"!{inside}")
    elif {"shared", "shared::cta", "shared::cluster"} & form.flags:
        e.write(p, PRED, inside)
    else:
        raise PtxError("isspacep is supported for .shared and .global only")


@instruction("cvt")
def convert_value(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("rn", "rz", "rm", "rp", "rna", *_ROUND_TO_WHOLE, "ftz", "sat", "relu"), types=(2,))
    to, have = form.types
    if {"rna", "relu"} & form.flags:
        raise PtxError("this conversion is not supported")
    if to.bits == 32 and to.kind in "he":
        _two_halves(e, ins, form, to)
        return
    d, a = operands(ins, 2)
    e.write(d, _carried(to), _converted(e, form, to, have, a))


def _carried(scalar: Scalar) -> Scalar:
    return Scalar("u", 16) if scalar.kind in "he" else scalar


def _two_halves(e: Emitter, ins: ast.Instruction, form: Form, to: Scalar) -> None:
    d, a, b = operands(ins, 3)
    e.uses.add("half")
    name = "gp_to_f16" if to.kind == "h" else "gp_to_bf16"
    if "rn" not in form:
        raise PtxError("packed halves are supported with .rn only")
    high, low = (f"(uint32_t){name}({e.read(operand, F32)})" for operand in (a, b))
    e.write(d, Scalar("u", 32), f"({high} << 16 | {low})")


def _converted(e: Emitter, form: Form, to: Scalar, have: Scalar, a: ast.Operand) -> str:
    if not to.floating and not have.floating:
        return _integers(e, form, to, have, a)
    value = e.read(a, _carried(have))
    kind = have
    if have.kind in "he":
        e.uses.add("half")
        value = f"gp_from_{have}({value})"
        kind = F32
    if "ftz" in form and kind == F32 and have.floating:
        value = f"gp_ftz({value})"
    if to.kind in "he":
        return _to_half(e, form, to, kind, value)
    if not have.floating:
        value = _from_integer(e, form, to, have, value)
    elif not to.floating:
        return _to_integer(form, to, kind, value)
    else:
        value = _between_floats(e, form, to, kind, value)
    if "ftz" in form and to == F32:
        value = f"gp_ftz({value})"
    return f"gp_sat_{to.short}({value})" if "sat" in form else value


def _integers(e: Emitter, form: Form, to: Scalar, have: Scalar, a: ast.Operand) -> str:
    value = e.read(a, have)
    if "sat" in form:
        return f"gp_clamp_{to.short}_{'s' if have.signed else 'u'}({value})"
    return f"({to.c}){value}"


def _from_integer(e: Emitter, form: Form, to: Scalar, have: Scalar, value: str) -> str:
    mode = form.one_of("rz", "rm", "rp")
    if mode and not (to == F64 and have.bits <= 32):
        e.uses.add("rounding")
        return f"gp_cvt_{to.short}_{'s' if have.signed else 'u'}64({value}, GP_{mode.upper()})"
    return f"({to.c}){value}"


def _to_integer(form: Form, to: Scalar, kind: Scalar, value: str) -> str:
    mode = form.required(*_ROUND_TO_WHOLE)
    if mode != "rzi":
        value = f"__builtin_{_ROUND_TO_WHOLE[mode]}{'f' if kind == F32 else ''}({value})"
    return f"gp_to_{to.short}_{kind.short}({value})"


def _between_floats(e: Emitter, form: Form, to: Scalar, kind: Scalar, value: str) -> str:
    whole = form.one_of(*_ROUND_TO_WHOLE)
    if whole:
        return f"__builtin_{_ROUND_TO_WHOLE[whole]}{'f' if kind == F32 else ''}({value})"
    mode = form.one_of("rz", "rm", "rp")
    if to == F32 and kind == F64 and mode:
        e.uses.add("rounding")
        return f"gp_round_f32({value}, 0.0, GP_{mode.upper()})"
    return f"({to.c}){value}" if to != kind else value


def _to_half(e: Emitter, form: Form, to: Scalar, kind: Scalar, value: str) -> str:
    e.uses.add("half")
    if "sat" in form:
        raise PtxError(f"cvt.sat to .{to} is not supported")
    whole = form.one_of(*_ROUND_TO_WHOLE)
    if whole:
        value = f"__builtin_{_ROUND_TO_WHOLE[whole]}((double){value})"
    mode = form.one_of("rz", "rm", "rp")
    if mode:
        e.uses.add("rounding")
        return f"gp_toward_{to}({value}, GP_{mode.upper()})"
    return f"gp_to_{to}_f64({value})"
