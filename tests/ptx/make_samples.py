"""Writes samples/*.ptx from the kernels in this folder, with numba-cuda and nvcc where they are there.

The samples are committed: tests read them without either. After a change run python tests/ptx/make_samples.py by hand;
with --digest it only writes samples/generated.txt, as a change of the compiler's output needs.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from gpud.ptx.compile import COMPILER_VERSION, ptx_to_c

HERE = Path(__file__).parent
SAMPLES = HERE / "samples"


def numba_samples() -> dict[str, str]:
    """PTX of each kernel of numba_kernels.py, under a short entry name."""
    import numba_kernels  # needs numba-cuda

    found = {}
    for name, (kernel, signature) in numba_kernels.KERNELS.items():
        text = numba_kernels.ptx(kernel, signature)
        long = re.findall(r"\.entry (\w+)\(", text)[0]
        text = re.sub(r"_ZN08NumbaEnv\w+", "numba_env", text.replace(long, name))
        found[f"numba_{name}"] = text
    return found


def nvcc_samples() -> dict[str, str]:
    """PTX of samples/*.cu."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return {}
    found = {}
    for source in sorted(SAMPLES.glob("*.cu")):
        command = [nvcc, "-ptx", "-arch=sm_80", "-o", "-", source.name]
        done = subprocess.run(command, cwd=SAMPLES, capture_output=True, text=True, check=True)
        found[f"nvcc_{source.stem}"] = done.stdout
    return found


def main() -> None:
    """Writes them all."""
    sys.path.insert(0, str(HERE))
    if "--digest" not in sys.argv:
        write_samples()
    (SAMPLES / "generated.txt").write_text(f"{COMPILER_VERSION} {digest()}\n")


def digest() -> str:
    """Of the C text for all samples: it changes when the compiler's output does."""
    found = hashlib.sha256()
    for path in sorted(SAMPLES.glob("*.ptx")):
        found.update(ptx_to_c(path.read_text()).encode())
    return found.hexdigest()


def write_samples() -> None:
    """PTX from the compilers that are here."""
    for name, text in {**numba_samples(), **nvcc_samples()}.items():
        (SAMPLES / f"{name}.ptx").write_text(text)
        print(name, len(text))


if __name__ == "__main__":
    main()
