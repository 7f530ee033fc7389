"""Small real programs for the end-to-end tests, compiled once."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.simulated import load_program

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]


def compiled(factory: pytest.TempPathFactory, name: str, *flags: str, libraries: tuple[str, ...] = ("-ldl",)) -> Path:
    """programs/NAME.c."""
    binary = factory.mktemp("programs") / name
    options = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'bench' / 'native'}", *flags]
    subprocess.run(["cc", *options, str(PROGRAMS / f"{name}.c"), "-o", str(binary), *libraries], check=True)
    return binary


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a program that checks every word it computes (programs/counter.c); append KERNELS, ROUNDS."""
    return [str(compiled(tmp_path_factory, "counter")), str(PROGRAMS / "counter.ptx"), "add_amount"]


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of programs/life.c, compiled."""
    return str(compiled(tmp_path_factory, "life", libraries=("-ldl", "-lpthread")))


@pytest.fixture(scope="session")
def odd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of programs/odd.c, compiled."""
    return str(compiled(tmp_path_factory, "odd", libraries=("-ldl", "-lpthread")))


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a program that knows all bytes of its memory (programs/large.c); append MIB, SEED, ROUNDS, …"""
    return [str(compiled(tmp_path_factory, "large")), str(PROGRAMS / "counter.ptx"), "add_amount"]


@pytest.fixture(scope="session")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The same of one whose memory is of handles, mapped side by side (programs/segments.c)."""
    return [str(compiled(tmp_path_factory, "segments")), str(PROGRAMS / "counter.ptx"), "add_amount"]


@pytest.fixture(scope="session")
def binary() -> Iterator[Path]:
    """The load generator of the benches."""
    with load_program() as load:
        yield load
