"""The hook exports dlsym in both of glibc's versions and every entry that the table intercepts, and nothing else.

    exports.py LIBRARY [EXTRA]...

A hook with hidden symbols hooks nothing, and nobody notices; one with more than that changes what programs find.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def output(*command: str | Path) -> str:
    """What the command prints. Raises CalledProcessError."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Compare; print each difference."""
    library, extra = sys.argv[1], set(sys.argv[2:])
    wanted = set(output(sys.executable, ROOT / "tools" / "check_cuda_symbols", "--exports").split()) | extra
    # For gpud.h and the Python package; the counting gate, the other half's stand-in, has none of them.
    first = ("gpud_hook_acquire", "gpud_hook_acquire_for", "gpud_hook_release", "gpud_hook_current")
    second = ("gpud_hook_hookless", "gpud_hook_swaps", "gpud_hook_swap_wait", "gpud_hook_swap_done")
    own = dict.fromkeys(first, "GPUD_1") | dict.fromkeys(second, "GPUD_2")
    lines = [line.split() for line in output("nm", "-D", "--defined-only", library).splitlines()]
    exported = [line[-1] for line in lines if line[-2] != "A"]
    versions = {name for name in exported if name.startswith("dlsym@")}
    names = {name.split("@")[0] for name in exported}
    problems = [f"not exported: {name}" for name in sorted(wanted - names | (set() if extra else own.keys() - names))]
    problems += [f"exported, and should not be: {name}" for name in sorted(names - wanted - own.keys())]
    versioned = versions | {f"{name}@@{version}" for name, version in own.items()}
    problems += [f"has a version: {name}" for name in exported if "@" in name and name not in versioned]
    oldest = {"dlsym@GLIBC_2.2.5", "dlsym@GLIBC_2.17"} & versions
    if len(versions) != 2 or not oldest or "dlsym@@GLIBC_2.34" not in versions:
        problems.append(f"dlsym has the versions {sorted(versions)}")
    needed = [line for line in output("readelf", "-d", library).splitlines() if "NEEDED" in line]
    problems += [f"links against CUDA: {line.strip()}" for line in needed if "cuda" in line or "nvidia" in line]
    print("\n".join([*problems, f"{library}: {len(names)} names exported, {len(problems)} problems"]))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
