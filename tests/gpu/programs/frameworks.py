"""frameworks.py KIND: computes in PyTorch, CuPy, Triton or numba, on orders (gpud.testing.spoken).

warm: sets up and computes once · work COUNT: COUNT launches (or replays) and no other ones; `launches` says how many
that must be, null where the framework alone knows · spin SECONDS: works so long · check: more of the framework, against
NumPy or the CPU. Every answer says whether what was computed is right.
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))
from gpud.testing.spoken import answer

SIZE = 1 << 14
EVERY = 200
"""Launches between two synchronisations."""


class Eager:
    """PyTorch, an operator at a time."""

    exact = True

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.value = torch.zeros(SIZE, dtype=torch.int32, device="cuda")
        self.done = 0

    def step(self) -> None:
        self.value.add_(1)
        self.done += 1

    def wait(self) -> None:
        self.torch.cuda.synchronize()

    def right(self) -> bool:
        return bool((self.value == self.done).all().item())

    def check(self) -> bool:
        """A model's forward and backward pass on two streams, with copies both ways, against the same on the CPU."""
        torch = self.torch
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_tf32 = False
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64)).double()
        data = torch.randn(128, 256, dtype=torch.float64)

        def gradients(device: str) -> list[Any]:
            copy = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64)).double()
            copy.load_state_dict(model.state_dict())
            copy.to(device)
            torch.softmax(copy(data.to(device, non_blocking=True)), dim=1).square().sum().backward()
            return [parameter.grad.cpu() for parameter in copy.parameters()]

        expected = gradients("cpu")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            beside = gradients("cuda")
        found = gradients("cuda")
        side.synchronize()
        return all(
            torch.allclose(one, two, rtol=1e-9) and torch.allclose(one, three, rtol=1e-9)
            for one, two, three in zip(expected, found, beside, strict=True)
        )


class Graphs(Eager):
    """PyTorch, a captured graph of five kernels replayed."""

    def __init__(self) -> None:
        super().__init__()
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._body()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self._body()
        self.value.zero_()
        torch.cuda.synchronize()

    def _body(self) -> None:
        for amount in (1, 2, 3, 4, -9):
            self.value.add_(amount)

    def step(self) -> None:
        self.graph.replay()
        self.done += 1

    def right(self) -> bool:
        return bool((self.value == self.done).all().item())


class Compiled(Eager):
    """torch.compile: kernels that Triton makes. `mode` is torch.compile's."""

    exact = False
    mode: str | None = None

    def __init__(self) -> None:
        super().__init__()
        torch = self.torch
        self.input = torch.randn(SIZE, device="cuda")
        self.other = torch.randn(SIZE, device="cuda")

        def body(x: Any, y: Any) -> Any:
            return torch.relu(torch.sin(x) * y + 1) + torch.cos(x)

        self.body = body
        self.function = torch.compile(body, mode=self.mode)
        self.result = None
        for _ in range(4):  # reduce-overhead captures at the second and third call
            self.step()
        self.wait()

    def step(self) -> None:
        self.result = self.function(self.input, self.other)
        self.done += 1

    def right(self) -> bool:
        return bool(self.torch.allclose(self.result, self.body(self.input, self.other), atol=1e-5))


class CompiledGraphs(Compiled):
    """torch.compile with CUDA graphs."""

    mode = "reduce-overhead"


