"""Orders to a program, and its answers: what is said when it fails, hangs or dies."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpud.testing.talk import Silent, Talk

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from gpud.testing.spoken import answer

def add(one, two):
    print("a library says something")
    return {{"sum": one + two}}

sys.exit(answer(add=add, nothing=lambda: None, hang=lambda seconds=600: time.sleep(seconds), die=lambda: os._exit(9),
    garbage=lambda: os.write(1, b"[]\\n")))
"""


class Bare:
    """What a Talk needs of a node, without a daemon."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.started: list[subprocess.Popen[str]] = []

    def run(self, program: list[str], **more: Any) -> "subprocess.Popen[str]":
        job = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=more["stderr"], text=True)
        self.started.append(job)
        return job


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    node = Bare(tmp_path)
    yield Talk(node, [sys.executable, "-c", PROGRAM])  # type: ignore[arg-type]
    for job in node.started:
        job.kill()
        job.wait()
        for pipe in (job.stdin, job.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def test_orders_and_answers(talk: Talk) -> None:
    assert talk.ask("add", one=1, two=2) == {"sum": 3}
    assert talk.ask("nothing") == {}
    talk.say("add", one=1, two=1)
    talk.say("add", one=2, two=2)
    assert [talk.hear(30)["sum"] for _ in range(2)] == [2, 4]
    assert talk.end() == 0
    assert "a library says something" in talk.said()


def test_an_error_is_told_and_not_the_end(talk: Talk) -> None:
    with pytest.raises(Silent, match=r"(?s)it failed:.*TypeError"):
        talk.ask("add", one=1, two=None)
    with pytest.raises(Silent, match=r"KeyError: 'unheard-of'"):
        talk.ask("unheard-of")
    assert talk.ask("add", one=1, two=2) == {"sum": 3}
    assert talk.end() == 1


def test_no_answer_in_time(talk: Talk) -> None:
    talk.ask("nothing")
    with pytest.raises(Silent, match=r"it said nothing for 0\.2 s; on stderr: nothing"):
        talk.ask("hang", within=0.2)
    with pytest.raises(Silent, match=r"it did not end within 0\.2 s"):
        talk.end(0.2)


def test_a_late_answer_is_taken_for_no_other_one(talk: Talk) -> None:
    with pytest.raises(Silent, match=r"it said nothing for 0\.1 s"):
        talk.ask("hang", within=0.1, seconds=0.5)
    assert talk.ask("add", one=1, two=2) == {"sum": 3}


def test_death(talk: Talk) -> None:
    with pytest.raises(Silent, match=r"it ended \(exit code 9\)"):
        talk.ask("die")
    with pytest.raises(Silent, match=r"it ended"):
        talk.ask("nothing")


def test_garbage(talk: Talk) -> None:
    with pytest.raises(Silent, match=r"said '\[\]', which is no object"):
        talk.ask("garbage")
