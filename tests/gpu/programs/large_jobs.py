"""large_jobs.py KIND: holds much of the device's memory and works on all of it, in PyTorch (`eager`) or numba, on
orders (gpud.testing.spoken). It knows nothing of gpud.

hold PERCENT: that much of the device's memory, in pieces · spin SECONDS: adds 1 to every number, again and again; how
often · right: are all numbers what they must be?
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from gpud.testing.spoken import answer

PIECE = 64 << 20
COUNT = PIECE // 4


class Eager:
    """PyTorch."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.total = torch.cuda.mem_get_info()[1]

    def piece(self, value: int) -> Any:
        return self.torch.full((COUNT,), value, dtype=self.torch.int32, device="cuda")

    def add(self, piece: Any) -> None:
        piece.add_(1)

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def holds(self, piece: Any, value: int) -> bool:
        return bool((piece == value).all().item())


class Numba:
    """numba-cuda. A piece is small on the simulated device, which is small."""

    def __init__(self) -> None:
        import numpy
        from numba import cuda

        warnings.simplefilter("ignore")
        self.numpy, self.cuda = numpy, cuda
        self.total = cuda.current_context().get_memory_info().total

        @cuda.jit
        def add_one(x: Any) -> None:
            for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
                x[i] += 1

        self.kernel = add_one

    def piece(self, value: int) -> Any:
        return self.cuda.to_device(self.numpy.full(COUNT, value, self.numpy.int32))

    def add(self, piece: Any) -> None:
        self.kernel[32, 128](piece)

    def wait(self) -> None:
        self.cuda.synchronize()

    def holds(self, piece: Any, value: int) -> bool:
        return bool((piece.copy_to_host() == value).all())


KINDS = {"eager": Eager, "numba": Numba}


def main() -> int:
    made: list[Any] = []
    pieces: list[Any] = []
    rounds = 0

    def hold(percent: int) -> dict[str, Any]:
        it = KINDS[sys.argv[1]]()
        made.append(it)
        pieces.extend(it.piece(number) for number in range(it.total * percent // 100 // PIECE))
        it.wait()
        return {"mib": len(pieces) * PIECE >> 20, "total_mib": it.total >> 20}

    def spin(seconds: float) -> dict[str, Any]:
        nonlocal rounds
        before, end = rounds, time.monotonic() + seconds
        while rounds == before or time.monotonic() < end:
            for piece in pieces:
                made[0].add(piece)
            made[0].wait()
            rounds += 1
        return {"rounds": rounds - before}

    def right() -> dict[str, Any]:
        return {"right": all(made[0].holds(piece, number + rounds) for number, piece in enumerate(pieces))}

    return answer(hold=hold, spin=spin, right=right)


if __name__ == "__main__":
    sys.exit(main())
