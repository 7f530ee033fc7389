"""Kernels in Triton, which wants them in a file, and parameters without Python types."""

import triton
import triton.language as tl

BLOCK = 256


def blocks(size: int) -> int:
    return (size + BLOCK - 1) // BLOCK


@triton.jit
def add_one(x, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    tl.store(x + at, tl.load(x + at, mask=inside) + 1, mask=inside)


@triton.jit
def softmax(out, rows, stride, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * stride
    x = tl.load(rows + row + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out + row + at, e / tl.sum(e, axis=0), mask=at < columns)
