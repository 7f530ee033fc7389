"""Writes symbols.h: every entry point of the driver API with the version that introduced it.

Needs the headers of a CUDA toolkit and a C preprocessor; run by hand when a new toolkit comes out:
`python3 symbols.py /usr/local/cuda/include > symbols.h`. The build itself uses the written table only.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HEAD = """/* symbols.h: every entry point of the driver API. Written by symbols.py.
 * SYMBOL(name asked for, exported symbol, first CUDA version with this signature, 1 for the per-thread-default-stream
 * twin), sorted by name; of one name the plain symbols come first, oldest first. */
"""
PROFILER = ["cuProfilerInitialize", "cuProfilerStart", "cuProfilerStop"]


def split(symbol: str) -> tuple[str, int, bool]:
    """A symbol's name without suffixes, its signature number, and whether it is a per-thread twin."""
    match = re.fullmatch(r"(cu\w+?)(?:_v(\d+))?(_ptsz|_ptds)?", symbol)
    assert match is not None
    return match[1], int(match[2] or 1), bool(match[3])


def main(include: Path) -> None:
    """Reads cuda.h and cudaTypedefs.h below `include`, prints the table."""
    text = subprocess.run(
        ["cc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", str(include / "cuda.h")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    symbols = defaultdict(list)
    for symbol in set(re.findall(r"CUresult\s+(cu[A-Z]\w*)\s*\(", text)):
        name, number, twin = split(symbol)
        symbols[name, twin].append((number, symbol))
    versions = defaultdict(set)
    typedefs = (include / "cudaTypedefs.h").read_text()
    for name, version, twin in re.findall(r"PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", typedefs):
        versions[name, bool(twin)].add(int(version))
    print(HEAD, end="")
    rows = []
    for (name, twin), found in symbols.items():
        known = sorted(versions[name, twin])
        assert len(known) == len(found), name
        rows += [(name, twin, version, symbol) for (_, symbol), version in zip(sorted(found), known, strict=True)]
    rows += [(name, False, 4000, name) for name in PROFILER]
    for name, twin, version, symbol in sorted(rows):
        print(f"SYMBOL({name}, {symbol}, {version}, {int(twin)})")


main(Path(sys.argv[1]))
