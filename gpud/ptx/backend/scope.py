"""Names within a function: registers, variables, labels, and where each lives in the generated C."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpud.ptx import ast
from gpud.ptx.backend.types import SCALARS, Scalar, register_image
from gpud.ptx.errors import PtxError

_PARTS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


@dataclass(eq=False, slots=True)
class Register:
    """A register: `image` is the type of the C variable `cname`."""

    cname: str
    image: Scalar
    used: bool = False


@dataclass(eq=False, slots=True)
class Storage:
    """A variable in memory: `address` is a C expression of its PTX address (an offset for .shared).

    `constant`: what it holds never changes during a launch.
    """

    space: str
    address: str
    bytes: int
    align: int
    type: Scalar
    name: str = ""
    constant: bool = False


@dataclass(eq=False, slots=True)
class Target:
    """A label, as the C label's name."""

    cname: str


@dataclass(eq=False, slots=True)
class Targets:
    """A .branchtargets list."""

    labels: tuple[str, ...]


@dataclass(eq=False, slots=True)
class Callee:
    function: ast.Function


Entity = Register | Storage | Target | Targets | Callee


class Scope:
    """A block's names; what it lacks is looked up in the one around it.

    At the outermost there is `outer`, which knows the module's names and answers None for unknown ones.
    """

    def __init__(
        self, parent: Scope | None, fresh: Callable[[str], str], outer: Callable[[str], Entity | None]
    ) -> None:
        self.parent = parent
        self.fresh = fresh
        self.outer = outer
        self.names: dict[str, Entity] = {}
        self.ranges: dict[str, tuple[int, Scalar]] = {}
        self.vectors: dict[str, tuple[int, Scalar]] = {}

    def child(self) -> Scope:
        return Scope(self, self.fresh, self.outer)

    def declare_register(self, variable: ast.Variable) -> None:
        scalar = SCALARS.get(variable.type)
        if scalar is None:
            raise PtxError(f"registers of type .{variable.type} are not supported", line=variable.line)
        if variable.count:
            self.ranges[variable.name] = (variable.count, scalar)
        elif variable.vector > 1:
            self.vectors[variable.name] = (variable.vector, scalar)
        else:
            self.names[variable.name] = Register(self.fresh(variable.name), register_image(scalar))

    def find(self, name: str, part: str = "") -> Entity | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope._own(name, part)
            if found is not None:
                return found
            scope = scope.parent
        return self.outer(name)

    def _own(self, name: str, part: str) -> Entity | None:
        key = f"{name}.{part}" if part else name
        found = self.names.get(key)
        if found is not None:
            return found
        if part and name in self.vectors:
            size, scalar = self.vectors[name]
            if _PARTS.get(part, 9) < size:
                return self._new_register(key, scalar)
        if not part and name[-1].isdigit():
            for prefix, (count, scalar) in self.ranges.items():
                digits = name[len(prefix) :] if name.startswith(prefix) else ""
                if digits.isdecimal() and str(int(digits)) == digits and int(digits) < count:
                    return self._new_register(name, scalar)
        return None

    def _new_register(self, key: str, scalar: Scalar) -> Register:
        register = Register(self.fresh(key), register_image(scalar))
        self.names[key] = register
        return register


class Names:
    """Hands out C identifiers, each once within a C function."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def __call__(self, name: str) -> str:
        base = "v_" + re.sub(r"\W", "_", name.lstrip("%"))
        found, count = base, 0
        while found in self.taken:
            count += 1
            found = f"{base}__{count}"
        self.taken.add(found)
        return found
