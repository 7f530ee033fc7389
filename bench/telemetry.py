"""What traces cost the daemon: its own time for a turn that is told, and for one that is not, against the same turns
that nobody hears of; and what a bad endpoint does to a loop that must not wait."""

import gc
import importlib.util
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trio
from attrs import define, field

from bench.report import Row, arguments, emit, row_of_runs
from gpud.engine.reducer import react
from gpud.engine.service import SELDOM
from gpud.engine.state import State
from gpud.model import effects as do
from gpud.model import events as ev
from gpud.model.effects import Effect
from gpud.model.ids import ClientId, Generation, SessionId, Slot
from gpud.model.units import MILLISECOND, SECOND
from gpud.telemetry.exporter import Exporter
from gpud.telemetry.fill import MOST_SPANS
from gpud.telemetry.observer import Observer
from gpud.telemetry.span import Put, SpanRecord
from gpud.testing.boards import board_from_texts

UUID = bytes(range(16))
POLICY = """gpol 1
policy "turns" {
  class job { match any }
  arbitrate exclusive { max_hold = 10s  min_hold = 0s  grace = 2s  idle_release = 500ms }
}
"""
TURNS, TOLD, RUNS = 20_000, 2_000, 5
DAY_TURNS = 86_400
"""One a second."""
LAG_S = 5.0
SPANS_PER_S = 1_000
ENDS = 5
ENDING = """
import sys
import trio
from bench.telemetry import play
from gpud.model.units import MILLISECOND
from gpud.telemetry.exporter import Exporter
async def main():
    exporter = Exporter(sys.argv[1], {"service.name": "bench"}, "0")
    play(25, 1, exporter.put, 100 * MILLISECOND)
    print("ready", flush=True)
    await trio.to_thread.run_sync(sys.stdin.read)
    await exporter.aclose()
trio.run(main)
"""
"""A process that sends spans, and ends when its input does."""


@define
class Script:
    """Jobs that take turns, as events, and what the reducer makes of them."""

    now: int = 100 * SECOND
    state: State = field(
        factory=lambda: State(
            board=board_from_texts({"turns.gpol": POLICY, "site.gpol": 'gpol 1\napply "turns" to gpu *\n'}),
            lease_ns=3 * SECOND,
            last_generation=1000,
        )
    )
    saw: Callable[[ev.Event, list[Effect], int], None] = lambda event, effects, now: None
    spent_ns: int = 0
    """CPU time of `saw`, and of reading the clock twice."""
    numbers: int = 0

    def do(self, event: ev.Event) -> list[Effect]:
        effects = react(self.state, event, self.now)
        began = time.thread_time_ns()
        self.saw(event, effects, self.now)
        self.spent_ns += time.thread_time_ns() - began
        return effects

    def join(self, number: int) -> ClientId:
        who = ev.Who(pid=number, started=1, uid=1000, user="ann", command="python x.py", exe="/usr/bin/python3")
        effects = self.do(
            ev.AttachAsked(
                session=SessionId(number), who=who, client=ClientId(0), generation=Generation(0), again=False
            )
        )
        client = next(effect.client for effect in effects if isinstance(effect, do.SendWelcome))
        self.do(ev.Mapped(client=client))
        self.do(ev.DevicesReported(client=client, devices=((UUID, 1 << 34),)))
        return client

    def ask(self, client: ClientId) -> None:
        self.numbers += 1
        slots = frozenset({Slot(0)})
        self.do(ev.LockAsked(client=client, request=self.numbers, slots=slots, explicit=False, wait_ns=None))

    def is_in(self, client: ClientId) -> None:
        turn = self.state.locks.lines[Slot(0)].turn
        assert turn is not None
        slots = frozenset({Slot(0)})
        self.do(ev.LockIsIn(client=client, slots=slots, epoch=turn.epoch, bytes=0, short=False, took_ns=0))

    def back(self, client: ClientId) -> None:
        turn = self.state.locks.lines[Slot(0)].turn
        assert turn is not None
        slots = frozenset({Slot(0)})
        self.do(ev.LockBack(client=client, slots=slots, epoch=turn.epoch, overrun=False, never=False))