class Cupy:
    """CuPy."""

    exact = True

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.value = cupy.zeros(SIZE, dtype=cupy.int32)
        self.done = 0

    def step(self) -> None:
        self.value += 1
        self.done += 1

    def wait(self) -> None:
        self.cupy.cuda.Device().synchronize()

    def right(self) -> bool:
        return bool((self.value.get() == self.done).all())

    def check(self) -> bool:
        """A raw kernel, a reduction and a product in two streams, against NumPy."""
        import numpy

        cupy = self.cupy
        text = 'extern "C" __global__ void twice(int *x, int n)\n'
        text += "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }"
        twice = cupy.RawKernel(text, "twice")
        host = numpy.random.default_rng(1).integers(0, 1000, SIZE).astype(numpy.int32)
        square = numpy.random.default_rng(2).random((128, 128))
        with cupy.cuda.Stream(non_blocking=True) as one:
            array = cupy.asarray(host)
            twice(((SIZE + 127) // 128,), (128,), (array, SIZE))
            total = int(array.sum().get())
        with cupy.cuda.Stream(non_blocking=True) as two:
            product = (cupy.asarray(square) @ cupy.asarray(square)).get()
        one.synchronize()
        two.synchronize()
        return total == int(host.sum()) * 2 and bool(numpy.allclose(product, square @ square))


class Triton(Eager):
    """Triton's own kernels, on PyTorch's memory."""

    def __init__(self) -> None:
        super().__init__()
        import triton_kernels

        self.kernels = triton_kernels

    def step(self) -> None:
        self.kernels.add_one[(self.kernels.blocks(SIZE),)](self.value, SIZE, BLOCK=self.kernels.BLOCK)
        self.done += 1

    def check(self) -> bool:
        """A row-wise softmax against PyTorch's on the CPU."""
        torch = self.torch
        rows = torch.randn(64, 1000, device="cuda")
        found = torch.empty_like(rows)
        self.kernels.softmax[(64,)](found, rows, rows.stride(0), 1000, BLOCK=1024)
        return bool(torch.allclose(found.cpu(), torch.softmax(rows.cpu(), dim=1), atol=1e-6))


class Numba:
    """numba-cuda."""

    exact = True

    def __init__(self) -> None:
        import numpy
        from numba import cuda

        warnings.simplefilter("ignore")
        self.numpy, self.cuda = numpy, cuda

        @cuda.jit
        def add_one(x: Any) -> None:
            i = cuda.grid(1)
            if i < x.size:
                x[i] += 1

        self.kernel = add_one
        self.value = cuda.to_device(numpy.zeros(SIZE, numpy.int32))
        self.done = 0

    def step(self) -> None:
        self.kernel[SIZE // 128, 128](self.value)
        self.done += 1

    def wait(self) -> None:
        self.cuda.synchronize()

    def right(self) -> bool:
        return bool((self.value.copy_to_host() == self.done).all())

    def check(self) -> bool:
        """Two streams, each with copies of its own."""
        streams = [self.cuda.stream() for _ in range(2)]
        hosts = [self.numpy.full(SIZE, number, self.numpy.int32) for number in (10, 20)]
        arrays = [self.cuda.to_device(host, stream=stream) for host, stream in zip(hosts, streams, strict=True)]
        for _ in range(5):
            for array, stream in zip(arrays, streams, strict=True):
                self.kernel[SIZE // 128, 128, stream](array)
        found = [array.copy_to_host(stream=stream) for array, stream in zip(arrays, streams, strict=True)]
        for stream in streams:
            stream.synchronize()
        return all(bool((one == host + 5).all()) for one, host in zip(found, hosts, strict=True))


KINDS = {
    "eager": Eager,
    "graphs": Graphs,
    "compile": Compiled,
    "compile-reduce-overhead": CompiledGraphs,
    "cupy": Cupy,
    "triton": Triton,
    "numba": Numba,
}


def main() -> int:
    made: list[Any] = []

    def it() -> Any:
        if not made:
            made.append(KINDS[sys.argv[1]]())
        return made[0]

    def work(count: int) -> dict[str, Any]:
        for number in range(count):
            it().step()
            if number % EVERY == EVERY - 1:
                it().wait()
        it().wait()
        return {"launches": count if it().exact else None}

    def warm() -> dict[str, Any]:
        work(3)
        return right()

    def right() -> dict[str, Any]:
        return {"right": it().right()}

    def spin(seconds: float) -> dict[str, Any]:
        began = it().done
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            work(EVERY)
        return {"launches": it().done - began}

    def check() -> dict[str, Any]:
        return {"right": it().check()}

    return answer(warm=warm, work=work, right=right, spin=spin, check=check)


if __name__ == "__main__":
    sys.exit(main())
