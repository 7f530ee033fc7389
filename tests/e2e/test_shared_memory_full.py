"""A full /dev/shm takes nothing from anybody: what programs, daemon and hooks share lies in memory files."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
MOUNT, FILL = "mount -t tmpfs -o size=64k none /dev/shm", "! cat /dev/zero >/dev/shm/filler 2>/dev/null"
FULL = f"{MOUNT} && {FILL} && df --output=avail /dev/shm"
"""In a mount namespace of its own: nobody else sees it. Ends with how much is left there: 0."""


def private(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_memory_leaves_and_comes_back_while_shared_memory_is_full() -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("only root may mount, and by unshare of util-linux")
    tried = private(FULL)
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")
    assert tried.stdout.split()[-1] == "0"
    test = "tests/e2e/test_swap.py::test_only_what_lacks_moves"
    ended = private(f'{FULL} && exec "$@"', sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    assert "1 passed" in ended.stdout
