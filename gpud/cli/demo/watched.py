"""`gpud demo --top`: the demo in the background, `gpud top` beside it in the foreground."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpud.cli.failure import Failure
from gpud.config import load_config

ENDS_WITHIN_S = 30.0
"""The demo has ended all that it has started by then."""


def watch(arguments: Sequence[str], log: Path = Path("gpud-demo.log")) -> int:
    """Runs `gpud demo` with these arguments, its output in `log`, and shows its daemons until q is pressed; then it is
    ended, unless it has ended by itself. Returns what it ended with; 0 when it was ended here. Raises `Failure`."""
    print(f"the demo starts; what it says is in {log}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="gpud-demo-") as name, _demo(arguments, Path(name), log) as demo:
        _wait_for_daemon(demo, Path(name) / "gpud" / "control.sock", log)
        from gpud.tui.main import run
        from gpud.tui.options import Options

        environment = os.environ | {"GPUD_RUNTIME_DIR": str(Path(name) / "gpud")}
        run(Options(config=load_config(environment), wait=True))
        ended = demo.poll()
    said = "was ended" if ended is None else f"had ended with {ended}"
    print(f"the demo {said}; what it said is in {log}", file=sys.stderr)
    return ended or 0


def demo_command(directory: Path, arguments: Sequence[str]) -> list[str]:
    """The demo with its files in a directory; it is ended when this process is killed."""
    leash = [sys.executable, "-m", "gpud.cli.demo.leash"]
    return [*leash, sys.executable, "-m", "gpud.cli.main", "demo", "--inside", str(directory), *arguments]


@contextlib.contextmanager
def _demo(arguments: Sequence[str], directory: Path, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """In a session of its own: Ctrl-C is the screen's. It ends what it has started when it is told to end."""
    try:
        output = log.open("wb")
    except OSError as error:
        raise Failure(f"cannot write {log}: {(error.strerror or '').lower()}", "go to a directory of yours") from None
    with output:
        demo = subprocess.Popen(
            demo_command(directory, arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield demo
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGTERM)
        try:
            demo.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            demo.kill()
            demo.wait()


def _wait_for_daemon(demo: "subprocess.Popen[bytes]", control: Path, log: Path) -> None:
    """Of its first run. Raises `Failure` with what the demo said when it ends before."""
    while not control.exists():
        if demo.poll() is not None:
            said = log.read_text(errors="replace").strip()
            raise Failure(f"the demo ended (exit code {demo.returncode}) before there was anything to show:\n{said}")
        time.sleep(0.05)
