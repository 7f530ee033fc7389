"""Files that are not what they should be, through the real parts: the hook library, profiles, PTX."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.native import native_dir, sim_dir
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

PROFILE = (sim_dir() / "profiles" / "a100-40gb.toml").read_text()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(profile="a100-40gb") as started:
        yield started


@pytest.fixture
def natives(tmp_path: Path) -> Path:
    """A copy of the native parts, to be damaged."""
    return Path(shutil.copytree(native_dir(), tmp_path / "native"))


def test_a_hook_that_is_torn(node: Node, natives: Path, counter: list[str]) -> None:
    hook = natives / "libgpud_hook.so"
    hook.write_bytes(hook.read_bytes()[:3000])
    result = gpud(node.environment | {"GPUD_NATIVE_DIR": str(natives)}, "run", *counter, "1", "1")
    assert (result.returncode, result.stdout) == (125, "")
    assert str(hook) in result.stderr
    assert "install gpud again" in result.stderr


def test_a_hook_that_lacks_a_library(node: Node, natives: Path, counter: list[str], tmp_path: Path) -> None:
    """Only the loader finds that out: it ends the program in words, and the program never runs unmanaged."""
    hook, lost = natives / "libgpud_hook.so", tmp_path / "liblost.so"
    link = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-x", "c", "/dev/null", "-o"]
    subprocess.run([*link, str(lost)], check=True)
    subprocess.run([*link, str(hook), f"-L{tmp_path}", "-llost"], check=True)
    lost.unlink()
    environment = node.environment | {"GPUD_NATIVE_DIR": str(natives)}
    result = gpud(environment, "run", *counter, "1", "1")
    assert (result.returncode, result.stdout) == (127, "")
    assert "liblost.so" in result.stderr
    result = gpud(environment, "doctor")
    assert result.returncode == 1
    assert "liblost.so" in result.stdout
    assert "install gpud again" in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("memory_gib = 40", "memory_gib = -5", "memory_gib: must be a number from"),
        ("sm_count = 108", 'sm_count = "many"', "sm_count"),
        ("slice_ms = 2", "slize_ms = 2", "slize_ms"),
        ("slice_ms = 2", "slice_ms = = 2", "="),
    ],
    ids=["range", "type", "unknown key", "syntax"],
)
def test_a_profile_with_an_error(tmp_path: Path, before: str, after: str, says: str) -> None:
    """File, line and key, and no daemon."""
    profile = tmp_path / "mine.toml"
    profile.write_text(PROFILE.replace(before, after))
    line = PROFILE[: PROFILE.index(before)].count("\n") + 1
    here = Node(profile="a100-40gb")
    try:
        result = gpud(here.environment, "serve", "--sim", profile)
        assert result.returncode == 125
        assert f"{profile}:{line}:" in result.stderr
        assert says in result.stderr.split(f"{profile}:{line}:", 1)[1].splitlines()[0]
        assert result.stderr.startswith(f"gpud serve: the simulated GPU does not start: {profile}:{line}:")
        assert len(result.stderr.splitlines()) == 1, result.stderr
    finally:
        here.close()


def test_a_profile_that_is_not_there() -> None:
    here = Node(profile="a100-40gb")
    try:
        result = gpud(here.environment, "serve", "--sim", "h999")
        assert result.returncode == 125
        assert "there is no profile 'h999'; there are a100-40gb," in result.stderr
        result = gpud(here.environment, "serve", "--sim", here.directory / "h999.toml")
        assert result.returncode == 125
        assert f"{here.directory}/h999.toml" in result.stderr
        assert "no such file" in result.stderr.lower()
    finally:
        here.close()


def test_a_profile_by_a_relative_path(tmp_path: Path, counter: list[str]) -> None:
    """Relative to where the daemon was started; jobs run elsewhere, on the same device."""
    (tmp_path / "mine.toml").write_text(PROFILE.replace("memory_gib = 40", "memory_gib = 11"))
    here = Node(profile="a100-40gb")
    del here.environment["GPUD_SIM_PROFILE"]
    command = [sys.executable, "-m", "gpud.cli.main", "serve", "--sim", "mine.toml"]
    with subprocess.Popen(command, env=here.environment, cwd=tmp_path) as daemon:
        try:
            until((here.runtime_dir / "control.sock").exists, 60, "the daemon listens")
            result = gpud(here.environment, "run", *counter, "1", "1", cwd=Path("/"))
            assert (result.returncode, result.stdout) == (0, "round 1 ok\n"), result
            assert gpud(here.environment, "run", "printenv", "GPUD_SIM_PROFILE").stdout == f"{tmp_path}/mine.toml\n"
            with here.client() as client:
                assert client.status().devices[0].total_bytes == 11 << 30
        finally:
            daemon.terminate()
    here.close()


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("add.u32 %r7, %r7, %r1;", "add.u32 %r7, %r7 %r1;", "add.u32 %r7, %r7 %r1: expected ','"),
        ("add.s64 %rd4", "frob.s64 %rd4", "the instruction frob is not supported"),
        ("setp.ge.u32 %p1", "setp.ge.u32 %q1", "%q1 is not declared"),
        ("bra done", "bra nowhere", "no label nowhere"),
    ],
    ids=["syntax", "unknown instruction", "undeclared register", "lost label"],
)
def test_ptx_that_does_not_parse(
    node: Node, counter: list[str], tmp_path: Path, before: str, after: str, says: str
) -> None:
    """Line and instruction, the driver's error for the program, and the daemon goes on."""
    text = Path(counter[1]).read_text()
    bad = tmp_path / "bad.ptx"
    bad.write_text(text.replace(before, after))
    line = text[: text.index(before)].count("\n") + 1
    result = gpud(node.environment, "run", counter[0], bad, *counter[2:], "1", "1")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"<ptx>:{line}: " in result.stderr
    assert says in result.stderr
    assert "cuModuleLoadData answered 218" in result.stderr  # CUDA_ERROR_INVALID_PTX
    assert gpud(node.environment, "run", "true").returncode == 0
