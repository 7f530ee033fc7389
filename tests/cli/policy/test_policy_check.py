"""`gpud policy check`, and what an operator can do wrong with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.policy.conftest import ROOT, Policy


def test_clean(policy: Policy) -> None:
    done = policy("check", "good.gpol")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 policy, 0 tests, 1 file: no findings\n", "")


def test_an_error(policy: Policy) -> None:
    done = policy("check", "wrong.gpol")
    assert done.returncode == 1
    assert (
        done.stdout
        == """\
error[GP201]: nothing is called `lo` here
 --> wrong.gpol:7:38
  |
7 |   arbitrate preempt { order = [high, lo]  resume_after = 3ms }
  |                                      ^^
  = help: did you mean `low`?

1 error in 1 file
"""
    )


def test_warnings_count_only_when_strict(policy: Policy) -> None:
    done = policy("check", "lint.gpol")
    assert done.returncode == 0
    assert "warning[GP905]" in done.stdout
    assert done.stdout.endswith("\n1 warning in 1 file\n")
    done = policy("check", "--strict", "lint.gpol")
    assert done.returncode == 1
    assert "error[GP905]" in done.stdout


def test_a_directory_is_one_set_and_one_bad_file_hides_nothing(policy: Policy, files: Path) -> None:
    (files / "broken.gpol").write_text('gpol 1\npolicy "broken" {\n  class a { match any\n')
    done = policy("check", ".")
    assert done.returncode == 1
    for code in ("GP102", "GP201", "GP205"):  # wrong.gpol and good.gpol share a name
        assert f"[{code}]" in done.stdout


def test_the_same_file_twice_is_one(policy: Policy) -> None:
    assert policy("check", "good.gpol", "./good.gpol").returncode == 0


def test_a_test_alone_finds_its_policy_beside_it_and_above_tests(policy: Policy, files: Path) -> None:
    (files / "tests").mkdir()
    text = 'gpol 1\ntest "t" {\n  policy "good"\n  at 1s expect not low.pause\n}\n'
    (files / "tests" / "good-tests.gpol").write_text(text)
    assert policy("check", "tests/good-tests.gpol").returncode == 0
    (files / "t.gpol").write_text(text)
    assert policy("check", "t.gpol").returncode == 0


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_formats(policy: Policy, form: str) -> None:
    done = policy("check", "--format", form, "wrong.gpol")
    assert done.returncode == 1
    if form == "github":
        assert done.stdout.startswith("::error file=wrong.gpol,line=7,")
    else:
        json.loads(done.stdout)
    done = policy("check", "--format", form, "good.gpol")
    assert done.returncode == 0


def test_json_flag(policy: Policy) -> None:
    assert json.loads(policy("check", "--json", "wrong.gpol").stdout)["errors"] == 1


def test_without_paths_the_configured_directory(policy: Policy, files: Path) -> None:
    assert policy("check").returncode == 0, "the shipped policies"
    (files / "mine").mkdir()
    (files / "mine" / "a.gpol").write_text((files / "lint.gpol").read_text())
    assert "GP905" in policy("check", GPUD_POLICIES=str(files / "mine")).stdout


def test_what_is_not_there_is_wrong_usage(policy: Policy) -> None:
    done = policy("check", "absent.gpol")
    assert done.returncode == 2
    assert done.stderr.startswith("gpud policy: 'absent.gpol' is not there\n")


def test_what_cannot_be_read(policy: Policy, files: Path) -> None:
    (files / "empty").mkdir()
    (files / "binary.gpol").write_bytes(b"\x7fELF\xff\x00")
    (files / "dangling.gpol").symlink_to("nowhere")
    os.mkfifo(files / "pipe.gpol")
    (files / "directory.gpol").mkdir()
    for name in ("empty", "binary.gpol", "dangling.gpol", "pipe.gpol", "directory.gpol"):
        done = policy("check", name)
        assert done.returncode == 1, name
        assert "error[GP106]" in done.stdout, name


def test_no_permission(policy: Policy, files: Path) -> None:
    (files / "good.gpol").chmod(0)
    done = policy("check", "good.gpol", bound=True)
    assert done.returncode == 1
    assert "error[GP106]" in done.stdout
    assert "permission denied" in done.stdout.lower()
    (files / "shut").mkdir(mode=0)
    assert "error[GP106]" in policy("check", "shut", bound=True).stdout


def test_wrong_usage(policy: Policy) -> None:
    assert policy("check", "--format", "xml").returncode == 2
    assert policy("check", "--stric").returncode == 2
    done = policy("chek")
    assert done.returncode == 2
    assert "chek" in done.stderr


def test_a_reader_that_goes_away(files: Path) -> None:
    """`gpud policy docs | head -n 1` ends without a word on standard error."""
    command = f"{sys.executable} -m gpud.cli.main policy docs"
    for reader in ("head -n 1 > /dev/null", "true"):
        done = subprocess.run(
            ["bash", "-c", f"{command} | {reader}"],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stderr == ""


def test_an_output_that_cannot_hold_every_character(policy: Policy, files: Path) -> None:
    (files / "ä.gpol").write_text((files / "wrong.gpol").read_text().replace("high", "hïgh"))
    done = policy("check", "ä.gpol", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "?.gpol" in done.stdout


def test_colour_is_only_for_terminals(policy: Policy, files: Path) -> None:
    import pty

    assert "\x1b" not in policy("check", "wrong.gpol").stdout
    for changes, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        leader, follower = pty.openpty()
        done = subprocess.run(
            [sys.executable, "-m", "gpud.cli.main", "policy", "check", "wrong.gpol"],
            cwd=files,
            env={k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            | {"PYTHONPATH": str(ROOT), "TERM": "xterm"}
            | changes,
            stdout=follower,
            timeout=60,
        )
        os.close(follower)
        printed = os.read(leader, 65536)
        os.close(leader)
        assert done.returncode == 1
        assert (b"\x1b[1;31merror" in printed) is coloured


def test_cheap_to_import() -> None:
    """What `check` loads: neither rich nor msgspec nor trio, nor the plugins of other people."""
    code = (
        "import sys; from gpud.cli.main import main; main(['policy', 'check']);"
        "print([n for n in ('rich', 'msgspec', 'trio', 'lark', 'watchfiles', 'asyncio') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_a_directory_that_a_daemon_would_reject_for_it_says_not_where_it_runs(policy: Policy, tmp_path: Path) -> None:
    """A single file of it is part of a set; `--policy` may say where the set runs, so it is a warning."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "p.gpol").write_text(
        'gpol 1\npolicy "p" {\n  class low { match any }\n  arbitrate open {}\n}\n'
    )
    done = policy("check", tmp_path / "set")
    assert done.returncode == 0
    assert "warning[GP314]" in done.stdout
    assert 'apply "p" to gpu *' in done.stdout
    assert policy("check", "--strict", tmp_path / "set").returncode == 1
    assert "GP314" not in policy("check", tmp_path / "set" / "p.gpol").stdout
    (tmp_path / "set" / "site.gpol").write_text('gpol 1\napply "p" to gpu *\n')
    assert "no findings" in policy("check", tmp_path / "set").stdout
