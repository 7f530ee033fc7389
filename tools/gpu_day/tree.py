"""The checkout: what belongs to it, its digest, and a copy of it to build in."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SKIPPED = {".git", ".venv", ".whl", "build", "dist", "_native", "__pycache__", ".ci", "shared"}
GENERATED = {"tables.json"}
NATIVE = ("hooks-native", "gpud/hooks", "gpud/policies/syntax", "meson.build", "meson.options")
"""What the compiled parts are made from."""


def belongs(name: str) -> bool:
    """Is a file or folder of this name part of the checkout, and no product of it?"""
    hidden = name.startswith(".") and name not in (".importlinter", ".gitignore")
    return not (hidden or name in SKIPPED or name in GENERATED or name.endswith((".so", ".pyc", ".egg-info")))


def files(root: Path) -> Iterator[Path]:
    """All files that belong to it, in a fixed order."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if belongs(name))
        yield from (Path(folder) / name for name in sorted(names) if belongs(name))


def digest(root: Path, parts: tuple[str, ...] = ()) -> str:
    """Names and contents of all files, or of those below `parts`, as 16 hexadecimal digits."""
    total = hashlib.sha256()
    for path in files(root):
        name = path.relative_to(root).as_posix()
        if parts and not any(name == part or name.startswith(part + "/") for part in parts):
            continue
        total.update(f"{name}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def copy(root: Path, target: Path) -> int:
    """Makes `target` a copy of what belongs to `root`, and nothing else; how many files."""
    shutil.rmtree(target, ignore_errors=True)
    count = 0
    for path in files(root):
        to = target / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, to, follow_symlinks=False)
        count += 1
    return count
