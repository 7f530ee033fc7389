"""Direct calls of device functions: results and arguments go by address."""

from __future__ import annotations

from collections.abc import Callable

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.flatten import call_operands
from gpud.ptx.backend.intrinsics import INTRINSICS
from gpud.ptx.backend.scope import Callee, Register, Storage
from gpud.ptx.backend.table import Form
from gpud.ptx.backend.types import SCALARS, register_image
from gpud.ptx.errors import PtxError


def write_call(e: Emitter, ins: ast.Instruction, device: Callable[[ast.Function], str]) -> None:
    """Writes the C of a call; `device` answers with the C name of a function."""
    Form(ins, ("uni",), types=0)
    names = [operand for operand in ins.operands if isinstance(operand, ast.Name)]
    found = e.scope.find(names[0].text) if names else None
    results, arguments = call_operands(ins)
    if isinstance(found, Register) or len(names) > 1:
        raise PtxError("indirect calls are not supported", remedy="call functions by name, not through pointers")
    if names and names[0].text in INTRINSICS and (not isinstance(found, Callee) or found.function.body is None):
        e.uses.add("system")
        INTRINSICS[names[0].text](e, results, arguments)
        return
    if not isinstance(found, Callee):
        raise PtxError("a call of a function that is not declared")
    function = found.function
    if function.body is None:
        raise PtxError(
            f"the function {function.name} is declared and defined nowhere", remedy="link the module that defines it"
        )
    _check(function, results, arguments)
    _write(e, function, device(function), results, arguments)


def _check(function: ast.Function, results: tuple[ast.Operand, ...], arguments: tuple[ast.Operand, ...]) -> None:
    for formals, actuals, what in ((function.results, results, "results"), (function.params, arguments, "arguments")):
        if len(formals) != len(actuals):
            raise PtxError(f"{len(actuals)} {what} where {function.name} has {len(formals)}")


def _write(
    e: Emitter,
    function: ast.Function,
    cname: str,
    results: tuple[ast.Operand, ...],
    arguments: tuple[ast.Operand, ...],
) -> None:
    pointers = []
    after: list[tuple[ast.Operand, ast.Variable, str]] = []
    for formal, actual in zip(function.results, results, strict=True):
        storage = _storage(e, actual)
        if storage is not None:
            pointers.append(f"(uint8_t *)({storage.address})")
            continue
        image = register_image(SCALARS[formal.type])
        place = e.temporary()
        e.line(f"{image.c} {place} = 0;")
        pointers.append(f"(uint8_t *)&{place}")
        after.append((actual, formal, place))
    for formal, actual in zip(function.params, arguments, strict=True):
        storage = _storage(e, actual)
        if storage is not None:
            pointers.append(f"(const uint8_t *)({storage.address})")
            continue
        scalar = register_image(SCALARS[formal.type])
        place = e.temporary()
        e.line(f"const {scalar.c} {place} = {e.read(actual, scalar)};")
        pointers.append(f"(const uint8_t *)&{place}")
    status = e.temporary()
    e.line(f"const int {status} = {cname}({', '.join(['b', 't', *pointers])});")
    e.line(f"if ({status}) return {status};")
    for actual, formal, place in after:
        e.write(actual, register_image(SCALARS[formal.type]), place)


def _storage(e: Emitter, operand: ast.Operand) -> Storage | None:
    if isinstance(operand, ast.Name):
        found = e.scope.find(operand.text, operand.part)
        if isinstance(found, Storage) and found.space == "param":
            return found
    return None