@contextmanager
def receiving(answers: bool = True) -> Iterator[str]:
    """URL of one that takes everything; without `answers` it says nothing, ever."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if not answers:
                over.wait()
                return
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        over.set()
        server.shutdown()


def play(turns: int, sample: int | None, put: Put, hold_ns: int) -> int:
    """CPU ns of the observer on this thread, for so many turns. `sample`: None: nobody hears of them, which leaves what
    measuring costs."""
    script = Script()
    one, two = script.join(101), script.join(102)
    if sample is not None:
        script.saw = Observer(
            script.state, put, seed="bench", sample=sample, now=script.now, offset=lambda: 0, bits=_RANDOM.getrandbits
        ).saw
    script.ask(one)
    script.is_in(one)
    script.spent_ns = 0
    for _ in range(turns):
        script.ask(two)
        script.now += hold_ns
        script.back(one)
        script.is_in(two)
        one, two = two, one
    return script.spent_ns


_RANDOM = random.Random(1)


def costs() -> list[Row]:
    """Of the loop's thread: reading the clock is taken off. `…_all_threads_…`: with what OpenTelemetry's own thread
    does."""
    bare, untold, told, sent, all_of_it = [], [], [], [], []
    gc.freeze()
    gc.set_threshold(*SELDOM)  # as in the daemon
    for _ in range(RUNS):
        bare.append(play(TURNS, None, lambda span: None, 100 * MILLISECOND) / TURNS / 1e3)
        untold.append(play(TURNS, 10**6, lambda span: None, 100 * MILLISECOND) / TURNS / 1e3)
        spans: list[SpanRecord] = []
        told.append((play(TOLD, 1, spans.append, 100 * MILLISECOND) / 1e3, len(spans)))
        with receiving() as url:
            exporter = Exporter(url, {"service.name": "bench"}, "0")
            count = len(spans)
            began = time.process_time_ns()
            for span in spans[:1500]:
                exporter.put(span)
            loop = time.thread_time_ns()
            for span in spans[1500:3000]:
                exporter.put(span)
            loop = time.thread_time_ns() - loop
            trio.run(exporter.aclose)
            all_of_it.append((time.process_time_ns() - began) / 3000 / 1e3)
            sent.append(loop / 1500 / 1e3)
            assert count > 3000
    empty = statistics.median(bare)
    made = [(spent - empty * TOLD) / count for spent, count in told]
    return [
        row_of_runs("turn_not_told_us", [one - empty for one in untold], "µs", target=12),
        row_of_runs("span_told_us", [one + other for one, other in zip(made, sent, strict=True)], "µs", target=50),
        row_of_runs("span_made_us", made, "µs"),
        row_of_runs("span_sent_us", sent, "µs"),
        row_of_runs("span_all_threads_us", all_of_it, "µs"),
        Row(name="measuring_us", value=empty, unit="µs"),
    ]


def day() -> list[Row]:
    """24 h of turns of a second, all of them told."""
    counts: Counter[str] = Counter()
    began = time.monotonic()
    play(DAY_TURNS, 1, lambda span: counts.update((span.trace_id,)), SECOND)
    took = time.monotonic() - began
    return [
        Row(name="day_spans_of_a_trace", value=max(counts.values()), unit="", target=MOST_SPANS),
        Row(name="day_spans", value=sum(counts.values()), unit=""),
        Row(name="day_traces", value=len(counts), unit=""),
        Row(name="day_took_s", value=took, unit="s"),
    ]


async def lag(put: Put | None) -> float:
    """ms by which a loop that sleeps for 1 ms comes late, at worst of 99.9 %, while spans are made as fast as a busy
    node makes them. None: no spans, the contrast."""
    late: list[float] = []
    spans: list[SpanRecord] = []
    play(SPANS_PER_S // 40, 1, spans.append, 100 * MILLISECOND)
    end, at = trio.current_time() + LAG_S, 0
    per_step = SPANS_PER_S // 1000
    while trio.current_time() < end:
        due = time.monotonic() + 0.001
        await trio.sleep(0.001)
        late.append((time.monotonic() - due) * 1e3)
        for _ in range(per_step if put is not None else 0):
            assert put is not None
            put(spans[at % len(spans)])
            at += 1
    late.sort()
    return late[int(len(late) * 0.999)]


def endpoints() -> list[Row]:
    """A loop beside an endpoint that is dead, one that never answers, one that takes everything, and none at all."""
    os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = "2"
    rows = []
    with receiving() as dead:
        pass
    for name, answers in (("dead", None), ("hanging", False), ("good", True)):
        with receiving(bool(answers)) as url:
            exporter = Exporter(dead if answers is None else url, {"service.name": "bench"}, "0")
            trio.run(lag, exporter.put)  # its queue is full
            gc.collect()
            tracemalloc.start()
            trio.run(lag, exporter.put)
            gc.collect()
            grown, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            empty, worst = trio.run(lag, None), trio.run(lag, exporter.put)
            began = time.monotonic()
            trio.run(exporter.aclose)
            ended = time.monotonic() - began
        rows += [
            Row(name=f"lag_{name}_ms", value=worst, unit="ms", target=10),
            Row(name=f"lag_{name}_no_spans_ms", value=empty, unit="ms"),
            Row(name=f"grown_{name}_mib", value=grown / (1 << 20), unit="MiB", target=6),
            Row(name=f"end_{name}_s", value=ended, unit="s", target=2),
        ]
    return rows


@contextmanager
def hanging_grpc() -> Iterator[str]:
    """URL of one that takes every call, and answers none."""
    import grpc  # type: ignore[import-untyped]

    over = threading.Event()

    class Answerless(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, _: object) -> object:
            return grpc.unary_unary_rpc_method_handler(lambda *_: over.wait() and b"")

    server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Answerless()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        over.set()
        server.stop(None).wait()


def ends() -> Iterator[Row]:
    """From the word to end to the end of a whole process, beside an endpoint that has not answered."""
    hanging = {"http": ("http/protobuf", receiving(False))}
    if importlib.util.find_spec("grpc") is not None:
        hanging["grpc"] = ("grpc", hanging_grpc())
    for name, (protocol, endpoint) in hanging.items():
        with endpoint as url:
            environment = {**os.environ, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_BSP_SCHEDULE_DELAY": "20"}
            yield row_of_runs(f"end_process_{name}_s", [end_s(url, environment) for _ in range(ENDS)], "s", 2.0)


def end_s(url: str, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", ENDING, url]
    root = Path(__file__).parents[1]
    with subprocess.Popen(
        command, env=environment, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.5)  # it has sent what it has, and waits
        began = time.monotonic()
        process.stdin.close()
        assert process.wait() == 0
        return time.monotonic() - began


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        del os.environ[name]
    emit("telemetry", "no device: scripted events", [*costs(), *day(), *endpoints(), *ends()], options.json)


if __name__ == "__main__":
    main()
