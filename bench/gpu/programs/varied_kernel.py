"""A kernel in Triton whose length its data decide. Triton takes no Python types of parameters."""

import triton
import triton.language as tl


@triton.jit
def spin(out, rounds, number):
    many = tl.load(rounds + number)
    value = 1.0
    for _ in range(many):
        value = value * 1.0001 + 0.5 / (value + 1.0)
    tl.store(out + tl.program_id(0), value)
