"""The command line as a user calls it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def gpud(
    environment: Mapping[str, str], *words: str | Path, cwd: Path | None = None, within: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Runs `gpud WORDS…` to its end. Raises AssertionError for a traceback, TimeoutExpired after `within` seconds."""
    result = subprocess.run(
        [sys.executable, "-m", "gpud.cli.main", *map(str, words)],
        env=dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=within,
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result


def hold_of(environment: Mapping[str, str], job: int) -> Any:
    """`hold` of `gpud why JOB --json`: the one reason; None: there is none."""
    return json.loads(gpud(environment, "why", str(job), "--json").stdout)["hold"]
