"""Five models on one device instead of five, in short."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "online_training.py"


def example(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(EXAMPLE), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)


def test_five_on_one_device_make_as_many_batches_as_on_five() -> None:
    """How long each took depends on the machine; that none was lost, and all are right, does not."""
    pytest.importorskip("numba_cuda")
    done = example("--batches", "2", "--minute", "0.1")
    assert done.returncode == 0, done.stderr
    head, titles, apart, together, saved = done.stdout.splitlines()
    assert head.startswith("simulated, ")
    assert titles.split()[:3] == ["run", "devices", "batches"]
    assert apart.removeprefix("one device each, without gpud").split()[:2] == ["5", "10"]
    assert together.removeprefix("one device, by turns").split()[:2] == ["1", "10"]
    assert [line.split()[-1] for line in (apart, together)] == ["yes", "yes"]
    assert saved == "4 of 5 devices are saved (80 %)."


def test_they_need_not_fit_into_the_device_together() -> None:
    """Each holds 60 % of its memory, and finds it as it was."""
    pytest.importorskip("numba_cuda")
    done = example("--jobs", "3", "--batches", "1", "--minute", "0.2", "--memory", "60")
    assert done.returncode == 0, done.stderr
    together, saved = done.stdout.splitlines()[-2:]
    words = together.removeprefix("one device, by turns").split()
    assert (words[:2], words[-1]) == (["1", "3"], "yes")
    assert int(words[words.index("MiB") - 1]) > 0
    assert saved == "2 of 3 devices are saved (67 %)."


@pytest.mark.parametrize("words", [("--jobs", "8"), ("--memory", "90"), ("--minute", "0")])
def test_what_cannot_be_is_refused(words: tuple[str, ...]) -> None:
    done = example(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
