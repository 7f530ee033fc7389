"""A gpud plugin: how many requests wait in a serving engine, read from its metrics page (Prometheus' text format).

Settings, in gpud.toml:

    [plugins.engine_queue]
    url    = "http://127.0.0.1:8000/metrics"
    metric = "vllm:num_requests_waiting"     # summed over all its label sets
    class  = "serving"                       # the class of the policy that the number belongs to
"""

import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from gpud.policies.plugins.declare import Class, Number, Plugin, Signal, ms, s

EVERY_S = 0.25
TIMEOUT_S = 1.0
MOST_BYTES = 4 << 20


def waiting(page: str, metric: str) -> float | None:
    """The sum of all samples of a metric; None when the page has none."""
    found = [line for line in page.splitlines() if line.startswith((metric + " ", metric + "{"))]
    values = [float(line.rpartition("}")[2].removeprefix(metric).split()[0]) for line in found]
    return sum(values) if values else None


def fetch(url: str) -> str:
    """The metrics page. Raises OSError."""
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        page: bytes = answer.read(MOST_BYTES)
        return page.decode(errors="replace")


async def watch(publish: Callable[[str, str, Any], None], settings: dict[str, Any]) -> None:
    """Asks until cancelled. An engine that does not answer makes the number unknown; the policy decides what then."""
    url, metric, target = settings["url"], settings["metric"], settings["class"]
    while True:
        try:
            value = waiting(await trio.to_thread.run_sync(fetch, url), metric)
        except (OSError, ValueError, IndexError):
            value = None
        publish("depth", target, value)
        await trio.sleep(EVERY_S)


@asynccontextmanager
async def open_queue(publish: Callable[[str, str, Any], None], settings: dict[str, Any]) -> AsyncIterator[None]:
    """Raises ValueError when a setting is missing."""
    for name in ("url", "metric", "class"):
        if not isinstance(settings.get(name), str):
            raise ValueError(f'gpud.toml: [plugins.engine_queue] needs {name} = "…"')
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, publish, settings)
        yield
        nursery.cancel_scope.cancel()


plugin = Plugin(
    name="engine_queue",
    signals=(
        Signal("depth", Number, scope=Class, every=ms(250), stale_after=s(2), doc="Requests waiting in the engine."),
    ),
    open=open_queue,
    doc="Requests waiting in a serving engine, from its metrics page.",
)
