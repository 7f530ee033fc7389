"""C text to a shared object, with the system's compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from gpud.ptx.errors import CompilerFailed, CompilerMissing

_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-w",
    "-pipe",
)
_CPU_FLAGS = {"fma": "-mfma", "popcnt": "-mpopcnt", "bmi2": "-mbmi2", "sse4_1": "-msse4.1", "avx2": "-mavx2"}
_REMEDY = "install one (Debian and Ubuntu: apt install gcc libc6-dev), or set CC to its path"


def find_compiler(given: str | None = None) -> list[str]:
    """The compiler's command: `given`, else $CC, else cc, gcc or clang.

    Raises CompilerMissing where none is there.
    """
    for source, text in (("--cc", given), ("CC", os.environ.get("CC"))):
        if text:
            command = shlex.split(text)
            if not command or shutil.which(command[0]) is None:
                raise CompilerMissing(f"the C compiler {text!r} (from {source}) is not there; {_REMEDY}")
            return command
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path is not None:
            return [path]
    raise CompilerMissing(f"no C compiler (cc, gcc, clang) on the PATH; {_REMEDY}")


def build(text: str, output: Path, *, compiler: list[str]) -> None:
    """Compiles `text` to the shared object `output`, which appears whole or not at all.

    Raises CompilerFailed with the compiler's message, and OSError where `output` cannot be written.
    """
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    # Nothing preloaded into a program (gpud's hook) may be loaded into the compiler.
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    command = [*compiler, *_FLAGS, *cpu_flags(), "-x", "c", "-", "-o", str(partial), "-lm"]
    try:
        partial.touch()  # a folder that cannot be written to is told before the compiler's work
        done = subprocess.run(command, input=text, text=True, capture_output=True, env=environment, check=False)
        if done.returncode:
            raise CompilerFailed(f"{shlex.join(compiler)} failed:\n{done.stderr.strip()[:4000]}")
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def cpu_flags() -> list[str]:
    """Flags for instructions that this processor has and that make fma and bit counts fast."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            found = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    except OSError:
        return []
    return [flag for name, flag in _CPU_FLAGS.items() if name in found]
