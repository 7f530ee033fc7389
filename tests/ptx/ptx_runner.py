"""Compiles PTX and runs its kernels on buffers of this process, by ctypes, as the simulated driver does."""

from __future__ import annotations

import ctypes as c
import struct
from pathlib import Path

from gpud.ptx.backend.build import build, find_compiler
from gpud.ptx.compile import ptx_to_c

OK, TRAP, BARRIER, NO_MEMORY = range(4)


class Launch(c.Structure):
    _fields_ = [
        ("grid", c.c_uint32 * 3),
        ("block", c.c_uint32 * 3),
        ("dynamic_shared_bytes", c.c_uint32),
        ("warp_size", c.c_uint32),
        ("sm_count", c.c_uint32),
        ("reserved", c.c_uint32),
        ("globals", c.POINTER(c.c_void_p)),
    ]


RUN = c.CFUNCTYPE(c.c_int, c.POINTER(Launch), c.c_void_p, c.c_uint64, c.c_uint64)


class Param(c.Structure):
    _fields_ = [("offset", c.c_uint32), ("bytes", c.c_uint32)]


class Kernel(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("run", RUN),
        ("param_count", c.c_uint32),
        ("param_bytes", c.c_uint32),
        ("params", c.POINTER(Param)),
        ("static_shared_bytes", c.c_uint32),
        ("local_bytes", c.c_uint32),
        ("max_threads", c.c_uint32),
        ("registers", c.c_uint32),
    ]


class Global(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("bytes", c.c_uint64),
        ("align", c.c_uint32),
        ("is_const", c.c_uint32),
        ("initial", c.c_void_p),
    ]


class Desc(c.Structure):
    _fields_ = [
        ("abi", c.c_uint32),
        ("kernel_count", c.c_uint32),
        ("global_count", c.c_uint32),
        ("ptx_version", c.c_uint32),
        ("target", c.c_uint32),
        ("reserved", c.c_uint32),
        ("kernels", c.POINTER(Kernel)),
        ("globals", c.POINTER(Global)),
    ]


class Module:
    """A compiled and loaded module, with a copy of its variables."""

    def __init__(self, ptx: str, directory: Path, name: str = "module") -> None:
        self.c_text = ptx_to_c(ptx, file=f"{name}.ptx")
        path = directory / f"{name}.so"
        build(self.c_text, path, compiler=find_compiler())
        self.library = c.CDLL(str(path))
        self.desc = Desc.in_dll(self.library, "gpud_module")
        assert self.desc.abi == 1
        self.kernels = {self.desc.kernels[i].name.decode(): self.desc.kernels[i] for i in range(self.desc.kernel_count)}
        self.globals: dict[str, c.Array[c.c_char]] = {}
        pointers = []
        for i in range(self.desc.global_count):
            row = self.desc.globals[i]
            room = c.create_string_buffer(row.bytes + row.align)
            start = -(-c.addressof(room) // row.align) * row.align
            if row.initial:
                c.memmove(start, row.initial, row.bytes)
            self.globals[row.name.decode()] = room
            pointers.append(start)
        self.addresses = dict(zip(self.globals, pointers, strict=True))
        self.pointers = (c.c_void_p * max(len(pointers), 1))(*pointers)

    def run(self, kernel: str, grid: object, block: object, *args: object, shared: int = 0, parts: int = 1) -> int:
        """Runs a kernel; arguments are (format, value) for struct.pack or objects with a .ctypes (NumPy arrays)."""
        row = self.kernels[kernel]
        launch = self.launch(grid, block, shared)
        params = self.params(row, args)
        total = launch.grid[0] * launch.grid[1] * launch.grid[2]
        first = 0
        for part in range(parts):
            last = total * (part + 1) // parts
            status = row.run(c.byref(launch), params, first, last - first)
            if status:
                return int(status)
            first = last
        return OK

    def variable(self, name: str, layout: str) -> tuple[object, ...]:
        """The value of a module variable, by struct's layout."""
        return struct.unpack(layout, c.string_at(self.addresses[name], struct.calcsize(layout)))

    def launch(self, grid: object, block: object, shared: int = 0) -> Launch:
        sides = [(*side, 1, 1)[:3] if isinstance(side, tuple) else (side, 1, 1) for side in (grid, block)]
        return Launch((c.c_uint32 * 3)(*sides[0]), (c.c_uint32 * 3)(*sides[1]), shared, 32, 4, 0, self.pointers)

    def params(self, row: Kernel, args: tuple[object, ...]) -> c.Array[c.c_char]:
        assert len(args) == row.param_count, (len(args), row.param_count)
        image = c.create_string_buffer(max(row.param_bytes, 1))
        for index, arg in enumerate(args):
            data = bytes(arg) if isinstance(arg, bytes) else _packed(arg)
            assert len(data) == row.params[index].bytes, (index, len(data), row.params[index].bytes)
            image[row.params[index].offset : row.params[index].offset + len(data)] = data
        return image


def _packed(arg: object) -> bytes:
    if isinstance(arg, tuple):
        return struct.pack("<" + arg[0], *arg[1:])
    if hasattr(arg, "ctypes"):
        return struct.pack("<Q", arg.ctypes.data)
    return struct.pack("<Q", c.addressof(arg))


def numba_args(*arrays_and_scalars: object) -> list[object]:
    """NumPy arrays the way numba passes them (7 words a vector, 9 a matrix); other arguments as they are."""
    found: list[object] = []
    for arg in arrays_and_scalars:
        if not hasattr(arg, "ctypes"):
            found.append(arg)
            continue
        found += [("Q", 0), ("Q", 0), ("q", arg.size), ("q", arg.itemsize), ("Q", arg.ctypes.data)]
        found += [("q", side) for side in (*arg.shape, *arg.strides)]
    return found
