"""Where `gpud.h` is."""

import subprocess
import sys
from pathlib import Path

from gpud.api.include import include_dir


def test_the_header_is_where_the_command_says() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "gpud.api.include"], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == f"{include_dir()}\n"
    assert (Path(said.stdout.strip()) / "gpud.h").is_file()
