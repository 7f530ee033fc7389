"""Atomic read-modify-write. Other host threads may run other blocks of the grid, so global ones are truly atomic.

Shared memory belongs to one block, and one host thread runs a block: there plain operations do.
"""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.memory import SCOPES, SPACES, space_of, variable_space
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import Scalar

_OPERATIONS = {
    "add": "u32 s32 u64 s64 f32 f64 f16 bf16 f16x2 bf16x2",
    "min": "u32 s32 u64 s64",
    "max": "u32 s32 u64 s64",
    "and": "b32 b64 u32 s32 u64 s64",
    "or": "b32 b64 u32 s32 u64 s64",
    "xor": "b32 b64 u32 s32 u64 s64",
    "inc": "u32",
    "dec": "u32",
    "exch": "b32 b64 u32 s32 u64 s64 f32 f64",
    "cas": "b16 b32 b64 u32 s32 u64 s64 f32 f64",
}
_FLAGS = (*_OPERATIONS, *SPACES, *SCOPES, "relaxed", "acquire", "release", "acq_rel", "noftz")


@instruction("atom", "red")
def atomic(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _FLAGS)
    operation = form.required(*_OPERATIONS)
    kind = form.type
    need(kind, _OPERATIONS[operation])
    count = 2 + (operation == "cas") + (ins.opcode == "atom")
    given = operands(ins, count)
    d = given[0] if ins.opcode == "atom" else None
    a, *sources = given[1:] if d is not None else given
    shared = "shared" in (space_of(form), variable_space(e, a))
    address = e.address(a, space_of(form))
    e.uses.add("atomics")
    image = _image(operation, kind)
    if kind.kind in "he":
        e.uses |= {"half", "halfatom"}
    values = ", ".join(e.read(source, image) for source in sources)
    name = f"gp_{'block' if shared else 'atom'}_{operation}_{_suffix(operation, kind)}"
    call = f"{name}({address}, {values})"
    if d is None:
        e.line(f"{call};")
    else:
        e.write(d, image, call)


def _image(operation: str, kind: Scalar) -> Scalar:
    """The type the operation works on: bits unless it must know better."""
    if operation in ("exch", "cas", "and", "or", "xor") or kind.kind in "he":
        return Scalar("u", kind.bits)
    return Scalar("u", kind.bits) if operation == "add" and kind.signed else kind


def _suffix(operation: str, kind: Scalar) -> str:
    if kind.kind in "he":
        return str(kind)
    return _image(operation, kind).short
