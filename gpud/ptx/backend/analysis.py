"""What a module's functions call, wait for and share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpud.ptx import ast
from gpud.ptx.backend.control import suspends


class CallGraph:
    """Answers about functions by name; an unknown name has no callees and waits for nothing."""

    def __init__(self, module: ast.Module) -> None:
        self.functions: dict[str, ast.Function] = {}
        self.shared: dict[str, ast.Variable] = {}
        for item in module.items:
            if isinstance(item, ast.Function) and (item.body is not None or item.name not in self.functions):
                self.functions[item.name] = item
            elif isinstance(item, ast.Variable) and item.space == "shared":
                self.shared[item.name] = item
        for item in module.items:
            if isinstance(item, ast.Alias) and item.target in self.functions:
                self.functions[item.name] = self.functions[item.target]
        self._callees = {name: self._called(function) for name, function in self.functions.items()}
        self._suspending = self._closure(_waits)
        self._sharing = self._closure(self._touches_shared)

    def _called(self, function: ast.Function) -> set[str]:
        found: set[str] = set()
        for statement in statements(function.body):
            if isinstance(statement, ast.Instruction) and statement.opcode == "call":
                names = (operand.text for operand in statement.operands if isinstance(operand, ast.Name))
                found.update(name for name in names if name in self.functions)
        return found

    def _closure(self, test: Callable[[ast.Function], bool]) -> set[str]:
        found = {name for name, function in self.functions.items() if test(function)}
        grown = True
        while grown:
            more = {name for name, callees in self._callees.items() if name not in found and callees & found}
            found |= more
            grown = bool(more)
        return found

    def _touches_shared(self, function: ast.Function) -> bool:
        for statement in statements(function.body):
            if isinstance(statement, ast.Variable) and statement.space == "shared":
                return True
            if isinstance(statement, ast.Instruction) and any(
                name in self.shared for operand in statement.operands for name in operand_names(operand)
            ):
                return True
        return False

    def suspends(self, name: str) -> bool:
        """Whether a thread may wait for others within the function or what it calls."""
        return name in self._suspending

    def shares(self, name: str) -> bool:
        """Whether the function, or what it calls, names a variable in shared memory."""
        return name in self._sharing

    def instructions(self, name: str) -> Iterator[ast.Instruction]:
        """All instructions of the function and of what it calls, each function once."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            current = todo.pop()
            if current in seen or current not in self.functions:
                continue
            seen.add(current)
            for statement in statements(self.functions[current].body):
                if isinstance(statement, ast.Instruction):
                    yield statement
            todo.extend(self._callees[current])


def statements(block: ast.Block | None) -> Iterator[ast.Statement]:
    """Everything within a block, nested blocks opened."""
    for statement in block.body if block is not None else ():
        if isinstance(statement, ast.Block):
            yield from statements(statement)
        else:
            yield statement


def operand_names(operand: ast.Operand) -> Iterator[str]:
    """The names of variables an operand may stand for."""
    if isinstance(operand, ast.Name):
        yield operand.text
    elif isinstance(operand, ast.Offset | ast.Address):
        if isinstance(operand.base, ast.Name):
            yield operand.base.text
    elif isinstance(operand, ast.Vector | ast.Group):
        for item in operand.items:
            yield from operand_names(item)


def _waits(function: ast.Function) -> bool:
    return any(
        isinstance(statement, ast.Instruction) and suspends(statement) for statement in statements(function.body)
    )
