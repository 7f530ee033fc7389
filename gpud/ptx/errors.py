"""The errors of the PTX compiler: each says where, what is wrong and what to do."""

from __future__ import annotations


class PtxError(Exception):
    """PTX that cannot be read or compiled.

    `line` counts from 1; `instruction` is the text of the statement concerned, empty where none was recognised;
    `remedy` says what the user can do.
    """

    def __init__(
        self, message: str, *, line: int = 0, instruction: str = "", file: str = "<ptx>", remedy: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.instruction = instruction
        self.file = file
        self.remedy = remedy

    def __str__(self) -> str:
        what = f"{self.instruction}: " if self.instruction else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.file}:{self.line}: {what}{self.message}{remedy}"

    def at(self, *, line: int, instruction: str = "") -> PtxError:
        """The same error with a place, where it had none."""
        if not self.line:
            self.line = line
        if not self.instruction:
            self.instruction = instruction
        return self


class CompilerMissing(Exception):
    """No C compiler was found; the message names the remedy."""


class CompilerFailed(Exception):
    """The C compiler refused the generated code: a fault of this compiler, not of the PTX."""
