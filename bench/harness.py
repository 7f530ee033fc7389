"""What the benches share: the C programs, compiled once a run, and a daemon over the stand-in driver."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gpud.testing.node import Node

ROOT = Path(__file__).parent.parent
NATIVE = Path(__file__).parent / "native"


HIGH_AND_LOW = 'class high { match label("tier") == "online" }\n  class low { match any }'


def policy_file(rules: str, classes: str = "class all { match any }") -> Mapping[str, str]:
    """A policy called "bench" of these rules and classes, as a file's name and text."""
    return {"bench.gpol": f'gpol 1\npolicy "bench" {{\n  doc "Of a bench."\n  {classes}\n  {rules}\n}}\n'}


PREEMPT = policy_file("arbitrate preempt { order = [high, low]  resume_after = 1ms }", HIGH_AND_LOW)
"""The gate of preempt alone: no window, and nothing that wants to know what launches cost."""


def standin_dir() -> Path:
    """The directory of the stand-in driver, a `libcuda.so.1` whose launch function does nothing.

    `make native-test` builds it. Exits with the remedy when it is not there.
    """
    directory = ROOT / "build" / "c-plain" / "hooks-native" / "tests" / "standin" / "bench"
    if (directory / "libcuda.so.1").exists():
        return directory
    sys.exit("bench: the stand-in driver is not built; run `make native-test` first")


@contextmanager
def program(source: Path) -> Iterator[Path]:
    """A C program, compiled for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as directory:
        binary = Path(directory) / source.stem
        flags = ("-O2", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'hooks-native' / 'include'}", f"-I{NATIVE}")
        libraries = ("-lpthread", "-ldl", "-lm")
        subprocess.run(["cc", *flags, str(source), "-o", str(binary), *libraries], check=True)
        yield binary


@contextmanager
def own_policies(files: Mapping[str, str] | None) -> Iterator[Path | None]:
    """A directory with policies of a bench's own: names and texts of files. None: the shipped ones."""
    if files is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as name:
        for file, text in files.items():
            (Path(name) / file).write_text(text)
        yield Path(name)


@contextmanager
def in_memory() -> Iterator[None]:
    """Directories of nodes lie in memory, as `/run` does: the daemon notes each grant in its runtime directory, and a
    disk below that would be measured."""
    before = tempfile.tempdir
    if Path("/dev/shm").is_dir():
        tempfile.tempdir = "/dev/shm"
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextmanager
def standin_node(
    policy: str = "preempt-mix(quiet = 1ms)",
    policies: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Node]:
    """A daemon with that policy on every device, and programs that load the stand-in driver."""
    with Node(libraries=standin_dir(), policy=policy, policies=policies, environment=environment) as node:
        yield node
