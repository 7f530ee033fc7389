"""What `gpud top`, as installed, costs whoever watches: 200 jobs on 8 devices, two steps a second, on a terminal of
200 × 60."""

import fcntl
import itertools
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define

from bench.attach import rss_mib
from bench.report import Row, arguments, emit, row_of_runs
from gpud.model.live_views import Feed
from gpud.testing.scripted_daemon import ScriptedDaemon
from gpud.testing.scripted_feed import Script

JOBS, DEVICES, STEP_S = 200, 8, 0.5
COLUMNS, LINES = 200, 60
PAINTS = 7
WARM_S, WATCH_S, WATCHES = 4.0, 10.0, 3
PATIENCE_S = 30.0
TOP = [str(Path(sys.executable).with_name("gpud")), "top"]
STATIC = [sys.executable, "-c", f"""
from textual.app import App
from textual.widgets import DataTable
class Static(App):
    def compose(self):
        yield DataTable()
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns(*(f"COLUMN{{at}}" for at in range(12)))
        for row in range({JOBS}):
            table.add_row(*(f"serve {{row}} {{at}}" for at in range(12)))
Static().run()
"""]  # fmt: skip
"""The contrast: Textual alone, with as large a table in which nothing ever changes."""


@define
class Shown:
    """A program on a terminal of its own."""

    process: subprocess.Popen[bytes]
    terminal: int
    began_s: float

    def until(self, text: bytes) -> float:
        """ms since it was started, when that has been drawn."""
        seen = b""
        while text not in seen:
            if time.monotonic() - self.began_s > PATIENCE_S:
                sys.exit(f"bench: nothing was drawn within {PATIENCE_S:g} s; the last of it: {seen[-300:]!r}")
            seen += self.read(1.0)
        return (time.monotonic() - self.began_s) * 1e3

    def read(self, patience_s: float) -> bytes:
        ready, _, _ = select.select([self.terminal], [], [], patience_s)
        try:
            return os.read(self.terminal, 1 << 16) if ready else b""
        except OSError:  # its other end was closed
            sys.exit(f"bench: the program ended with {self.process.wait()}")

    def watch(self, seconds: float) -> int:
        """Takes what is drawn, as a terminal does. Returns how many bytes that were."""
        end_s, count = time.monotonic() + seconds, 0
        while (left_s := end_s - time.monotonic()) > 0:
            count += len(self.read(left_s))
        return count

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def shown(command: Sequence[str], runtime_dir: Path) -> Iterator[Shown]:
    """Ended with the context, as by a terminal that is closed."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    environment = {
        **os.environ,
        "GPUD_RUNTIME_DIR": str(runtime_dir),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }
    environment.pop("NO_COLOR", None)
    began_s = time.monotonic()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Shown(process, ours, began_s)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def steps() -> Iterator[Feed]:
    """Made beforehand: while somebody is watched there is little else to do."""
    return iter(STEPS)


STEPS: list[Feed] = list(Script(JOBS, DEVICES).steps(int((WARM_S + WATCHES * WATCH_S) / STEP_S) + 40))


def paints_ms(command: Sequence[str], text: bytes, runtime_dir: Path) -> list[float]:
    found = []
    for _ in range(PAINTS):
        with shown(command, runtime_dir) as screen:
            found.append(screen.until(text))
    return found


def watched(command: Sequence[str], text: bytes, runtime_dir: Path) -> tuple[list[float], float, float]:
    """Percent of a core in each of some spans, then resident MiB, and bytes drawn a second."""
    with shown(command, runtime_dir) as screen:
        screen.until(text)
        screen.watch(WARM_S)
        found, drawn = [], 0
        for _ in range(WATCHES):
            before_s, began_s = screen.cpu_s(), time.monotonic()
            drawn += screen.watch(WATCH_S)
            found.append((screen.cpu_s() - before_s) / (time.monotonic() - began_s) * 100)
        return found, rss_mib(screen.process.pid), drawn / WATCHES / WATCH_S


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as name:
        runtime_dir = Path(name)
        with ScriptedDaemon(runtime_dir, steps, pace_s=STEP_S):
            paint = paints_ms(TOP, b"notebook", runtime_dir)
            cpu, rss, drawn = watched(TOP, b"notebook", runtime_dir)
            static_paint = paints_ms(STATIC, b"serve", runtime_dir)
            static_cpu, static_rss, _ = watched(STATIC, b"serve", runtime_dir)
    changed = statistics.median(len(feed.jobs) for feed in itertools.islice(STEPS, 1, None))
    rows = [
        row_of_runs("top_200jobs_cpu_percent", cpu, "%", 10.0),
        Row(name="top_200jobs_rss_mib", value=rss, unit="MiB", target=80.0),
        row_of_runs("top_first_paint_ms", paint, "ms", 700.0),
        Row(name="top_200jobs_changed_per_step", value=changed, unit="jobs", better="higher"),
        Row(name="top_200jobs_drawn_kib_per_s", value=drawn / 1024, unit="KiB/s"),
        row_of_runs("top_static_cpu_percent", static_cpu, "%"),
        Row(name="top_static_rss_mib", value=static_rss, unit="MiB"),
        row_of_runs("top_static_first_paint_ms", static_paint, "ms"),
    ]
    emit("top", "no device: a made-up feed over a socket", rows, options.json)


if __name__ == "__main__":
    main()
