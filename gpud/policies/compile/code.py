"""Python text that is being written, and what it needs beside itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isinf
from typing import Any

from attrs import define, field

_LARGEST_INT = 1 << 63


@define
class Code:
    """Lines of one function; constants and helpers are names in its globals."""

    globals: dict[str, Any] = field(factory=lambda: {"inf": inf})
    lines: list[str] = field(factory=list)
    depth: int = 1
    _names: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """`head:` and what is written inside, `pass` if that is nothing."""
        self.line(f"{head}:")
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def name(self, prefix: str = "x") -> str:
        """One that nothing else has."""
        self._names += 1
        return f"{prefix}_{self._names}"

    def temp(self, expression: str) -> str:
        name = self.name()
        self.line(f"{name} = {expression}")
        return name

    def use(self, name: str, thing: Any) -> str:
        """A helper under its own name."""
        known = self.globals.setdefault(name, thing)
        assert known is thing, name
        return name

    def constant(self, value: Any) -> str:
        """A literal where there is one; floats are written so that they come back the same."""
        if value is None or isinstance(value, bool | str):
            return repr(value)
        if isinstance(value, int):
            return repr(value) if abs(value) < _LARGEST_INT else self.constant(_as_float(value))
        if isinstance(value, float):
            return ("inf" if value > 0 else "-inf") if isinf(value) else repr(value)
        for name, known in self.globals.items():
            if type(known) is type(value) and known == value:
                return name
        return self.use(self.name("c"), value)


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf
