"""Small real programs for the end-to-end tests, compiled once."""

import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def counter(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a program that checks every word it computes (programs/counter.c); append KERNELS, ROUNDS."""
    binary = tmp_path_factory.mktemp("programs") / "counter"
    source = PROGRAMS / "counter.c"
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(binary), "-ldl"], check=True)
    return [str(binary), str(PROGRAMS / "counter.ptx"), "add_amount"]
