"""Functions that the CUDA headers declare and the driver provides."""

from __future__ import annotations

from collections.abc import Callable

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.scope import Register, Storage
from gpud.ptx.backend.types import U32, U64, Scalar
from gpud.ptx.errors import PtxError


def value_of(e: Emitter, operand: ast.Operand, scalar: Scalar) -> str:
    """An argument's value: what its .param variable holds, or the register or constant itself."""
    if isinstance(operand, ast.Name):
        found = e.scope.find(operand.text, operand.part)
        if isinstance(found, Storage) and found.space == "param":
            return f"*(const {scalar.c} *)({found.address})"
    return e.read(operand, scalar)


def _vprintf(e: Emitter, results: tuple[ast.Operand, ...], arguments: tuple[ast.Operand, ...]) -> None:
    if len(arguments) != 2:
        raise PtxError("vprintf takes a format and the address of its arguments")
    call = f"gp_vprintf({value_of(e, arguments[0], U64)}, {value_of(e, arguments[1], U64)})"
    target = e.scope.find(results[0].text) if results and isinstance(results[0], ast.Name) else None
    if isinstance(target, Storage):
        e.line(f"*(int32_t *)({target.address}) = {call};")
    elif isinstance(target, Register):
        e.write(results[0], U32, f"(uint32_t){call}")
    else:
        e.line(f"{call};")


def _assertfail(e: Emitter, results: tuple[ast.Operand, ...], arguments: tuple[ast.Operand, ...]) -> None:
    if len(arguments) != 5:
        raise PtxError("__assertfail takes five arguments")
    types = (U64, U64, U32, U64)
    values = ", ".join(value_of(e, operand, scalar) for operand, scalar in zip(arguments, types, strict=False))
    e.line(f"gp_assertfail(b, t, {values});")
    e.line("return GP_TRAP;")
    e.code.falls_through = e.code.guarded


INTRINSICS: dict[str, Callable[[Emitter, tuple[ast.Operand, ...], tuple[ast.Operand, ...]], None]] = {
    "vprintf": _vprintf,
    "__assertfail": _assertfail,
}
