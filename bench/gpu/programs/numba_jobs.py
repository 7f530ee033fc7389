"""Jobs of the benches in numba-cuda, for the rehearsal: how long a kernel takes is in its name (rehearsal.toml)."""

import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
import numpy as np
from jobs import Jobs
from numba import cuda

from gpud.testing.spoken import answer

warnings.simplefilter("ignore")
SIZE, BLOCK = 256, 128


def kernel(name: str) -> Any:
    """The same kernel by another name."""
    scope: dict[str, Any] = {"cuda": cuda}
    text = f"def {name}(x):\n    i = cuda.grid(1)\n    if i < x.size:\n        x[i] += 1\n"
    exec(text, scope)
    return cuda.jit(scope[name])


KERNELS = {"service": ("us500", 10), "small": ("us100", 10), "long": ("us5000", 1), "tiny": ("us10", 1)}
"""Kind → the kernel's name, and how many of them a step is."""


class Numba:
    """Adds one, again and again."""

    def __init__(self, kind: str, ms: float | None, shape: dict[str, Any] | None) -> None:
        self.shape = shape or {}
        name, self.count = KERNELS[kind] if kind in KERNELS else (f"us{round((ms or 1) * 1000)}", 1)
        self.kernel = kernel(f"{name}_add")
        self.value = cuda.to_device(np.zeros(SIZE, np.int32))
        self.done = 0

    def step(self) -> None:
        for _ in range(self.count):
            self.kernel[SIZE // BLOCK, BLOCK](self.value)
        self.done += self.count

    def mark(self) -> Any:
        event = cuda.event()
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ms(self, first: Any, last: Any) -> float:
        return float(cuda.event_elapsed_time(first, last))

    def right(self) -> bool:
        return bool((self.value.copy_to_host() == self.done).all())


def main() -> int:
    jobs = Jobs(Numba)

    def hello() -> dict[str, Any]:
        return {"device": cuda.get_current_device().name, "framework": "numba"}

    doings = {name: getattr(jobs, name) for name in ("prepare", "serve", "closed", "train", "burst", "steps", "check")}
    return answer(hello=hello, **doings)


if __name__ == "__main__":
    sys.exit(main())
