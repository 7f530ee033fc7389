"""The few fields of an ELF file that decide whether the hook can be loaded. Standard library only, and cheap."""

import os
from struct import unpack_from

ET_DYN = 3
PT_INTERP = 3
MACHINES = {3: "x86", 40: "32-bit ARM", 62: "x86-64", 183: "aarch64", 243: "RISC-V", 21: "POWER", 22: "S/390"}


class Elf:
    """What an ELF file is for; `interpreter` is "" in static programs and in libraries."""

    __slots__ = ("bits", "end", "interpreter", "kind", "machine")

    def __init__(self, bits: int, machine: int, kind: int, interpreter: str, end: int) -> None:
        self.bits = bits
        self.machine = machine
        self.kind = kind
        self.interpreter = interpreter
        self.end = end
        """Bytes the file must have at least, by its section and segment tables."""

    def is_loader(self, path: str) -> bool:
        """True for ld.so itself, which honours LD_PRELOAD for the program it is given."""
        return self.kind == ET_DYN and not self.interpreter and os.path.basename(path).startswith(("ld-linux", "ld.so"))


def machine_name(machine: int) -> str:
    """The name of an ELF machine number."""
    return MACHINES.get(machine, f"machine {machine}")


def read_elf(path: str, start: bytes = b"") -> Elf | None:
    """Reads the headers of `path` (`start`: its first bytes, if known); None when it is no ELF file, or a torn one.

    Raises OSError when the file cannot be read.
    """
    with open(path, "rb") as file:
        head = start[:64] or file.read(64)
        if len(head) < 52 or not head.startswith(b"\x7fELF") or head[4] not in (1, 2) or head[5] not in (1, 2):
            return None
        bits = 64 if head[4] == 2 else 32
        if len(head) < 64 and bits == 64:
            return None
        order = "<" if head[5] == 1 else ">"
        kind, machine = unpack_from(order + "HH", head, 16)
        if bits == 64:
            phoff, shoff = unpack_from(order + "QQ", head, 32)
            entry, count, shentry, shcount = unpack_from(order + "HHHH", head, 54)
        else:
            phoff, shoff = unpack_from(order + "II", head, 28)
            entry, count, shentry, shcount = unpack_from(order + "HHHH", head, 42)
        end = shoff + shentry * shcount if shoff else 0
        file.seek(phoff)
        table = file.read(entry * count)
        interpreter = ""
        for index in range(count):
            place = index * entry
            if place + (40 if bits == 64 else 20) > len(table):
                end = max(end, phoff + entry * count)
                break
            if bits == 64:
                kind_of, _flags, offset, _vaddr, _paddr, size = unpack_from(order + "IIQQQQ", table, place)
            else:
                kind_of, offset, _vaddr, _paddr, size = unpack_from(order + "IIIII", table, place)
            end = max(end, offset + size) if size else end
            if kind_of == PT_INTERP:
                file.seek(offset)
                interpreter = os.fsdecode(file.read(min(size, 4096)).rstrip(b"\0"))
        return Elf(bits, machine, kind, interpreter, end)
