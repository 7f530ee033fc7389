"""What who watches costs the daemon: 200 jobs on 8 devices, a step each half second.

Stand-in driver, so that the jobs cost little. CPU time of the daemon with watchers above that without, in turns; the
median of several. `training`: all jobs launch without end, so that every row is another one at every step; `idle`:
none does anything. Each watcher is a connection whose steps somebody takes and does not look at.

And without a daemon, on a node made of events where every row is another one at every step: CPU time of making the
rows, of the step with its bytes, and of keeping them in the journal; and what an hour of them takes there.
"""

import socket
import statistics
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.feed_state import Crowd as FeedState
from bench.harness import NATIVE, own_policies, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from bench.scale import DEVICES, Crowd, percent, policies
from gpud.control import wire
from gpud.control.feed_frames import Encoded
from gpud.engine.journal import MOST_BYTES, STEP_NS, Journal
from gpud.engine.live import Facts, Live, Rows, step
from gpud.model.policy_views import SetView
from gpud.model.units import MILLISECOND
from gpud.testing.node import Node

JOBS_EACH, INTERVAL_MS, MORE = 25, 500, 4
ROUNDS, ROUND_S = 5, 4.0
STEPS, HOUR = 200, 3600
LOADS = ("training", "idle")


class Taker:
    """Takes what comes. `steps`, `bytes`: so far."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        ask = wire.AskFeed(interval_ms=INTERVAL_MS)
        self._socket.sendall(wire.encode(wire.Request(version=wire.VERSION, id=1, ask=ask)))
        self.steps = self.bytes = 0
        self._thread = threading.Thread(target=self._take)
        self._thread.start()

    def _take(self) -> None:
        while head := self._socket.recv(wire.LENGTH.size, socket.MSG_WAITALL):
            (size,) = struct.unpack("<I", head)
            if len(self._socket.recv(size, socket.MSG_WAITALL)) < size:
                return
            self.steps += 1
            self.bytes += size

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()


@contextmanager
def takers(node: Node, count: int) -> Iterator[list[Taker]]:
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(Taker(node.runtime_dir / "control.sock"))
            stack.callback(found[-1].close)
        yield found


def costs(node: Node, count: int, seconds: float) -> tuple[float, float]:
    """(CPU time of the daemon in percent of a core, bytes of a step) with so many watchers."""
    assert node.daemon is not None
    with takers(node, count) as found:
        time.sleep(2 * INTERVAL_MS / 1e3)  # the first step is full, and drops out of what is measured
        before = [(one.steps, one.bytes) for one in found]
        (spent,) = percent([node.daemon.pid], seconds)
        steps = sum(one.steps - was for one, (was, _) in zip(found, before, strict=True))
        count_bytes = sum(one.bytes - was for one, (_, was) in zip(found, before, strict=True))
    return spent, count_bytes / max(steps, 1)


def rows_of(node: Node, load: str, rounds: int, seconds: float) -> Iterator[Row]:
    none, one, more, sizes = [], [], [], []
    for _ in range(rounds):
        without, _ = costs(node, 0, seconds)
        single, size = costs(node, 1, seconds)
        several, _ = costs(node, MORE, seconds)
        none.append(without)
        one.append(single - without)
        more.append((several - single) / (MORE - 1))
        sizes.append(size)
    jobs = JOBS_EACH * DEVICES
    prefix = f"feed_{jobs}jobs" if load == "training" else f"feed_{jobs}jobs_{load}"
    yield row_of_runs(f"{prefix}_watcher_cpu_percent", one, "% of a core", 1.0)
    yield row_of_runs(f"{prefix}_further_watcher_cpu_percent", more, "% of a core")
    yield row_of_runs(f"{prefix}_unwatched_cpu_percent", none, "% of a core")
    yield Row(name=f"{prefix}_step_kib", value=statistics.median(sizes) / 1024, unit="KiB")


class Looked:
    """What is looked at of a node made of events."""

    def __init__(self, jobs: int) -> None:
        self.crowd, self._live = FeedState(jobs, DEVICES), Live(Facts())
        self._running = SetView(
            number=1, digest="d", directory="/p", applied=None, since_ns=1, how="start", probation_ns=0
        )
        self.number = 0

    def after(self, ns: int) -> tuple[Rows, int]:
        """The rows when so much time has passed, and the CPU time in ns of making them."""
        crowd, live = self.crowd, self._live
        self.number += 1
        sums, levels = crowd.step(ns)
        histograms = dict.fromkeys(live.wanted(sums, crowd.now), (self.number,) * 32)
        began = time.thread_time_ns()
        rows = live.look(
            crowd.state,
            sums,
            levels,
            crowd.now,
            offset=0,
            driver="ok",
            policy_set=self._running,
            histograms=histograms,
        )
        return rows, time.thread_time_ns() - began


def steps_ms(jobs: int, steps: int) -> tuple[float, float, float]:
    """CPU time in ms, the median: of the rows, of a step and its bytes, of a second in the journal."""
    looked, encoded = Looked(jobs), Encoded()
    journal, before = Journal(looked.crowd.now), None
    found: list[tuple[int, int, int]] = []
    for _ in range(steps):
        rows, took = looked.after(INTERVAL_MS * MILLISECOND)
        began = time.thread_time_ns()
        encoded.answers(step(before, rows, looked.number))
        sent = time.thread_time_ns()
        journal.keep(rows)
        found.append((took, sent - began, time.thread_time_ns() - sent))
        before = rows
    look, send, keep = (statistics.median(times) / 1e6 for times in zip(*found[1:], strict=True))
    return look, send, keep


def hour_mib(jobs: int, steps: int) -> float:
    """Of so many seconds in a journal that has no bounds but its hour."""
    looked = Looked(jobs)
    journal = Journal(looked.crowd.now, most_bytes=1 << 40)
    for _ in range(steps):
        journal.keep(looked.after(STEP_NS)[0])
    return journal.bytes / (1 << 20)


def rows_without_daemon(steps: int, hour: int) -> Iterator[Row]:
    jobs = JOBS_EACH * DEVICES
    look, send, keep = steps_ms(jobs, steps)
    yield Row(name=f"feed_{jobs}jobs_rows_ms", value=look, unit="ms of CPU")
    yield Row(name=f"feed_{jobs}jobs_step_ms", value=send, unit="ms of CPU")
    yield Row(name=f"feed_{jobs}jobs_journal_ms", value=keep, unit="ms of CPU")
    per_second = (look + send) * 1e3 / INTERVAL_MS / 1e3 * 100
    yield Row(name=f"feed_{jobs}jobs_made_cpu_percent", value=per_second, unit="% of a core", target=1.0)
    kept = hour_mib(jobs, hour)
    yield Row(name=f"feed_{jobs}jobs_journal_hour_mib", value=kept, unit="MiB", target=MOST_BYTES >> 20)


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    rounds, seconds = (1, 1.0) if options.quick else (ROUNDS, ROUND_S)
    rows = list(rows_without_daemon(*((20, 60) if options.quick else (STEPS, HOUR))))
    with (
        program(NATIVE / "crowd.c") as binary,
        own_policies(policies()["preempt"]) as directory,
        standin_node("bench", directory) as node,
    ):
        crowd = Crowd(node, binary, JOBS_EACH, wide=False)
        for load in LOADS:
            command = "train" if load == "training" else "idle"
            crowd.do(command, command)
            time.sleep(1.0)  # what a change of load does is not what it costs
            rows += rows_of(node, load, rounds, seconds)
        crowd.end()
    device = f"stand-in driver, {DEVICES} devices with {JOBS_EACH} jobs each"
    emit("feed", device, rows, options.json, rehearsal=options.quick)


if __name__ == "__main__":
    main()
