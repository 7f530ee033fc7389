"""`python -m gpud.ptx`: exit codes, messages, and files that appear whole or not at all."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpud.ptx.compile import COMPILER_VERSION

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
GOOD = SAMPLES / "numba_saxpy.ptx"


def command(*arguments, **environment):
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-m", "gpud.ptx", *map(str, arguments)], capture_output=True, text=True, env=given, timeout=60
    )


def test_compiles(tmp_path):
    out, c_file = tmp_path / "out.so", tmp_path / "out.c"
    done = command(GOOD, "-o", out, "--emit-c", c_file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert ctypes.CDLL(str(out)).gpud_module
    assert "gpud_module" in c_file.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.c", "out.so"]


def test_bad_ptx(tmp_path):
    source, out = tmp_path / "bad.ptx", tmp_path / "out.so"
    out.write_text("old")
    lines = GOOD.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if "fma.rn.f32" in line)
    lines[at] = lines[at].replace("fma.rn.f32", "fma.rn.f33")
    source.write_text("\n".join(lines))
    done = command(source, "-o", out)
    assert done.returncode == 1
    assert re.fullmatch(rf"{re.escape(str(source))}:{at + 1}: fma\.rn\.f33 [^:]*: [^\n]*\.f33[^\n]*\n", done.stderr), (
        done.stderr
    )
    assert out.read_text() == "old"


def test_no_compiler(tmp_path):
    out = tmp_path / "out.so"
    for arguments, environment in (
        ([], {"PATH": str(tmp_path)}),
        ([], {"CC": "no-such-compiler"}),
        (["--cc", "no-such-compiler"], {}),
    ):
        done = command(GOOD, "-o", out, *arguments, **environment)
        assert done.returncode == 3
        assert "C compiler" in done.stderr
        assert "CC" in done.stderr
        assert not out.exists()


def test_a_compiler_that_fails(tmp_path):
    done = command(GOOD, "-o", tmp_path / "out.so", "--cc", "false")
    assert done.returncode == 4
    assert "fault of gpud" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_there(tmp_path):
    done = command(tmp_path / "none.ptx", "-o", tmp_path / "out.so")
    assert done.returncode == 2
    assert "none.ptx" in done.stderr
    done = command(GOOD, "-o", tmp_path / "none" / "out.so")
    assert done.returncode == 2, done.stderr
    assert "none" in done.stderr
    assert command(GOOD).returncode == 2


def test_version():
    assert command("--version").stdout.strip() == COMPILER_VERSION


def test_no_preload_reaches_the_compiler(tmp_path):
    """The hook that gpud preloads into programs must not run in a compiler."""
    seen = tmp_path / "seen"
    fake = tmp_path / "cc"
    fake.write_text(f'#!/bin/sh\necho "preload=$LD_PRELOAD" > {seen}\nexec cc "$@"\n')
    fake.chmod(0o755)
    preload = next((str(path) for path in Path("/lib").glob("*-linux-gnu/libm.so.6")), "libm.so.6")
    assert command(GOOD, "-o", tmp_path / "out.so", "--cc", fake, LD_PRELOAD=preload).returncode == 0
    assert seen.read_text() == "preload=\n"


def test_the_contract_is_the_one_of_the_driver():
    copy = ROOT / "gpud" / "ptx" / "backend" / "prelude" / "contract.h"
    contract = ROOT / "hooks-native" / "include" / "gpud_kernel.h"
    if not contract.exists():
        pytest.skip("the C sources are not beside the package")
    assert copy.read_text() == contract.read_text()


def test_imports_only_itself_and_the_standard_library():
    code = (
        "import sys; before = set(sys.modules); import gpud.ptx.__main__; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)));"
        "print(*sorted(name for name in sys.modules if name.startswith('gpud.') and not name.startswith('gpud.ptx')))"
    )
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=given, check=True)
    assert done.stdout == "gpud\n\n"
