"""What shells offer: by bash's own completion function, as bash calls it, and by the words that zsh and fish send."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.cli import completing
from gpud.control import wire
from tests.cli.conftest import Gpud
from tests.cli.control import Control, job, status


def answers(ask: wire.Ask) -> wire.Answer:
    if isinstance(ask, wire.AskStatus):
        return wire.StatusAnswer(status=status())
    return wire.PsAnswer(
        jobs=[job(3), job(5, "serve"), job(7, "twin"), job(8, "twin"), job(9, "odd\x1b[31m"), job(10, "t$(id)")]
    )


@pytest.fixture
def control(runtime: Path) -> Iterator[Control]:
    made = Control(runtime, answers)
    yield made
    made.close()


@pytest.fixture
def shell(tmp_path: Path, environment: dict[str, str]) -> dict[str, str]:
    """With `gpud` on PATH, as this Python runs it."""
    command = tmp_path / "bin" / "gpud"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpud.cli.main "$@"\n')
    command.chmod(0o755)
    return environment | {"PATH": f"{command.parent}:{environment['PATH']}"}


BASH = """
eval "$(gpud completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_gpud_completion gpud
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(shell: dict[str, str], *words: str) -> list[str]:
    """What the completion function puts into COMPREPLY for these words, the last of which is being typed."""
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    done = subprocess.run(["bash", "-c", BASH, "bash", *words], env=shell, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("gpud", "pau"), ["pause"]),
        (("gpud", "pause", ""), ["3", "5", "7", "8", "9", "10", "train", "serve"]),
        (("gpud", "pause", "t"), ["train"]),
        (("gpud", "stats", "s"), ["serve"]),
        (("gpud", "why", "3"), ["3"]),
        (("gpud", "kill", "--signal", "K"), ["KILL"]),
        (("gpud", "top", "--class", ""), ["high", "low"]),
        (("gpud", "run", "--class", "h"), ["high"]),
        (("gpud", "set", "3", "cl"), ["class=high", "class=low", "class=auto"]),
        (("gpud", "set", "3", "class", "="), ["high", "low", "auto"]),
        (("gpud", "set", "3", "class", "=", "l"), ["low"]),
        (("gpud", "set", "3", "mem", "=", "a"), ["auto"]),
        (("gpud", "policy", "rol"), ["rollback"]),
        (("gpud", "completion", ""), ["bash", "zsh", "fish"]),
    ],
)
def test_bash(control: Control, shell: dict[str, str], words: tuple[str, ...], offered: list[str]) -> None:
    assert bash(shell, *words) == offered


def test_without_a_daemon_bash_completes_the_rest(shell: dict[str, str]) -> None:
    assert bash(shell, "gpud", "pause", "") == [""]
    assert bash(shell, "gpud", "kill", "--signal", "US") == ["USR1", "USR2"]


def test_a_word_with_its_change_is_completed_whole(control: Control, gpud: Gpud) -> None:
    """As zsh and fish hand it over."""
    zsh = gpud(_GPUD_COMPLETE="zsh_complete", COMP_WORDS="gpud set 3 class=h", COMP_CWORD="3")
    assert zsh.stdout.split("\n")[:3] == ["plain", "class=high", "_"]
    fish = gpud(_GPUD_COMPLETE="fish_complete", COMP_WORDS="gpud set 3 class=l", COMP_CWORD="class=l")
    assert fish.stdout == "plain,class=low\n"


@pytest.mark.parametrize("kind", ["zsh", "fish"])
def test_the_other_shells_get_a_script_of_theirs(gpud: Gpud, kind: str) -> None:
    done = gpud("completion", kind)
    assert done.returncode == 0
    assert f"_GPUD_COMPLETE={kind}_complete" in done.stdout
    if shutil.which(kind):
        parsed = subprocess.run([kind, "-n"], input=done.stdout, capture_output=True, text=True, timeout=60)
        assert not parsed.stderr
        assert parsed.returncode == 0


def test_a_silent_daemon_costs_a_moment(control: Control, runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The deadline is on the whole answer, so a stopped daemon does not hold the shell."""
    monkeypatch.setenv("GPUD_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(completing, "PATIENCE_S", 0.05)
    asked: list[float] = []

    def never(ask: wire.Ask) -> wire.Answer:
        asked.append(time.monotonic())
        raise OSError(os.EX_TEMPFAIL, "silent")

    control.script = never
    assert completing.jobs(None, None, "") == []  # type: ignore[arg-type]
    assert asked
