"""Loads, stores, prefetches and fences."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import Emitter
from gpud.ptx.backend.scope import Storage
from gpud.ptx.backend.table import Form, instruction, operands
from gpud.ptx.backend.types import Scalar
from gpud.ptx.errors import PtxError

SPACES = {
    "global": "global",
    "shared": "shared",
    "shared::cta": "shared",
    "shared::cluster": "shared",
    "local": "local",
    "const": "const",
    "param": "param",
    "param::entry": "param",
    "param::func": "param",
}
SCOPES = ("cta", "cluster", "gpu", "sys")
_HINTS = (
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
    "weak",
    "mmio",
)
_ORDERS = ("volatile", "relaxed", "acquire", "release")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_FLAGS = (*SPACES, *SCOPES, *_HINTS, *_ORDERS, *_VECTORS, "unified")


def space_of(form: Form) -> str:
    """The state space named by the modifiers; "" for generic."""
    for flag, space in SPACES.items():
        if flag in form:
            return space
    return ""


def memory_type(scalar: Scalar) -> Scalar:
    """Halves travel as bits."""
    return Scalar("u", scalar.bits) if scalar.kind in "he" else scalar


def _items(form: Form, operand: ast.Operand) -> tuple[ast.Operand, ...]:
    size = _VECTORS[form.one_of(*_VECTORS)] if form.one_of(*_VECTORS) else 1
    items = operand.items if isinstance(operand, ast.Vector) else (operand,)
    if len(items) != size:
        raise PtxError(f"{len(items)} values where the instruction moves {size}")
    return items


@instruction("ld", "ldu")
def load(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _FLAGS)
    d, a = operands(ins, 2)
    kind = memory_type(form.type)
    items = _items(form, d)
    address = e.address(a, space_of(form))
    if len(items) == 1:
        e.write(items[0], kind, _load(form, kind, address))
        return
    base = e.temporary()
    e.line(f"const uint64_t {base} = {address};")
    values = []
    for index in range(len(items)):
        value = e.temporary()
        e.line(f"const {kind.c} {value} = {_load(form, kind, f'({base} + {index * kind.bytes})')};")
        values.append(value)
    for item, value in zip(items, values, strict=True):
        e.write(item, kind, value)


def _load(form: Form, kind: Scalar, address: str) -> str:
    if {"relaxed", "acquire"} & form.flags and kind.bits <= 64:
        order = "__ATOMIC_ACQUIRE" if "acquire" in form else "__ATOMIC_RELAXED"
        bits = f"__atomic_load_n((const uint{kind.bits}_t *){address}, {order})"
        return f"gp_f{kind.bits}({bits})" if kind.kind == "f" else f"({kind.c}){bits}"
    quality = "volatile " if "volatile" in form else ""
    return f"*(const {quality}{kind.c} *){address}"


@instruction("st")
def store(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, _FLAGS)
    a, s = operands(ins, 2)
    kind = memory_type(form.type)
    items = _items(form, s)
    address = e.address(a, space_of(form))
    values = [e.read(item, kind) for item in items]
    base = address
    if len(items) > 1:
        base = e.temporary()
        e.line(f"const uint64_t {base} = {address};")
    for index, value in enumerate(values):
        at = f"({base} + {index * kind.bytes})" if index else base
        if {"relaxed", "release"} & form.flags and kind.bits <= 64:
            order = "__ATOMIC_RELEASE" if "release" in form else "__ATOMIC_RELAXED"
            bits = f"gp_u{kind.bits}({value})" if kind.kind == "f" else f"(uint{kind.bits}_t){value}"
            e.line(f"__atomic_store_n((uint{kind.bits}_t *){at}, {bits}, {order});")
        else:
            quality = "volatile " if "volatile" in form else ""
            e.line(f"*({quality}{kind.c} *){at} = {value};")


@instruction("prefetch", "prefetchu", "applypriority", "discard", "createpolicy")
def hint(e: Emitter, ins: ast.Instruction) -> None:
    """Hints to a cache that is not modelled."""
    if ins.opcode in ("discard", "createpolicy"):
        raise PtxError(f"{ins.opcode} is not supported")


@instruction("membar", "fence")
def fence(e: Emitter, ins: ast.Instruction) -> None:
    Form(ins, (*SCOPES, "gl", "sc", "acq_rel", "acquire", "release"), types=0)
    e.line("__atomic_thread_fence(__ATOMIC_SEQ_CST);")


def variable_space(e: Emitter, operand: ast.Operand) -> str:
    """The space of the variable an address names; "" where it is a register."""
    if isinstance(operand, ast.Address) and isinstance(operand.base, ast.Name):
        found = e.scope.find(operand.base.text, operand.base.part)
        if isinstance(found, Storage):
            return found.space
    return ""
