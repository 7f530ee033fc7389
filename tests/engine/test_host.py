from pathlib import Path

import pytest

from gpud.engine import host


def test_of_this_machine() -> None:
    found = host.memory_free()
    assert found is not None
    assert found > 1 << 20


@pytest.mark.parametrize("content", ["", "MemTotal: 5 kB\n", "MemAvailable:\n", "MemAvailable: lots\n"])
def test_a_kernel_that_does_not_say(tmp_path: Path, content: str) -> None:
    (tmp_path / "meminfo").write_text(content)
    assert host.memory_free(str(tmp_path / "meminfo")) is None
    assert host.memory_free(str(tmp_path / "absent")) is None


def test_units(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  9 kB\nMemAvailable:     7 kB\n")
    assert host.memory_free(str(tmp_path / "meminfo")) == 7 * 1024
