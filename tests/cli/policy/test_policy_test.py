"""`gpud policy test`: lines, exit codes, choosing."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.policy.conftest import GOOD, Policy

TESTS = """\
gpol 1

test "low waits for high" {
  policy "good"
  at 10ms  high.active = true
  at 11ms  expect low.held
}

test "low never waits" {
  policy "good"
  at 10ms  high.active = true
  from 0s to 1s expect not low.held
}
"""


@pytest.fixture
def tests(files: Path) -> Path:
    directory = files / "set"
    (directory / "tests").mkdir(parents=True)
    (directory / "good.gpol").write_text(GOOD)
    (directory / "tests" / "t.gpol").write_text(TESTS)
    return directory


def test_one_passes_one_fails(policy: Policy, tests: Path) -> None:
    done = policy("test", "set")
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"PASS low waits for high  \(1 checks, 0s simulated in \d+\.\d\ds\)", lines[0])
    assert lines[1].startswith("FAIL low never waits  (0 of 1 checks, ")
    assert "error[GP702]: `not low.held` is false at 10ms" in done.stdout
    assert " --> set/tests/t.gpol:12:24" in done.stdout
    assert lines[-1] == "1 passed, 1 failed"


def test_choosing(policy: Policy, tests: Path) -> None:
    done = policy("test", "set", "-k", "WAITS FOR")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed")
    assert policy("test", "set", "-k", "good").stdout.endswith("1 passed, 1 failed\n"), "by the policy's name"
    done = policy("test", "set", "-k", "tide")
    assert done.returncode == 2
    assert "no test has 'tide' in its name\n  these files have 2 tests\n" in done.stderr


def test_a_file_of_tests_alone(policy: Policy, tests: Path) -> None:
    assert policy("test", "set/tests/t.gpol").stdout.endswith("1 passed, 1 failed\n")


def test_json(policy: Policy, tests: Path) -> None:
    done = policy("test", "--json", "set")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["passed"], document["failed"]) == (1, 1)
    first, second = document["tests"]
    assert (first["name"], first["outcome"], first["file"], first["line"]) == (
        "low waits for high",
        "passed",
        "set/tests/t.gpol",
        3,
    )
    assert second["findings"][0]["code"] == "GP702"


def test_none(policy: Policy) -> None:
    done = policy("test", "good.gpol")
    assert (done.returncode, done.stdout) == (1, "no tests in these files\n")


def test_a_file_that_cannot_be_read_is_no_reason_to_pass(policy: Policy, tests: Path) -> None:
    (tests / "broken.gpol").write_text("gpol 1\npolicy {")
    done = policy("test", "set", "-k", "waits for")
    assert done.returncode == 1
    assert "error[GP101]" in done.stdout or "error[GP102]" in done.stdout
    assert done.stdout.endswith("1 passed, 0 failed\n")


def test_a_policy_with_errors_is_not_run(policy: Policy, tests: Path) -> None:
    (tests / "good.gpol").write_text(GOOD.replace("3ms", "3"))
    done = policy("test", "set")
    assert done.returncode == 1
    assert "(cannot be run)" in done.stdout
    assert "2 failed" in done.stdout


def test_absent(policy: Policy) -> None:
    assert policy("test", "absent").returncode == 2
