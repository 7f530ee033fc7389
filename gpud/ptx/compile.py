"""Compiles PTX files to the shared objects of gpud_kernel.h."""

from __future__ import annotations

from pathlib import Path

from gpud.ptx.backend import c_text
from gpud.ptx.backend.build import build, find_compiler
from gpud.ptx.errors import PtxError
from gpud.ptx.parser import parse

COMPILER_VERSION = "1"
"""Changes whenever the same PTX would give other C: part of the key of every cache of compiled modules."""


def ptx_to_c(text: str, *, file: str = "<ptx>") -> str:
    """The C text for PTX text. Raises PtxError with file, line, instruction and remedy."""
    try:
        return c_text(parse(text, file=file))
    except PtxError as error:
        error.file = file
        raise


def compile_file(source: Path, output: Path, *, emit_c: Path | None = None, cc: str | None = None) -> None:
    """Compiles `source` to the shared object `output`, written whole or not at all.

    `emit_c` also gets the C text. Raises PtxError, CompilerMissing, CompilerFailed and OSError.
    """
    text = ptx_to_c(source.read_bytes().decode("utf-8", errors="replace"), file=str(source))
    if emit_c is not None:
        emit_c.write_text(text)
    build(text, output, compiler=find_compiler(cc))
