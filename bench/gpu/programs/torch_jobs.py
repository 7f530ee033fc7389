"""Jobs of the benches in PyTorch. Kinds: service, small, long, graph, varied, tiny, or any name with a step of `ms`."""

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
import torch
from jobs import Jobs

from gpud.testing.spoken import answer

DEVICE = "cuda"
SERVICE_MS, LONG_MS, SMALL_MS = 10.0, 5.0, 3.0


def timed_ms(body: Callable[[], object], count: int) -> float:
    """Device time of one call of `body`, warm."""
    body()
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for _ in range(count):
        body()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / count


Shape = dict[str, Any]


class Torch:
    """What the kinds share. `body` puts one unit of work on the device; a step is `count` of them."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.shape: Shape = dict(shape or {})

    @property
    def count(self) -> int:
        return int(self.shape.get("count", 1))

    def body(self) -> None:
        raise NotImplementedError

    def step(self) -> None:
        for _ in range(self.count):
            self.body()

    def fit(self, ms: float) -> None:
        """Chooses the count so that a step takes about `ms`, unless it is known."""
        if "count" not in self.shape:
            self.shape["count"] = max(1, round(ms / timed_ms(self.body, 10)))

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True, blocking=False)
        event.record()
        return event

    def wait(self, mark: Any) -> None:
        mark.synchronize()

    def between_ms(self, first: Any, last: Any) -> float:
        return float(first.elapsed_time(last))

    def right(self) -> bool:
        raise NotImplementedError


class Product(Torch):
    """bf16 matrix products, one after another: kernels of one length. Right: as the first one, which was compared with
    a product in float32."""

    def __init__(self, side: int, shape: Shape | None = None) -> None:
        super().__init__((shape or {}) | {"side": side})
        self.a = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
        self.b = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16)
        self.c = torch.empty_like(self.a)
        self.body()
        rows = self.a[:64].float() @ self.b.float()
        error = (self.c[:64].float() - rows).norm() / rows.norm()
        if not float(error) < 1e-2:
            raise ArithmeticError(f"a product of {side} is off by {float(error):.2g}")
        self.first = self.c.clone()

    def body(self) -> None:
        torch.mm(self.a, self.b, out=self.c)

    def right(self) -> bool:
        same = bool(torch.equal(self.c, self.first))
        self.c.fill_(float("nan"))  # what is not written again is found
        self.body()
        return same


def product_of(ms: float, shape: Shape | None) -> Product:
    """A product whose one kernel takes about `ms`."""
    if shape:
        return Product(shape["side"])
    side = 4096
    took_ms = timed_ms(Product(side).body, 10)
    side = max(256, round(side * (ms / took_ms) ** (1 / 3) / 128) * 128)
    return Product(side)


class Service(Product):
    """A request: products of 0.2 ms or so, as many as make it SERVICE_MS."""

    def __init__(self, ms: float | None, shape: Shape | None) -> None:
        super().__init__(4096, shape)
        self.fit(ms or SERVICE_MS)


class Small(Torch):
    """Training in small kernels: forward, backward and optimiser of a perceptron. Right: the loss is finite."""

    def __init__(self, ms: float | None, shape: Shape | None) -> None:
        super().__init__(shape)
        torch.manual_seed(1)
        self.model = torch.nn.Sequential(
            *(layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.GELU()))
        ).to(DEVICE)
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.data = torch.randn(64, 512, device=DEVICE)
        self.fit(ms or SMALL_MS)

    def body(self) -> None:
        self.optimiser.zero_grad(set_to_none=False)
        loss = self.model(self.data).square().mean()
        loss.backward()
        self.optimiser.step()
        self.loss = (
            loss.detach()
        )  # what keeps the backward graph alive also keeps its streams, and no capture may use them

    def right(self) -> bool:
        return bool(torch.isfinite(self.loss).item())


class Graph(Small):
    """The same as a captured graph: one launch is a whole step of training."""

    graph: Any = None

    def __init__(self, ms: float | None, shape: Shape | None) -> None:
        super().__init__(ms, shape)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                super().body()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.count):
                super().body()
        self.graph = graph

    def step(self) -> None:
        self.graph.replay()


class Tiny(Torch):
    """The shortest kernel there is: only its launch costs anything."""

    def __init__(self, ms: float | None, shape: Shape | None) -> None:
        super().__init__(shape)
        self.value = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        self.done = 0

    def step(self) -> None:
        self.value.add_(1)
        self.done += 1

    def right(self) -> bool:
        return bool((self.value == self.done).all().item())


class Varied(Torch):
    """One kernel whose length its data decide, half of its launches leaving at once."""

    def __init__(self, ms: float | None, shape: Shape | None) -> None:
        super().__init__(shape)
        import varied_kernel

        self.kernel = varied_kernel.spin
        self.rounds = torch.tensor([0, 4000, 0, 1000, 0, 16000], dtype=torch.int32, device=DEVICE)
        self.out = torch.zeros(256, dtype=torch.float32, device=DEVICE)
        self.number = 0

    def step(self) -> None:
        self.kernel[(256,)](self.out, self.rounds, self.number % 6)
        self.number += 1

    def right(self) -> bool:
        return bool(torch.isfinite(self.out).all().item())


KINDS: dict[str, Callable[[float | None, Shape | None], Any]] = {
    "service": Service,
    "small": Small,
    "long": lambda ms, shape: product_of(ms or LONG_MS, shape),
    "graph": Graph,
    "tiny": Tiny,
    "varied": Varied,
}


def make(kind: str, ms: float | None, shape: Shape | None) -> Any:
    return KINDS[kind](ms, shape) if kind in KINDS else product_of(ms or 1.0, shape)


class Profiled(Jobs):
    """With the profiler's truth."""

    def profiled(self, kind: str, count: int) -> dict[str, Any]:
        """So many steps; the device time of all their kernels, copies and fills by CUPTI, 0 where it sees nothing."""
        from torch.profiler import ProfilerActivity, profile

        work = self._work[kind]
        if ProfilerActivity.CUDA not in torch.profiler.supported_activities():
            return {"device_ms": 0.0, "kernels": 0}
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(count):
                work.step()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            seen.export_chrome_trace(path)
            device_us, kernels = device_time_us(path)
        return {"device_ms": device_us / 1e3, "kernels": kernels}


def device_time_us(trace: str) -> tuple[float, int]:
    """Σ of the durations of what ran on the device, and how many of it were kernels."""
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    on_device = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return sum(event["dur"] for event in on_device), sum(event["cat"] == "kernel" for event in on_device)


def main() -> int:
    torch.backends.cuda.matmul.allow_tf32 = False
    jobs = Profiled(make)

    def hello() -> dict[str, Any]:
        torch.zeros(1, device=DEVICE)
        return {"device": torch.cuda.get_device_name(), "framework": "torch", "version": torch.__version__}

    names = ("prepare", "serve", "closed", "train", "burst", "steps", "check", "profiled")
    return answer(hello=hello, **{name: getattr(jobs, name) for name in names})


if __name__ == "__main__":
    sys.exit(main())
