"""Registers that a waiting thread need not keep, because a few cheap steps from its parameters give them again."""

from __future__ import annotations

from collections.abc import Iterable

from gpud.ptx.backend.emitter import Code
from gpud.ptx.backend.scope import Register

_MAX_STEPS = 3
PURE = {
    *("mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "not", "neg", "cvt", "cvta", "setp", "selp"),
    *("min", "max", "abs", "bfe"),
}


class Recomputed:
    """The registers with one write in all, made from kernel parameters, special registers and constants alone."""

    def __init__(self, codes: list[Code]) -> None:
        writes: dict[Register, int] = {}
        for code in codes:
            for register in code.writes:
                writes[register] = writes.get(register, 0) + 1
        self.steps: dict[Register, tuple[Code, int]] = {}
        for code in codes:
            if not code.pure or code.guarded or len(code.writes) != 1:
                continue
            (register,) = code.writes
            depth = 1 + max(
                (self.steps[source][1] if source in self.steps else _MAX_STEPS for source in code.reads), default=0
            )
            if writes[register] == 1 and depth <= _MAX_STEPS:
                self.steps[register] = (code, depth)

    def __contains__(self, register: Register) -> bool:
        return register in self.steps

    def lines(self, wanted: Iterable[Register]) -> list[str]:
        """C lines that compute the wanted registers, sources first; each in a block of its own."""
        done: dict[Register, None] = {}
        for register in wanted:
            self._add(register, done)
        return ["{ " + " ".join(self.steps[register][0].lines) + " }" for register in done]

    def _add(self, register: Register, done: dict[Register, None]) -> None:
        if register in done:
            return
        code = self.steps[register][0]
        for source in sorted(code.reads, key=lambda found: found.cname):
            self._add(source, done)
        done[register] = None
