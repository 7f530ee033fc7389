"""A function's body as one list, without nested blocks; functions that suspend are written into their callers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpud.ptx import ast
from gpud.ptx.backend.layout import size_and_align
from gpud.ptx.backend.scope import Callee, Entity, Names, Register, Scope, Storage, Target, Targets
from gpud.ptx.backend.types import SCALARS
from gpud.ptx.errors import PtxError
from gpud.ptx.printer import statement_text

_MAX_DEPTH = 64


@dataclass(eq=False, slots=True)
class Step:
    """An instruction with the names it sees. `end` is the label that `ret` jumps to within an inlined function."""

    instruction: ast.Instruction
    scope: Scope
    end: str = ""


@dataclass(eq=False, slots=True)
class Mark:
    """A label in the C code."""

    cname: str


@dataclass(eq=False, slots=True)
class Body:
    """What `flatten` makes: the steps, and the variables that need room in each thread."""

    steps: list[Step | Mark]
    storage: list[Storage]
    locals_bytes: int = 0


class Flattener:
    """Flattens one function. `shared_offset` answers with the offset of a function-scope .shared variable.

    `inlined` says which callees to write in; `thread_storage` gives the C expression of a per-thread variable.
    """

    def __init__(
        self,
        outer: Callable[[str], Entity | None],
        shared: Callable[[ast.Variable], Storage],
        inlined: Callable[[str], bool],
        thread_storage: Callable[[str], str],
    ) -> None:
        self.names = Names()
        self.outer = outer
        self.shared = shared
        self.inlined = inlined
        self.thread_storage = thread_storage
        self.body = Body([], [])
        self.labels = 0
        self.depth = 0

    def scope(self) -> Scope:
        return Scope(None, self.names, self.outer)

    def run(self, block: ast.Block, scope: Scope) -> Body:
        self._block(block, scope, "")
        return self.body

    def _new_label(self, name: str) -> str:
        self.labels += 1
        tail = "".join(ch for ch in name if ch.isalnum() or ch == "_")
        return f"L{self.labels}_{tail[:40]}"

    def _block(self, block: ast.Block, parent: Scope, end: str) -> None:
        scope = parent.child()
        for statement in block.body:
            if isinstance(statement, ast.Label):
                if statement.name in scope.names:
                    raise PtxError(f"label {statement.name} stands twice", line=statement.line)
                scope.names[statement.name] = Target(self._new_label(statement.name))
            elif isinstance(statement, ast.BranchTargets):
                scope.names[statement.name] = Targets(statement.labels)
        for statement in block.body:
            self._statement(statement, scope, end)

    def _statement(self, statement: ast.Statement, scope: Scope, end: str) -> None:
        if isinstance(statement, ast.Variable):
            self.declare(statement, scope)
        elif isinstance(statement, ast.Instruction):
            self._instruction(statement, scope, end)
        elif isinstance(statement, ast.Label):
            target = scope.names[statement.name]
            assert isinstance(target, Target)
            self.body.steps.append(Mark(target.cname))
        elif isinstance(statement, ast.Block):
            self._block(statement, scope, end)

    def declare(self, variable: ast.Variable, scope: Scope) -> None:
        """Enters a declaration of a function's body or parameter list."""
        if variable.space == "reg":
            scope.declare_register(variable)
        elif variable.space in ("param", "local"):
            scope.names[variable.name] = self.room(variable)
        elif variable.space == "shared":
            scope.names[variable.name] = self.shared(variable)
        else:
            raise PtxError(
                f"a .{variable.space} variable within a function is not supported",
                line=variable.line,
                instruction=statement_text(variable),
                remedy="declare it at the top of the module",
            )

    def room(self, variable: ast.Variable) -> Storage:
        """Per-thread memory for a .param or .local variable."""
        size, align = size_and_align(variable)
        cname = self.names(variable.name)
        address = self.thread_storage(cname)
        storage = Storage(variable.space, address, size, align, SCALARS[variable.type], cname)
        self.body.storage.append(storage)
        if variable.space == "local":
            self.body.locals_bytes = -(-self.body.locals_bytes // align) * align + size
        return storage

    def _instruction(self, ins: ast.Instruction, scope: Scope, end: str) -> None:
        if ins.opcode == "call":
            callee = _called(ins, scope)
            if callee is not None and self.inlined(callee.name):
                self._inline(ins, callee, scope, end)
                return
        self.body.steps.append(Step(ins, scope, end))

    def _inline(self, ins: ast.Instruction, callee: ast.Function, scope: Scope, end: str) -> None:
        """Writes `callee` in place of the call; a guard becomes a branch around it."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise PtxError(
                f"{callee.name} waits at a barrier and calls itself",
                line=ins.line,
                instruction=statement_text(ins),
                remedy="take the barrier out of the recursive function",
            )
        results, arguments = call_operands(ins)
        inner = self.scope()
        after = self._new_label("after_call")
        inner.names["$after"] = Target(after)
        if ins.guard is not None:
            skip = ast.Guard(ins.guard.register, not ins.guard.negated)
            around = scope.child()
            around.names["$after"] = Target(after)
            self.body.steps.append(Step(ast.Instruction("bra", (), (ast.Name("$after"),), skip, ins.line), around, end))
        self._bind(ins, callee.params, arguments, scope, inner, inward=True)
        self._bind(ins, callee.results, results, scope, inner, inward=False)
        assert callee.body is not None
        self._block(callee.body, inner, "$after")
        self.body.steps.append(Mark(after))
        self.depth -= 1

    def _bind(
        self,
        ins: ast.Instruction,
        formals: tuple[ast.Variable, ...],
        actuals: tuple[ast.Operand, ...],
        scope: Scope,
        inner: Scope,
        *,
        inward: bool,
    ) -> None:
        if len(formals) != len(actuals):
            raise PtxError(
                f"{len(actuals)} {'arguments' if inward else 'results'} where the function has {len(formals)}",
                line=ins.line,
                instruction=statement_text(ins),
            )
        for formal, actual in zip(formals, actuals, strict=True):
            entity = scope.find(actual.text, actual.part) if isinstance(actual, ast.Name) else None
            if formal.space == "param" and isinstance(entity, Storage) and entity.space == "param":
                inner.names[formal.name] = entity
                continue
            if formal.space == "reg" and isinstance(entity, Register) and not inward:
                inner.names[formal.name] = entity
                continue
            if formal.space == "reg" and inward:
                inner.declare_register(formal)
                bridge = scope.child()
                found = inner.find(formal.name)
                assert isinstance(found, Register)
                bridge.names["$formal"] = found
                kind = formal.type if formal.type == "pred" else f"b{SCALARS[formal.type].bits}"
                copy = ast.Instruction("mov", (kind,), (ast.Name("$formal"), actual), None, ins.line)
                self.body.steps.append(Step(copy, bridge))
                continue
            raise PtxError(
                "a call of a function with barriers passes a value that is no .param variable",
                line=ins.line,
                instruction=statement_text(ins),
                remedy="pass arguments in .param variables, as compilers do",
            )


def _called(ins: ast.Instruction, scope: Scope) -> ast.Function | None:
    for operand in ins.operands:
        if isinstance(operand, ast.Name):
            found = scope.find(operand.text)
            return found.function if isinstance(found, Callee) else None
    return None


def call_operands(ins: ast.Instruction) -> tuple[tuple[ast.Operand, ...], tuple[ast.Operand, ...]]:
    """(results, arguments) of a call."""
    groups: list[tuple[ast.Operand, ...]] = [(), ()]
    behind = 0
    for operand in ins.operands:
        if isinstance(operand, ast.Group):
            groups[behind] = operand.items
        else:
            behind = 1
    return groups[0], groups[1]
