"""Everything that Prometheus sees of one daemon: what is counted, and who serves it."""

import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpud.config_file import MetricsConfig
from gpud.engine.live import Rows
from gpud.engine.service import Engine
from gpud.telemetry.dcgm import open_dcgm_files
from gpud.telemetry.loop_lag import open_loop_lag
from gpud.telemetry.metrics import Metrics
from gpud.telemetry.metrics_server import listen_on, open_metrics_server
from gpud.telemetry.tally import TraceOf

log = logging.getLogger("gpud.metrics")


@asynccontextmanager
async def open_metrics(
    config: MetricsConfig,
    engine: Engine,
    listener: socket.socket,
    *,
    rows: Callable[[], Rows],
    trace_of: TraceOf,
    look: Callable[[], Awaitable[None]],
) -> AsyncIterator[Metrics]:
    """Until left. `listener`: the Unix socket, which stays the caller's; the rest as `Metrics` has it. An address that
    cannot be had costs a line in the log, and nobody can scrape there."""
    async with contextlib.AsyncExitStack() as stack:
        lag = stack.enter_context(open_loop_lag())
        metrics = Metrics(engine.state, engine.pages.counters, rows, lag, engine.now, trace_of, look)
        engine.observe(metrics.tally)
        listeners = [listener]
        if config.address is not None:
            try:
                listeners.append(stack.enter_context(listen_on(*config.address)))
            except OSError as error:
                log.warning("no metrics at %s: %s", config.listen, error.strerror or error)
        if config.dcgm_mapping_dir:
            files = open_dcgm_files(engine.state, Path(config.dcgm_mapping_dir))
            engine.observe(await stack.enter_async_context(files))
        await stack.enter_async_context(open_metrics_server(listeners, metrics.page))
        yield metrics
