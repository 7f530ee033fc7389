"""Traces of one daemon: who makes spans, and who takes them."""

import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from attrs import frozen

import gpud
from gpud.config_file import TelemetryConfig
from gpud.engine.ports import ObserverPort
from gpud.engine.reload_steps import Steps
from gpud.engine.state import State
from gpud.model.ids import JobId
from gpud.telemetry import reloads
from gpud.telemetry.observer import Observer
from gpud.telemetry.span import Put, SpanRecord

if TYPE_CHECKING:
    from gpud.telemetry.exporter import Exporter

log = logging.getLogger("gpud.telemetry")

_RANDOM = random.Random(os.urandom(32))
PATH = "/v1/traces"
"""Of an OTLP endpoint over HTTP."""


@frozen(kw_only=True)
class Traces:
    """What the rest of the daemon needs of them."""

    observer: ObserverPort | None
    """None: nobody wants spans."""
    trace_of: Callable[[JobId], str]
    """Id of a job's trace, hex; "": it is sent nowhere."""
    reloaded: Callable[[Steps], None]
    """Takes a change of policies."""


@asynccontextmanager
async def open_traces(
    config: TelemetryConfig,
    state: State,
    *,
    boot: str,
    sinks: Sequence[Put] = (),
    now: Callable[[], int] = time.monotonic_ns,
    wall: Callable[[], int] = time.time_ns,
    bits: Callable[[int], int] = _RANDOM.getrandbits,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[Traces]:
    """Before the engine, and until after it. `sinks`: who else takes spans; with neither them nor an exporter there is
    no observer. While spans are sent, jobs are told of their trace (TRACEPARENT)."""
    exporter = _open_exporter(config, environ)
    puts = (*sinks, *((exporter.put,) if exporter is not None else ()))
    if not puts:
        yield Traces(observer=None, trace_of=lambda job: "", reloaded=lambda steps: None)
        return
    if exporter is not None:
        state.trace_seed = boot

    def put(record: SpanRecord) -> None:
        for one in puts:
            one(record)

    def offset() -> int:
        return wall() - now()

    sample = sample_of(environ, config.sample)
    observer = Observer(state, put, seed=boot, sample=sample, now=now(), offset=offset, bits=bits)
    try:
        yield Traces(
            observer=observer,
            trace_of=observer.trace_of if exporter is not None else lambda job: "",
            reloaded=lambda steps: reloads.tell(put, steps, offset=offset(), bits=bits),
        )
    finally:
        observer.close(now())
        if exporter is not None:
            await exporter.aclose()


def wanted(config: TelemetryConfig, environ: Mapping[str, str]) -> bool:
    """Are spans to be sent?"""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or config.traces is False:
        return False
    exporters = environ.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporters == "none" or environ.get("OTEL_TRACES_SAMPLER", "").strip().endswith("always_off"):
        return False
    named = exporters or any(environ.get(name) for name in _ENDPOINTS)
    return bool(config.traces) or bool(named)


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def endpoint_of(config: TelemetryConfig, environ: Mapping[str, str]) -> str | None:
    """In full, of what gpud.toml says; None: OpenTelemetry's variables, or its default."""
    if not isinstance(config.traces, str) or any(environ.get(name) for name in _ENDPOINTS):
        return None
    scheme, _, rest = config.traces.partition("://")
    named = (environ.get(f"OTEL_EXPORTER_OTLP_{name}PROTOCOL", "").strip() for name in ("TRACES_", ""))
    grpc = next(filter(None, named), "") == "grpc"
    return config.traces if grpc or "/" in rest.rstrip("/") else f"{scheme}://{rest.rstrip('/')}{PATH}"


def sample_of(environ: Mapping[str, str], otherwise: int) -> int:
    """One turn in so many is told, of those that nothing is special about: by OTEL_TRACES_SAMPLER, else `otherwise`."""
    sampler = environ.get("OTEL_TRACES_SAMPLER", "").strip().removeprefix("parentbased_")
    if sampler == "always_on":
        return 1
    if sampler != "traceidratio":
        return otherwise
    try:
        ratio = float(environ.get("OTEL_TRACES_SAMPLER_ARG", "1"))
    except ValueError:
        ratio = -1.0
    if not 0 < ratio <= 1:
        log.warning("OTEL_TRACES_SAMPLER_ARG is no number above 0 and up to 1: one turn in %d is told", otherwise)
        return otherwise
    return min(max(round(1 / ratio), 1), 1_000_000)


def _open_exporter(config: TelemetryConfig, environ: Mapping[str, str]) -> "Exporter | None":
    """None: nobody wants one, or it cannot be; a daemon without traces is better than none."""
    if not wanted(config, environ):
        return None
    try:
        from gpud.telemetry.exporter import Exporter

        about = {
            "service.name": "gpud",
            "service.version": gpud.__version__,
            "service.instance.id": f"{socket.gethostname()}:{os.getpid()}",
            "host.name": socket.gethostname(),
        }
        return Exporter(endpoint_of(config, environ), about, gpud.__version__)
    except Exception as error:  # of a library, by whatever its variables say
        log.error("no traces are sent: %s", error)
        return None
