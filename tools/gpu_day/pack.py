"""`--pack DIR`: the wheels that a machine without a network needs to build and test gpud, and a list of them."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from gpu_day import tree
from gpu_day.build import MANIFEST, environment

PYTHON = "3.12"
LIMIT_BYTES = 60 << 20
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += [f"manylinux{year}_x86_64" for year in (2014, 2010, 1)]
IS_IT = f"import sys; sys.exit(sys.version_info[:2] != ({PYTHON.replace('.', ', ')}))"
LEFT_OUT = ("nvitop",)
"""Of the test extra: for tests that are not run there."""


class CannotPack(Exception):
    """The text is a sentence, after what pip said."""


def requirements(root: Path) -> list[str]:
    """To build gpud, to run it, and to test it, by pyproject.toml; and pip, since the machine's may be anything."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    wanted += project["project"]["optional-dependencies"]["test"]
    kept = [need for need in wanted if re.split(r"[^A-Za-z0-9_.-]", need)[0] not in LEFT_OUT]
    return ["pip", *dict.fromkeys(kept)]


def pack(target: Path, root: Path = tree.ROOT, python: str | None = None) -> str:
    """Fills `target`; a sentence about it. `python`: a Python 3.12, for the compiled parts; default: by its name on
    PATH. Raises CannotPack."""
    target.mkdir(parents=True, exist_ok=True)
    for old in [*target.glob("*.whl"), *target.glob(MANIFEST)]:
        old.unlink()
    _pip("download", "-q", "-d", str(target), *_target_options(), *requirements(root))
    wheels = sorted(path.name for path in target.glob("*.whl"))
    _check_complete(target, root)
    compiled = _compile(target, root, python or shutil.which(f"python{PYTHON}"))
    manifest = {
        "python": PYTHON,
        "wheels": wheels,
        "compiled": compiled,
        "native": tree.digest(root, tree.NATIVE),
    }
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    total = sum(path.stat().st_size for path in target.iterdir())
    if total > LIMIT_BYTES:
        raise CannotPack(f"{target} is of {total / 2**20:.0f} MiB, and may be of {LIMIT_BYTES >> 20}")
    without = "" if compiled else f"; without compiled parts, as there is no python{PYTHON} that builds them"
    return f"{len(wheels)} wheels for Python {PYTHON} on x86-64, {total / 2**20:.1f} MiB, in {target}{without}"


def _target_options() -> list[str]:
    options = ["--only-binary=:all:", "--python-version", PYTHON, "--implementation", "cp"]
    for abi in (f"cp{PYTHON.replace('.', '')}", "abi3", "none"):
        options += ["--abi", abi]
    for platform in PLATFORMS:
        options += ["--platform", platform]
    return options


def _check_complete(target: Path, root: Path) -> None:
    """Solves the requirements once more from the wheels alone: what is missing shows here, not there."""
    with tempfile.TemporaryDirectory(prefix="on-gpu-pack-") as scratch:
        where = ["--no-index", "--find-links", str(target), "--dry-run", "-q", "--target", scratch]
        _pip("install", *where, *_target_options(), *requirements(root))


def _compile(target: Path, root: Path, python: str | None) -> str:
    """A wheel of gpud itself for machines that cannot compile it; "" where this one cannot either."""
    if python is None or subprocess.run([python, "-c", IS_IT], check=False, capture_output=True).returncode:
        return ""
    with tempfile.TemporaryDirectory(prefix="on-gpu-pack-") as scratch:
        copied, venv = Path(scratch) / "tree", Path(scratch) / "venv"
        tree.copy(root, copied)
        try:
            subprocess.run([python, "-m", "venv", "--without-pip", str(venv)], check=True, capture_output=True)
            pip_wheel = next(iter(sorted(target.glob("pip-*.whl"))))
            variables = environment(venv, pip_wheel)
            pip = [str(venv / "bin" / "python"), "-m", "pip"]
            wheels = [str(path) for path in target.glob("*.whl") if path != pip_wheel]
            subprocess.run([*pip, "install", "-q", "--no-deps", *wheels], env=variables, check=True)
            build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(Path(scratch) / "out")]
            subprocess.run([*build, str(copied)], env=variables, check=True)
        except (OSError, subprocess.CalledProcessError, StopIteration):
            return ""
        (made,) = (Path(scratch) / "out").glob("gpud-*.whl")
        compiled = f"compiled-{made.name}"
        shutil.copy(made, target / compiled)
        return compiled


def _pip(*words: str) -> None:
    command: Sequence[str] = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode:
        raise CannotPack(f"pip {words[0]} failed; what it said is above")
