"""The turns of `gpud` under asyncio and trio: `import gpud.aio`, then `async with gpud.aio.acquire(): …`."""

from gpud.api.aio import acquire, on_gpu

__all__ = ["acquire", "on_gpu"]
