"""`gpud policy fmt`: files keep their mode and their meaning, or are left alone."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.cli.policy.conftest import Policy

UNTIDY = 'gpol 1\npolicy "p" { # why\nclass a {match any}\n   arbitrate   open {}\n}\n'


@pytest.fixture
def untidy(files: Path) -> Path:
    path = files / "untidy.gpol"
    path.write_text(UNTIDY)
    return path


def test_lays_out_and_is_then_quiet(policy: Policy, untidy: Path) -> None:
    untidy.chmod(0o640)
    done = policy("fmt", "untidy.gpol")
    assert (done.returncode, done.stdout) == (0, "changed untidy.gpol\n1 file changed\n")
    text = untidy.read_text()
    assert text != UNTIDY
    assert "# why" in text
    assert stat.S_IMODE(untidy.stat().st_mode) == 0o640
    assert os.listdir(untidy.parent).count("untidy.gpol") == 1
    assert not [name for name in os.listdir(untidy.parent) if name.startswith(".untidy")]
    assert policy("fmt", "untidy.gpol").stdout == "0 files changed\n"
    assert policy("fmt", "--check", "untidy.gpol").returncode == 0


def test_check_and_diff_change_nothing(policy: Policy, untidy: Path) -> None:
    done = policy("fmt", "--check", "untidy.gpol")
    assert (done.returncode, done.stdout) == (1, "would change untidy.gpol\n1 file would change\n")
    done = policy("fmt", "--diff", "untidy.gpol")
    assert done.returncode == 1
    assert "-class a {match any}\n" in done.stdout
    assert "+  class a { match any }\n" in done.stdout
    assert untidy.read_text() == UNTIDY


def test_json(policy: Policy, files: Path, untidy: Path) -> None:
    (files / "broken.gpol").write_text("gpol 1\npolicy {")
    for options, code, after in ((("--check",), 1, UNTIDY), ((), 1, None)):
        done = policy("fmt", "--json", *options, "untidy.gpol", "broken.gpol")
        assert done.returncode == code
        document = json.loads(done.stdout)
        assert document["changed"] == ["untidy.gpol"]
        assert {finding["file"] for finding in document["findings"]} == {"broken.gpol"}
        assert (untidy.read_text() == UNTIDY) is (after is not None)


def test_syntax_errors_leave_a_file_alone(policy: Policy, files: Path, untidy: Path) -> None:
    broken = 'gpol 1\npolicy "p" {\n class a { match any\n'
    (files / "broken.gpol").write_text(broken)
    done = policy("fmt", "broken.gpol", "untidy.gpol")
    assert done.returncode == 1
    assert "error[GP102]" in done.stderr
    assert done.stdout == "changed untidy.gpol\n1 file changed; 1 file left alone\n"
    assert (files / "broken.gpol").read_text() == broken


def test_other_errors_do_not(policy: Policy, files: Path) -> None:
    text = (files / "wrong.gpol").read_text()
    (files / "wrong.gpol").write_text(text.replace("  class", "class"))
    assert policy("fmt", "wrong.gpol").returncode == 0
    assert (files / "wrong.gpol").read_text() == text


def test_a_directory(policy: Policy, files: Path, untidy: Path) -> None:
    (files / "tests").mkdir()
    (files / "tests" / "t.gpol").write_text(UNTIDY)
    (files / ".hidden.gpol").write_text(UNTIDY)
    done = policy("fmt", ".")
    assert done.returncode == 0
    assert "changed ./untidy.gpol\nchanged ./tests/t.gpol\n" in done.stdout
    assert (files / ".hidden.gpol").read_text() == UNTIDY


def test_a_link_stays_a_link(policy: Policy, files: Path, untidy: Path) -> None:
    (files / "link.gpol").symlink_to("untidy.gpol")
    assert policy("fmt", "link.gpol").returncode == 0
    assert (files / "link.gpol").is_symlink()
    assert untidy.read_text() != UNTIDY


def test_standard_input(policy: Policy, untidy: Path) -> None:
    done = policy("fmt", "-", stdin=UNTIDY)
    assert done.returncode == 0
    policy("fmt", "untidy.gpol")
    assert done.stdout == untidy.read_text()
    assert policy("fmt", "--check", "-", stdin=UNTIDY).returncode == 1
    assert policy("fmt", "--check", "-", stdin=done.stdout).returncode == 0
    assert policy("fmt", "-", stdin='gpol 1 policy "p" {').returncode == 1
    assert policy("fmt", "-", "untidy.gpol").returncode == 2


def test_windows_line_ends_and_marks_go(policy: Policy, files: Path, untidy: Path) -> None:
    policy("fmt", "untidy.gpol")
    tidy = untidy.read_bytes()
    untidy.write_bytes(b"\xef\xbb\xbf" + tidy.replace(b"\n", b"\r\n"))
    assert policy("fmt", "untidy.gpol").stdout.startswith("changed ")
    assert untidy.read_bytes() == tidy


def test_no_permission(policy: Policy, untidy: Path) -> None:
    untidy.chmod(0o444)
    done = policy("fmt", "untidy.gpol", bound=True)
    assert done.returncode == 125
    assert "permission denied" in done.stderr
    (untidy.parent / "shut").mkdir(mode=0)
    done = policy("fmt", "shut", bound=True)
    assert done.returncode != 0
    assert "shut" in done.stderr
    assert untidy.read_text() == UNTIDY


def test_wrong_usage(policy: Policy) -> None:
    assert policy("fmt").returncode == 2
    assert policy("fmt", "absent.gpol").returncode == 2
