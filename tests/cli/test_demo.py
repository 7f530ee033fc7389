"""The whole demo on the simulated GPU: short, two at once, interrupted, and with a program killed under it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demos make their own directories."""
    directory = tmp_path / "t"
    directory.mkdir()
    return directory


@pytest.fixture
def demo(temporary: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts `gpud demo --device sim` with short runs."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_") or k == "GPUD_NATIVE_DIR"}
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    with contextlib.ExitStack() as stack:

        def start(*arguments: str) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "gpud.cli.main", "demo", "--device", "sim", "--seconds", "1", *arguments]
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=temporary.parent,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


def left_behind(temporary: Path) -> list[str]:
    """Directories of demos, and processes that belong to one of this test."""
    found = [str(path) for path in temporary.glob("gpud-demo-*")]
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"TMPDIR={temporary}\0".encode() in path.read_bytes():
                found.append(path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def expect_nothing_left(temporary: Path) -> None:
    end = time.monotonic() + 60
    while found := left_behind(temporary):
        assert time.monotonic() < end, found
        time.sleep(0.02)


def wait_for_line(process: "subprocess.Popen[str]", words: str) -> None:
    """Reads stderr until a line with `words` comes; then goes on reading in the background."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return
    pytest.fail(f"the demo ended without saying {words!r}")


def test_two_demos_at_once(demo: Callable[..., "subprocess.Popen[str]"], temporary: Path) -> None:
    pictures = [temporary.parent / f"{number}.svg" for number in (1, 2)]
    both = [demo("--json", "--out", str(picture)) for picture in pictures]
    for process, picture in zip(both, pictures, strict=True):
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        told = json.loads(out.splitlines()[-1])
        assert (told["device"], told["simulated"], told["profile"]) == ("simulated", True, "a100-40gb-demo")
        assert set(told["runs"]) == {"alone", "shared", "preempt-mix"}
        assert told["picture"] == str(picture)
        for name, run in told["runs"].items():
            assert run["correct"], name
            assert run["serving_requests"] == told["runs"]["alone"]["serving_requests"] > 0
            assert run["serving_p99_ms"] >= run["serving_p50_ms"] >= 20
            assert (run["training_steps_per_s"] is None) == (name == "alone")
        assert told["runs"]["preempt-mix"]["training_steps_per_s"] > 0
        assert told["runs"]["preempt-mix"]["serving_p50_ms"] < told["runs"]["shared"]["serving_p50_ms"]
        assert "simulated, profile a100-40gb-demo, time scale 2.5" in errors
        assert ET.parse(picture).getroot().tag.endswith("svg")
    expect_nothing_left(temporary)


def test_an_interrupted_demo_leaves_nothing(demo: Callable[..., "subprocess.Popen[str]"], temporary: Path) -> None:
    process = demo()
    wait_for_line(process, "training on another device")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert not list(temporary.parent.glob("*.svg"))
    expect_nothing_left(temporary)


def test_a_program_killed_under_the_demo_ends_it_in_words(
    demo: Callable[..., "subprocess.Popen[str]"], temporary: Path
) -> None:
    process = demo()
    wait_for_line(process, "training on another device")
    pid = _pid_of(temporary, r"training\.py")
    os.kill(pid, signal.SIGKILL)
    assert process.wait(60) == 125
    expect_nothing_left(temporary)


def _pid_of(temporary: Path, pattern: str) -> int:
    """The program of this test's demo whose command line matches; waits for it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                ours = f"TMPDIR={temporary}\0".encode() in (path / "environ").read_bytes()
                words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if ours and re.search(pattern, words) and "leash" not in words:
                    return int(path.name)
        time.sleep(0.01)
    pytest.fail(f"no process {pattern!r}")
