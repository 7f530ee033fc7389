"""Which registers are live after each step: what a waiting thread must keep."""

from __future__ import annotations

from gpud.ptx.backend.emitter import Code
from gpud.ptx.backend.scope import Register


def live_after(codes: list[Code]) -> list[set[Register]]:
    """For each step, the registers whose value may still be read after it."""
    numbers: dict[Register, int] = {}
    for code in codes:
        for register in (*code.reads, *code.writes):
            numbers.setdefault(register, len(numbers))
    registers = list(numbers)
    return [
        {register for register in registers if bits >> numbers[register] & 1} if codes[at].suspend else set()
        for at, bits in enumerate(_solve(codes, numbers))
    ]


def pressure(codes: list[Code]) -> int:
    """The most 32-bit registers live at once: a rough count of what a GPU's compiler would use."""
    numbers: dict[Register, int] = {}
    for code in codes:
        for register in (*code.reads, *code.writes):
            numbers.setdefault(register, len(numbers))
    wide = sum(1 << number for register, number in numbers.items() if register.image.bits == 64)
    predicates = sum(1 << number for register, number in numbers.items() if register.image.kind == "p")
    most = 0
    for bits in set(_solve(codes, numbers)):
        bits &= ~predicates
        most = max(most, bits.bit_count() + (bits & wide).bit_count())
    return most


def _solve(codes: list[Code], numbers: dict[Register, int]) -> list[int]:
    """Backward data flow over bit sets, block by block until nothing changes."""
    labels = {code.label: at for at, code in enumerate(codes) if code.label}
    reads = [_bits(code.reads, numbers) for code in codes]
    kills = [0 if code.guarded else _bits(code.writes, numbers) for code in codes]
    targets = [[labels[name] for name in code.jumps if name in labels] for code in codes]
    before = [0] * (len(codes) + 1)
    after = [0] * len(codes)
    changed = True
    while changed:
        changed = False
        for at in range(len(codes) - 1, -1, -1):
            live = before[at + 1] if codes[at].falls_through else 0
            for target in targets[at]:
                live |= before[target]
            after[at] = live
            live = (live & ~kills[at]) | reads[at]
            if live != before[at]:
                before[at] = live
                changed = True
    return after


def _bits(registers: set[Register], numbers: dict[Register, int]) -> int:
    total = 0
    for register in registers:
        total |= 1 << numbers[register]
    return total
