"""What syntax tree, IR and declarations are made of: small frozen records, a hundred classes of them.

attrs writes and compiles the methods of each class when that is imported. Equality, hash and representation are here
instead, once for all: that was half of the time that importing them took, and hardly anybody but tests asks.
"""

from typing import Any, Self, dataclass_transform

from attrs import evolve, field, frozen


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Node:
    """A subclass is frozen, with its annotations as fields, as `attrs.frozen` makes it."""

    def __init_subclass__(cls, *, kw_only: bool = False) -> None:
        frozen(cls, eq=False, repr=False, slots=False, kw_only=kw_only)

    def but(self, **changes: Any) -> Self:
        """The same with other values of these fields."""
        return evolve(self, **changes)  # type: ignore[misc]

    def _compared(self) -> tuple[Any, ...]:
        return tuple(getattr(self, one.name) for one in self.__attrs_attrs__ if one.eq)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        assert isinstance(other, Node)
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((type(self), self._compared()))

    def __repr__(self) -> str:
        shown = (one.name for one in self.__attrs_attrs__ if one.repr)  # type: ignore[attr-defined]
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
