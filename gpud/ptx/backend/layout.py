"""Sizes, alignments and initial bytes of variables."""

from __future__ import annotations

import struct

from gpud.ptx import ast
from gpud.ptx.backend.types import SCALARS, Scalar
from gpud.ptx.errors import PtxError
from gpud.ptx.printer import statement_text


def size_and_align(variable: ast.Variable) -> tuple[int, int]:
    """Bytes of `variable` (an open array has 0) and its alignment.

    Raises PtxError for types that have no size here (textures).
    """
    scalar = scalar_of(variable)
    natural = scalar.bytes * variable.vector
    count = 1
    for side in _sides(variable):
        count *= side
    return natural * count, max(variable.align, natural if natural & (natural - 1) == 0 else scalar.bytes)


def _sides(variable: ast.Variable) -> list[int]:
    """The array's sides; an open first one is as long as the initialiser."""
    sides = [max(side, 0) for side in variable.dims]
    if variable.dims[:1] == (-1,) and isinstance(variable.initial, ast.Vector):
        sides[0] = len(variable.initial.items)
    return sides


def scalar_of(variable: ast.Variable) -> Scalar:
    scalar = SCALARS.get(variable.type)
    if scalar is None:
        raise PtxError(
            f".{variable.type} is not supported: textures, samplers and surfaces are out of scope",
            line=variable.line,
            instruction=statement_text(variable),
            remedy="read the data through plain global memory",
        )
    return scalar


def place(sizes: list[tuple[int, int]]) -> tuple[list[int], int]:
    """Offsets of variables of (size, align) one behind the other, and the end of the last."""
    offsets = []
    end = 0
    for size, align in sizes:
        start = -(-end // align) * align
        offsets.append(start)
        end = start + size
    return offsets, end


def initial_bytes(variable: ast.Variable) -> bytes | None:
    """The bytes a variable starts with; None for zeroes.

    Raises PtxError where an initialiser holds an address or is too long.
    """
    if variable.initial is None:
        return None
    scalar = scalar_of(variable)
    size, _ = size_and_align(variable)
    found = bytearray(size)
    sides = _sides(variable)
    if variable.vector > 1:
        sides.append(variable.vector)
    _fill(variable, variable.initial, sides, 0, scalar, found)
    return bytes(found)


def _fill(
    variable: ast.Variable, value: ast.Operand, sides: list[int], at: int, scalar: Scalar, found: bytearray
) -> None:
    if isinstance(value, ast.Vector):
        if len(value.items) > (sides[0] if sides else 1):
            raise _bad(variable, "the initialiser has more values than the variable has room for")
        inner = sides[1:]
        step = scalar.bytes
        for side in inner:
            step *= side
        if inner and value.items and not isinstance(value.items[0], ast.Vector):
            inner, step = [], scalar.bytes  # flat values for a nested array
        for index, item in enumerate(value.items):
            _fill(variable, item, inner, at + index * step, scalar, found)
        return
    image = _image(variable, value, scalar)
    found[at : at + len(image)] = image


def _image(variable: ast.Variable, value: ast.Operand, scalar: Scalar) -> bytes:
    if isinstance(value, ast.Float):
        number = struct.unpack("<f" if value.bits == 32 else "<d", value.image.to_bytes(value.bits // 8, "little"))[0]
        if (scalar.kind == "f" and scalar.bits == value.bits) or (not scalar.floating and scalar.bits == value.bits):
            return value.image.to_bytes(scalar.bytes, "little")
        if scalar.kind in "fh" and scalar.bits <= 64:
            return struct.pack({16: "<e", 32: "<f", 64: "<d"}[scalar.bits], number)
        raise _bad(variable, "a floating constant does not fit this type")
    if isinstance(value, ast.Int):
        if scalar.kind == "f":
            return struct.pack("<f" if scalar.bits == 32 else "<d", float(value.value))
        return (value.value & ((1 << scalar.bits) - 1)).to_bytes(scalar.bytes, "little")
    raise _bad(
        variable,
        "an initialiser that holds an address is not supported",
        "store the address at run time, from a kernel",
    )


def _bad(variable: ast.Variable, message: str, remedy: str = "") -> PtxError:
    text = statement_text(variable)
    if len(text) > 100:
        text = text[:97] + "..."
    return PtxError(message, line=variable.line, instruction=text, remedy=remedy)
