"""The C back end: a PTX module to C text, and C text to a shared object."""

from __future__ import annotations

from gpud.ptx import ast
from gpud.ptx.backend.module import ModuleCompiler


def c_text(module: ast.Module) -> str:
    """The C file for `module`, the same for the same module. Raises PtxError."""
    return ModuleCompiler(module).text()
