"""The build backend: meson-python, with an editable install that costs nothing at import.

meson-python's own asks ninja at every import, which `gpud run` cannot afford. Here
`pip install -e .` builds the native parts once, into `gpud/_native` and beside their modules, and installs a plain
path file; after a change in C, `make build` does it again.
"""

import base64
import hashlib
import shlex
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from mesonpy import *
from mesonpy import build_wheel, get_requires_for_build_wheel

ROOT = Path(__file__).resolve().parent.parent


def get_requires_for_build_editable(config_settings: dict[str, Any] | None = None) -> list[str]:
    return list(get_requires_for_build_wheel(config_settings))


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Builds the wheel, puts its native files into the checkout, and leaves metadata and a path file in the wheel."""
    with tempfile.TemporaryDirectory() as scratch:
        name = build_wheel(scratch, config_settings, metadata_directory)
        target = Path(wheel_directory) / name
        with zipfile.ZipFile(Path(scratch) / name) as full, zipfile.ZipFile(target, "w") as slim:
            record: list[str] = []

            def add(entry: zipfile.ZipInfo, data: bytes) -> None:
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                record.append(f"{entry.filename},sha256={digest},{len(data)}")
                slim.writestr(entry, data)

            for entry in full.infolist():
                top = entry.filename.split("/")[0]
                if top.endswith(".dist-info"):
                    if entry.filename.endswith("/RECORD"):
                        record_name = entry.filename
                    else:
                        add(entry, full.read(entry))
                elif entry.filename.endswith(".data/scripts/gpud"):
                    add(entry, full.read(entry).replace(b'checkout=""', f"checkout={shlex.quote(str(ROOT))}".encode()))
                elif "/_native/" in entry.filename or entry.filename.endswith((".so", "/tables.json")):
                    _place(full, entry, ROOT / entry.filename)
            add(zipfile.ZipInfo("gpud-checkout.pth"), f"{ROOT}\n".encode())
            record.append(f"{record_name},,")
            slim.writestr(record_name, "\n".join(record) + "\n")
    return name


def _place(wheel: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    """Replaces atomically: a program that has the old file mapped keeps it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".new")
    with wheel.open(entry) as source, fresh.open("wb") as out:
        shutil.copyfileobj(source, out)
    fresh.chmod(0o644 if target.suffix == ".json" else 0o755)
    fresh.replace(target)
