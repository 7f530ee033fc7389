"""What the benches share: the C programs, compiled once a run, and a daemon over the stand-in driver."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpud.testing.node import Node

ROOT = Path(__file__).parent.parent
NATIVE = Path(__file__).parent / "native"


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
        command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(binary), "-lpthread", "-ldl"]
        subprocess.run(command, check=True)
        yield binary


@contextmanager
def standin_node(policy: str = "preempt-mix(quiet = 1ms)") -> Iterator[Node]:
    """A daemon with that policy on every device, and programs that load the stand-in driver."""
    with Node(libraries=standin_dir(), policy=policy) as node:
        yield node
