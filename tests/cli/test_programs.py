"""Programs into which the hook cannot be loaded are never started silently."""

import os
import shutil
import stat
import struct
from pathlib import Path

import pytest

from gpud.cli.elf import read_elf
from gpud.cli.programs import why_unmanaged
from tests.cli.conftest import FakeDaemon, Gpud, compile_c

SOURCE = '#include <stdio.h>\nint main(void){puts("ran");return 0;}\n'


def elf32(machine: int = 3) -> bytes:
    """The smallest 32-bit executable header."""
    return (
        b"\x7fELF\x01\x01\x01"
        + bytes(9)
        + struct.pack("<HHIIIIIHHHHHH", 2, machine, 1, 0, 52, 0, 0, 52, 32, 0, 40, 0, 0)
    )


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory, cc: str) -> Path:
    directory = tmp_path_factory.mktemp("static")
    (directory / "p.c").write_text(SOURCE)
    compile_c(cc, directory / "p.c", directory / "static", "-static")
    return directory / "static"


def executable(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(0o755)
    return path


def test_a_static_program_is_refused(gpud: Gpud, daemon: FakeDaemon, static: Path) -> None:
    done = gpud("run", str(static))
    assert done.returncode == 125
    assert "statically linked" in done.stderr
    assert "--unmanaged" in done.stderr
    assert done.stdout == ""
    assert daemon.launches == []


def test_a_static_program_runs_unmanaged_on_request(gpud: Gpud, daemon: FakeDaemon, static: Path) -> None:
    done = gpud("run", "--unmanaged", str(static))
    assert done.returncode == 0
    assert done.stdout == "ran\n"
    assert "unmanaged" in done.stderr


def test_a_static_pie_is_refused(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path, cc: str) -> None:
    (tmp_path / "p.c").write_text(SOURCE)
    compile_c(cc, tmp_path / "p.c", tmp_path / "pie", "-static-pie")
    assert gpud("run", str(tmp_path / "pie")).returncode == 125


def test_a_script_of_a_static_interpreter(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path, static: Path) -> None:
    script = executable(tmp_path / "s", f"#!{static}\n")
    done = gpud("run", str(script))
    assert done.returncode == 125
    assert "statically linked" in done.stderr
    assert str(script) in done.stderr


def test_a_script_that_finds_a_static_interpreter_by_env(
    gpud: Gpud, daemon: FakeDaemon, tmp_path: Path, static: Path
) -> None:
    script = executable(tmp_path / "s", f"#!/usr/bin/env {static.name}\n")
    done = gpud("run", str(script), PATH=f"{static.parent}:{os.environ['PATH']}")
    assert done.returncode == 125
    assert "statically linked" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(elf32(), "a 32-bit program for x86"), (elf32(40), "32-bit ARM")],
)
def test_a_program_of_another_format(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path, content: bytes, said: str) -> None:
    done = gpud("run", str(executable(tmp_path / "p", content)))
    assert done.returncode == 125
    assert said in done.stderr
    assert daemon.launches == []


def test_a_program_for_another_machine(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    image = bytearray(Path(shutil.which("true") or "/bin/true").read_bytes())
    image[18:20] = struct.pack("<H", 243)
    done = gpud("run", str(executable(tmp_path / "p", bytes(image))))
    assert done.returncode == 125
    assert "RISC-V" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a program that belongs to somebody else")
@pytest.mark.parametrize(("bit", "said"), [(stat.S_ISUID, "set-user-ID"), (stat.S_ISGID, "set-group-ID")])
def test_a_privileged_program(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path, bit: int, said: str) -> None:
    program = tmp_path / "p"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    os.chown(program, 65534, 65534)
    program.chmod(0o755 | bit)
    if os.statvfs(program).f_flag & os.ST_NOSUID:
        pytest.skip("this file system is mounted nosuid")
    done = gpud("run", str(program))
    assert done.returncode == 125
    assert said in done.stderr
    assert gpud("run", "--unmanaged", str(program)).returncode == 0


def test_a_set_user_id_program_of_our_own_gains_nothing(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    program = tmp_path / "p"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    program.chmod(0o4755)
    assert gpud("run", str(program)).returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file capabilities")
def test_a_program_with_file_capabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, natives: Path) -> None:
    program = tmp_path / "p"
    shutil.copy(shutil.which("true") or "/bin/true", program)
    os.setxattr(program, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 12, 0, 0, 0))
    hook = read_elf(str(natives / "libgpud_hook.so"))
    assert hook is not None
    assert why_unmanaged(str(program), hook, {}) == ""  # root gains nothing by it
    monkeypatch.setattr(os, "getuid", lambda: 65534)
    assert "file capabilities" in why_unmanaged(str(program), hook, {})


def test_a_program_that_is_not_there(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    done = gpud("run", "no-such-program-anywhere")
    assert done.returncode == 127
    assert "no-such-program-anywhere" in done.stderr
    assert gpud("run", str(tmp_path / "none")).returncode == 127


def test_a_file_that_may_not_be_executed(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("echo hello\n")
    done = gpud("run", str(tmp_path / "p"))
    assert done.returncode == 126
    assert "chmod +x" in done.stderr
    assert gpud("run", str(tmp_path)).returncode == 126


def test_a_script_whose_interpreter_is_not_there(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    done = gpud("run", str(executable(tmp_path / "s", "#!/nowhere/python\n")))
    assert done.returncode == 126
    assert "/nowhere/python" in done.stderr


def test_a_script_without_an_interpreter_line_runs_by_sh(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    done = gpud("run", str(executable(tmp_path / "s", 'echo "$1 $HOOK_LOADED"\n')), "word")
    assert done.stdout == "word 1\n"


def test_path_is_searched_past_files_that_may_not_be_executed(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    (first / "tool").write_text("")
    executable(second / "tool", "#!/bin/sh\necho second\n")
    assert gpud("run", "tool", PATH=f"{first}:{second}:{os.environ['PATH']}").stdout == "second\n"


def test_the_hook_is_missing(gpud: Gpud, daemon: FakeDaemon, tmp_path: Path) -> None:
    done = gpud("run", "true", GPUD_NATIVE_DIR=str(tmp_path))
    assert done.returncode == 125
    assert f"{tmp_path}/libgpud_hook.so" in done.stderr
    assert "make build" in done.stderr
    assert daemon.launches == []


def test_the_hook_is_torn_or_of_another_machine(gpud: Gpud, daemon: FakeDaemon, natives: Path, tmp_path: Path) -> None:
    whole = (natives / "libgpud_hook.so").read_bytes()
    hook = tmp_path / "libgpud_hook.so"
    other = bytearray(whole)
    other[18:20] = struct.pack("<H", 183)
    for content, said in (
        (whole[: len(whole) // 2], "torn"),
        (b"text", "not a shared"),
        (bytes(other), "another machine"),
    ):
        hook.write_bytes(content)
        done = gpud("run", "sh", "-c", "echo ran", GPUD_NATIVE_DIR=str(tmp_path))
        assert done.returncode == 125
        assert said in done.stderr
        assert done.stdout == ""


def test_the_hook_in_a_directory_with_a_space(gpud: Gpud, daemon: FakeDaemon, natives: Path, tmp_path: Path) -> None:
    directory = tmp_path / "my project"
    directory.mkdir()
    shutil.copy(natives / "libgpud_hook.so", directory)
    done = gpud("run", "true", GPUD_NATIVE_DIR=str(directory))
    assert done.returncode == 125
    assert "space" in done.stderr
