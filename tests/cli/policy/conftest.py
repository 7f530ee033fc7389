"""`gpud policy` as an operator calls it, in a directory of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

GOOD = """\
gpol 1

policy "good" {
  class high { match label("tier") == "online" }
  class low  { match any }

  arbitrate preempt { order = [high, low]  resume_after = 3ms }
}
"""
WRONG = GOOD.replace("[high, low]", "[high, lo]")
LINT = GOOD.replace("  class high", "  param quiet = 3ms\n\n  class high").replace('"good"', '"lint"')

_RIGHTS = "-dac_override,-dac_read_search"
BOUND = (
    # root may read and write everything, unless that right is taken away
    (
        "setpriv",
        "--bounding-set",
        "-dac_override,-dac_read_search",
        "--inh-caps",
        "-dac_override,-dac_read_search",
        "--",
    )
    if os.geteuid() == 0
    else ()
)

Done = subprocess.CompletedProcess[str]
Policy = Callable[..., Done]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """`good.gpol` is right, `wrong.gpol` has an error, `lint.gpol` a warning."""
    directory = tmp_path / "files"
    directory.mkdir()
    for name, text in (("good", GOOD), ("wrong", WRONG), ("lint", LINT)):
        (directory / f"{name}.gpol").write_text(text)
    return directory


@pytest.fixture
def policy(files: Path) -> Policy:
    """Runs `gpud policy` there. No answer may be a traceback."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUD_", "XDG_", "NO_COLOR"))}
    environment = kept | {"PYTHONPATH": str(ROOT), "HOME": str(files), "PYTHONWARNINGS": "error"}

    def call(*arguments: str, stdin: str = "", bound: bool = False, **changes: str) -> Done:
        done = subprocess.run(
            [*(BOUND if bound else ()), sys.executable, "-m", "gpud.cli.main", "policy", *arguments],
            cwd=files,
            env=environment | changes,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert "Error" not in done.stderr.replace("Error:", ""), done.stderr
        return done

    return call
