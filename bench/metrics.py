"""What scrapes cost: 200 jobs on 8 devices, all of which do something all the time.

With a daemon (stand-in driver): from request to the last byte over the Unix socket; CPU time of the daemon while
somebody scrapes without a pause, above that of while nobody does. The contrast: a request to the same server for what
is not there, which is HTTP alone.

Without one, on a node made of events: CPU time of making all metrics, in both forms; of the rows among that, which
screens share; and of writing as many samples down by the library, without looking at anything.
"""

import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from trio.lowlevel import checkpoint

from bench.feed_state import Crowd as Made
from bench.harness import NATIVE, own_policies, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from bench.scale import DEVICES, Crowd, percent, policies
from gpud.engine.live import Facts, Live, Rows
from gpud.model.policy_views import SetView
from gpud.model.units import MILLISECOND
from gpud.telemetry.loop_lag import LoopLag
from gpud.telemetry.metrics import OPENMETRICS, TEXT, Metrics
from gpud.testing.node import Node

JOBS_EACH = 25
SCRAPES, PAUSE_S = 40, 0.5
"""A pause is longer than what is made is kept."""
ROUNDS, ROUND_S = 5, 4.0
STEPS, STEP_NS = 200, 500 * MILLISECOND
RUNNING = SetView(number=1, digest="d", directory="/p", applied=None, since_ns=1, how="start", probation_ns=0)


def took_ms(path: Path, target: str = "/metrics") -> float:
    """One request on a connection of its own, as of scrapers that come seldom."""
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        lines = f"GET {target} HTTP/1.1", "Host: a", "Accept: application/openmetrics-text", "Connection: close"
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        while connection.recv(1 << 16):
            pass
    return (time.monotonic() - began) * 1e3


def times(path: Path, scrapes: int) -> Iterator[Row]:
    scraped: list[float] = []
    empty: list[float] = []
    for _ in range(scrapes):
        for found, target in ((scraped, "/metrics"), (empty, "/")):
            time.sleep(PAUSE_S)
            found.append(took_ms(path, target))
    jobs = JOBS_EACH * DEVICES
    yield row_of_runs(f"metrics_{jobs}jobs_scrape_ms", scraped, "ms", 20.0)
    yield Row(name=f"metrics_{jobs}jobs_scrape_worst_ms", value=max(scraped), unit="ms")
    yield row_of_runs("metrics_nothing_scraped_ms", empty, "ms")


def hammered(pid: int, path: Path, seconds: float) -> float:
    """CPU time of the daemon in percent of a core, while somebody scrapes without a pause."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            took_ms(path)

    thread = threading.Thread(target=go_on)
    thread.start()
    (spent,) = percent([pid], seconds)
    over.set()
    thread.join()
    return spent


def without_pause(node: Node, path: Path, rounds: int, seconds: float) -> Iterator[Row]:
    assert node.daemon is not None
    found = []
    for _ in range(rounds):
        (before,) = percent([node.daemon.pid], seconds)
        found.append(hammered(node.daemon.pid, path, seconds) - before)
    yield row_of_runs(f"metrics_{JOBS_EACH * DEVICES}jobs_without_pause_cpu_percent", found, "% of a core")


def cpu_ms(work: Callable[[], object]) -> float:
    began = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - began) / 1e6


class _Said(Collector):
    """What was said before."""

    def __init__(self, text: str) -> None:
        self._families = list(text_string_to_metric_families(text))

    def collect(self) -> Iterable[Metric]:
        return self._families


def rows_without_daemon(steps: int) -> Iterator[Row]:
    """Each step is another one for every job."""
    crowd, live = Made(JOBS_EACH * DEVICES, DEVICES), Live(Facts())
    sums, levels = crowd.step(STEP_NS)
    latest: list[Rows] = []

    def look() -> None:
        latest[:] = [live.look(crowd.state, sums, levels, crowd.now, offset=0, driver="ok", policy_set=RUNNING)]

    metrics = Metrics(
        crowd.state, lambda: sums, lambda: latest[0], LoopLag(), lambda: crowd.now, lambda job: "", checkpoint
    )
    found: dict[str, list[float]] = {"rows": [], TEXT: [], OPENMETRICS: [], "library": []}
    for _ in range(steps):
        sums, levels = crowd.step(STEP_NS)
        found["rows"].append(cpu_ms(look))
        for form in (TEXT, OPENMETRICS):
            found[form].append(cpu_ms(lambda form=form: metrics.make(form)))  # type: ignore[misc]
    text = metrics.make(TEXT).decode()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Said(text))
    found["library"] = [cpu_ms(lambda: generate_latest(registry)) for _ in range(steps)]
    rows, made, openmetrics, library = (statistics.median(found[one]) for one in found)
    prefix = f"metrics_{JOBS_EACH * DEVICES}jobs"
    yield Row(name=f"{prefix}_made_ms", value=rows + made, unit="ms of CPU", target=20.0)
    yield Row(name=f"{prefix}_made_openmetrics_ms", value=rows + openmetrics, unit="ms of CPU", target=20.0)
    yield Row(name=f"{prefix}_rows_ms", value=rows, unit="ms of CPU")
    yield Row(name=f"{prefix}_library_alone_ms", value=library, unit="ms of CPU")
    yield Row(name=f"{prefix}_series", value=sum(not line.startswith("#") for line in text.splitlines()), unit="lines")


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    quick = options.quick
    rows = list(rows_without_daemon(20 if quick else STEPS))
    with (
        program(NATIVE / "crowd.c") as binary,
        own_policies(policies()["preempt"]) as directory,
        standin_node("bench", directory) as node,
    ):
        crowd = Crowd(node, binary, JOBS_EACH, wide=False)
        crowd.do("train", "train")
        time.sleep(1.0)  # what a change of load does is not what it costs
        path = node.runtime_dir / "metrics.sock"
        rows += times(path, 4 if quick else SCRAPES)
        rows += without_pause(node, path, *((1, 1.0) if quick else (ROUNDS, ROUND_S)))
        crowd.end()
    device = f"stand-in driver, {DEVICES} devices with {JOBS_EACH} jobs each"
    emit("metrics", device, rows, options.json, rehearsal=quick)


if __name__ == "__main__":
    main()
