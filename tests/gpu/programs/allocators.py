"""allocators.py: memory in PyTorch, on orders (gpud.testing.spoken), by the allocator of PYTORCH_CUDA_ALLOC_CONF.

grow MIB: holds so much more · churn ROUNDS: blocks of random sizes come and go, each keeps its contents · shrink: gives
everything back to the driver. Every answer says how much PyTorch holds.
"""

import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
import torch

from gpud.testing.spoken import answer

held: list[Any] = []


def holds(**more: Any) -> dict[str, Any]:
    torch.cuda.synchronize()
    return {"bytes": torch.cuda.memory_allocated(), "backend": torch.cuda.get_allocator_backend(), **more}


def grow(mib: int) -> dict[str, Any]:
    held.append(torch.full((mib, 1 << 20), 7, dtype=torch.uint8, device="cuda"))
    return holds()


def churn(rounds: int) -> dict[str, Any]:
    choose = random.Random(1)
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()]
    blocks: dict[int, Any] = {}
    wrong = 0
    for number in range(rounds):
        if len(blocks) > 20 or (blocks and choose.random() < 0.4):
            value = choose.choice(list(blocks))
            block, stream = blocks.pop(value)
            with torch.cuda.stream(stream):
                wrong += not bool((block == value).all().item())
            continue
        stream = choose.choice(streams)
        with torch.cuda.stream(stream):
            blocks[number] = (torch.full((choose.randrange(1, 4 << 20),), number, device="cuda"), stream)
    blocks.clear()
    return holds(wrong=wrong + sum(not bool((block == 7).all().item()) for block in held))


def shrink() -> dict[str, Any]:
    held.clear()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return holds()


if __name__ == "__main__":
    sys.exit(answer(grow=grow, churn=churn, shrink=shrink))
