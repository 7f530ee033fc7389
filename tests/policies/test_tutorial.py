"""The tutorial, executed: every file in it is written, every command is run, every output compared.

```gpol mine/a.gpol  is a file. ```console  holds commands after `$ ` and below each what it prints, both streams.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
TUTORIAL = ROOT / "docs" / "tutorial-policy.md"
_FENCE = re.compile(r"^```(\w*) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_VARIES = re.compile(r"(?<=simulated in )\d+\.\d+s|\b\d\d:\d\d:\d\d\b")
"""Time that passed, and time of day."""


class Step(NamedTuple):
    """A file to write, or a command with what it prints."""

    line: int
    file: str
    command: str
    text: str


def steps() -> list[Step]:
    """In the order of the text."""
    text = TUTORIAL.read_text()
    found = []
    for fence in _FENCE.finditer(text):
        language, rest, body = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        if language == "gpol":
            assert rest, f"line {line}: which file?"
            found.append(Step(line, rest, "", body))
        elif language == "console":
            assert body.startswith("$ "), f"line {line}"
            for part in body.removeprefix("$ ").split("\n$ "):
                command, _, printed = part.partition("\n")
                found.append(Step(line, "", command, printed.rstrip("\n")))
        else:
            raise AssertionError(f"line {line}: nothing executes a block of {language!r}")
    return found


def alike(printed: str, home: Path) -> list[str]:
    """Lines as they are compared."""
    return [_VARIES.sub("…", line).rstrip() for line in printed.replace(str(home), "/home/ann").splitlines()]


def test_tutorial(tmp_path: Path) -> None:
    binaries, home = tmp_path / "bin", tmp_path / "home"
    binaries.mkdir()
    home.mkdir()
    (binaries / "gpud").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpud.cli.main "$@"\n')
    (binaries / "gpud").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GPUD_", "XDG_"))}
    with tempfile.TemporaryDirectory(prefix="gpud-") as runtime:  # a short path, as sockets need
        environment = kept | {
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "COLUMNS": "100",
            "GPUD_RUNTIME_DIR": runtime,
        }

        def run(command: str) -> str:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=home,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=60,
            )
            return done.stdout

        try:
            commands = 0
            for step in steps():
                if step.file:
                    path = home / step.file
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(step.text)
                    continue
                commands += 1
                printed = run(step.command)
                assert alike(printed, home) == alike(step.text, home), f"line {step.line}: {step.command}"
            assert commands >= 20
            assert run("gpud policy fmt --check mine") == "0 files would change\n", "the tutorial's own files are tidy"
        finally:
            run("gpud stop")
