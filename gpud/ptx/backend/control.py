"""Branches, calls, returns, traps, barriers and the warp operations: all that may leave the straight line."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.emitter import RESTORE, SAVE, Emitter
from gpud.ptx.backend.scope import Targets
from gpud.ptx.backend.table import Form, instruction, need, operands
from gpud.ptx.backend.types import B32, PRED, U32
from gpud.ptx.errors import PtxError


@instruction("bra")
def branch(e: Emitter, ins: ast.Instruction) -> None:
    Form(ins, ("uni",), types=0)
    (target,) = operands(ins, 1)
    if not isinstance(target, ast.Name):
        raise PtxError("a branch needs a label")
    e.line(e.jump(target.text))
    e.code.falls_through = False


@instruction("brx")
def indexed_branch(e: Emitter, ins: ast.Instruction) -> None:
    Form(ins, ("idx", "uni"), types=0)
    index, targets = operands(ins, 2)
    found = e.scope.find(targets.text) if isinstance(targets, ast.Name) else None
    if not isinstance(found, Targets):
        raise PtxError("brx.idx needs the name of a .branchtargets list")
    e.line(f"switch ({e.read(index, U32)}) {{")
    for number, label in enumerate(found.labels):
        e.line(f"case {number}: {e.jump(label)}")
    e.line("default: return GP_TRAP; }")
    e.code.falls_through = False


@instruction("ret", "exit")
def leave(e: Emitter, ins: ast.Instruction) -> None:
    Form(ins, ("uni",), types=0)
    operands(ins, 0)
    if ins.opcode == "ret" and e.end:
        e.line(e.jump(e.end))
    elif ins.opcode == "ret":
        e.line("goto leave;")
    else:
        e.line("return GP_EXIT;")
    e.code.falls_through = False


@instruction("trap", "brkpt")
def trap(e: Emitter, ins: ast.Instruction) -> None:
    e.line("return GP_TRAP;")
    e.code.falls_through = False


@instruction("call")
def call(e: Emitter, ins: ast.Instruction) -> None:
    e.call(e, ins)


@instruction("nanosleep", "pmevent", "setmaxnreg", "griddepcontrol")
def no_effect(e: Emitter, ins: ast.Instruction) -> None:
    """They change timing alone, which is modelled elsewhere."""


def suspend(e: Emitter) -> None:
    """Writes the point where this thread gives way and comes back."""
    if not e.suspends:
        raise PtxError("this instruction waits for other threads, which is not possible here")
    e.resume_points += 1
    e.code.suspend = e.resume_points
    e.line(SAVE)
    e.line(f"t->resume = {e.resume_points}; return GP_WAIT;")
    e.line(f"resume_{e.resume_points}: ;")
    e.line(RESTORE)


@instruction("bar", "barrier")
def barrier(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sync", "arrive", "red", "popc", "and", "or", "aligned", "warp", "cta", "cluster"), types=(0, 1))
    if "cluster" in form:
        raise PtxError("barriers of clusters are not supported", remedy="launch without thread block clusters")
    if "warp" in form:
        (mask,) = operands(ins, 1)
        _warp_request(e, "GP_SYNCWARP", e.read(mask, U32))
        suspend(e)
        return
    if "red" in form:
        _barrier_red(e, ins, form)
        return
    which, *count = operands(ins, 1, 2) if ins.operands else (ast.Int(0),)
    threads = e.read(count[0], U32) if count else "0u"
    e.line(f"t->barrier = {e.read(which, U32)}; t->expected = {threads};")
    if "arrive" in form:
        e.line("if (gp_arrive(b, t)) return GP_TRAP;")
        return
    e.line("t->wait = GP_BARRIER;")
    suspend(e)


def _barrier_red(e: Emitter, ins: ast.Instruction, form: Form) -> None:
    d, which, *rest = operands(ins, 3, 4)
    threads = e.read(rest[0], U32) if len(rest) == 2 else "0u"
    operation = form.required("popc", "and", "or")
    e.line(f"t->barrier = {e.read(which, U32)}; t->expected = {threads};")
    e.line(f"t->value = {e.read(rest[-1], PRED)}; t->kind = GP_RED_{operation.upper()}; t->wait = GP_BARRIER;")
    suspend(e)
    if operation == "popc":
        e.write(d, U32, "(uint32_t)t->result")
    else:
        e.write(d, PRED, "(uint8_t)t->result")


def _warp_request(e: Emitter, kind: str, mask: str) -> None:
    e.uses.add("warp")
    e.line(f"t->kind = {kind}; t->mask = {mask}; t->wait = GP_WARP;")


@instruction("shfl")
def shuffle(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sync", "up", "down", "bfly", "idx"))
    _needs_sync(form)
    d, a, lane, clamp, mask = operands(ins, 5)
    need(form.type, "b32 u32 s32 f32")
    mode = form.required("up", "down", "bfly", "idx")
    e.line(f"t->value = {e.read(a, B32)}; t->lane = {e.read(lane, U32)}; t->clamp = {e.read(clamp, U32)};")
    _warp_request(e, f"GP_SHFL_{mode.upper()}", e.read(mask, U32))
    suspend(e)
    first, second = (d.first, d.second) if isinstance(d, ast.Pair) else (d, None)
    e.write(first, B32, "(uint32_t)t->result")
    if second is not None:
        e.write(second, PRED, "t->valid")


@instruction("vote")
def vote(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sync", "all", "any", "uni", "ballot"))
    _needs_sync(form)
    d, a, mask = operands(ins, 3)
    mode = form.required("all", "any", "uni", "ballot")
    e.line(f"t->value = {e.read(a, PRED)};")
    _warp_request(e, f"GP_VOTE_{mode.upper()}", e.read(mask, U32))
    suspend(e)
    e.write(d, U32 if mode == "ballot" else PRED, f"({'uint32_t' if mode == 'ballot' else 'uint8_t'})t->result")


@instruction("match")
def match_values(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sync", "all", "any"))
    _needs_sync(form)
    d, a, mask = operands(ins, 3)
    need(form.type, "b32 b64")
    e.line(f"t->value = {e.read(a, form.type)};")
    _warp_request(e, f"GP_MATCH_{form.required('all', 'any').upper()}", e.read(mask, U32))
    suspend(e)
    first, second = (d.first, d.second) if isinstance(d, ast.Pair) else (d, None)
    e.write(first, U32, "(uint32_t)t->result")
    if second is not None:
        e.write(second, PRED, "t->valid")


@instruction("redux")
def reduce_warp(e: Emitter, ins: ast.Instruction) -> None:
    form = Form(ins, ("sync", "add", "min", "max", "and", "or", "xor"))
    _needs_sync(form)
    d, a, mask = operands(ins, 3)
    need(form.type, "u32 s32 b32")
    operation = form.required("add", "min", "max", "and", "or", "xor")
    signed = "_S" if operation in ("min", "max") and form.type.signed else ""
    e.line(f"t->value = {e.read(a, U32)};")
    _warp_request(e, f"GP_REDUX_{operation.upper()}{signed}", e.read(mask, U32))
    suspend(e)
    e.write(d, U32, "(uint32_t)t->result")


@instruction("activemask")
def active_mask(e: Emitter, ins: ast.Instruction) -> None:
    need(Form(ins).type, "b32")
    (d,) = operands(ins, 1)
    _warp_request(e, "GP_ACTIVEMASK", "0u")
    suspend(e)
    e.write(d, U32, "(uint32_t)t->result")


@instruction("elect")
def elect(e: Emitter, ins: ast.Instruction) -> None:
    _needs_sync(Form(ins, ("sync",), types=0))
    d, mask = operands(ins, 2)
    if not isinstance(d, ast.Pair):
        raise PtxError("elect.sync has two results")
    _warp_request(e, "GP_ELECT", e.read(mask, U32))
    suspend(e)
    e.write(d.first, U32, "(uint32_t)t->result")
    e.write(d.second, PRED, "t->valid")


def _needs_sync(form: Form) -> None:
    if "sync" not in form:
        raise PtxError("only the .sync form of warp operations is supported", remedy="compile for sm_70 or later")


def suspends(ins: ast.Instruction) -> bool:
    """Whether the instruction needs threads that can wait for each other."""
    return ins.opcode in _WAITING


_WAITING = {"bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "elect"}
