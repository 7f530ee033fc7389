"""The collector: each `test` block is an item, and what is wrong is told as `gpud policy test` tells it."""

import subprocess
import sys
from pathlib import Path

POLICY = """gpol 1
policy "p" {
  class all { match any }
  when gpu.busy > 50% { all.max_launch_rate = 10/s }
}
"""
TESTS = """gpol 1
test "busy" { policy "p" at 1s gpu.busy = 60% at 1s expect all.max_launch_rate == 10/s }
test "idle" { policy "p" at 1s expect all.max_launch_rate == 10/s }
test "none" { policy "q" at 1s expect true }
"""


def pytest_in(directory: Path, *arguments: str) -> tuple[int, str]:
    (directory / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-pgpud.testing.gpol_plugin", "-pno:cacheprovider", "-rA", *arguments]
    done = subprocess.run([*command, "."], cwd=directory, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


def test_each_block_is_an_item(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "p.gpol").write_text(POLICY)
    (tmp_path / "tests" / "all.gpol").write_text(TESTS)
    (tmp_path / "tests" / ".#all.gpol").write_text("an editor's")
    code, said = pytest_in(tmp_path)
    assert code == 1
    assert "PASSED tests/all.gpol::busy" in said
    assert "FAILED tests/all.gpol::idle" in said
    assert "error[GP702]: `all.max_launch_rate == 10/s` is false at 1s" in said
    assert "all.max_launch_rate is unlimited" in said
    assert "FAILED tests/all.gpol::none" in said
    assert "error[GP701]: no policy is called `q`" in said
    assert "2 failed, 1 passed" in said
    assert pytest_in(tmp_path, "-k", "busy")[0] == 0


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "all.gpol").write_text("gpol 1\ntest {")
    code, said = pytest_in(tmp_path)
    assert code != 0
    assert "error[GP1" in said
    assert "tests/all.gpol:2" in said
