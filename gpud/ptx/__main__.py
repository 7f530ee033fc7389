"""`python -m gpud.ptx IN.ptx -o OUT.so`

Exit codes: 0 done, 1 bad PTX, 2 usage or files, 3 no C compiler, 4 a fault of gpud.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gpud.ptx.compile import COMPILER_VERSION, compile_file
from gpud.ptx.errors import CompilerFailed, CompilerMissing, PtxError


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; the answer is the exit code. Messages go to stderr."""
    parser = argparse.ArgumentParser(prog="python -m gpud.ptx", description="compile PTX to a shared object")
    parser.add_argument("source", type=Path, metavar="IN.ptx")
    parser.add_argument("-o", dest="output", type=Path, required=True, metavar="OUT.so")
    parser.add_argument("--emit-c", type=Path, metavar="FILE", help="write the C text there too")
    parser.add_argument("--cc", metavar="CC", help="the C compiler (default: $CC, cc, gcc or clang)")
    parser.add_argument("--version", action="version", version=COMPILER_VERSION)
    given = parser.parse_args(arguments)
    try:
        compile_file(given.source, given.output, emit_c=given.emit_c, cc=given.cc)
    except PtxError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"gpud.ptx: {error.filename or given.source}: {error.strerror or error}", file=sys.stderr)
        return 2
    except CompilerMissing as error:
        print(f"gpud.ptx: {error}", file=sys.stderr)
        return 3
    except CompilerFailed as error:
        print(f"{given.source}:0: the generated C does not compile, which is a fault of gpud: {error}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
