"""build.py --wheels DIR --work DIR: gpud from the tree, without a network.

A copy of the tree in WORK/tree, a virtual environment in WORK/venv with the packages of DIR, and gpud built into the
copy. Where it cannot be built, the compiled parts that DIR carries are taken, if they were made from the same sources.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gpu_day import tree

MANIFEST = "pack.json"
SETUP = "-Csetup-args=-Dwerror=false"
"""Another compiler may warn of something new; that must not cost the day."""
CHECK = "import gpud.hooks._pages, gpud.native; assert gpud.native.hook_library().is_file()"


def environment(venv: Path, pip: Path) -> dict[str, str]:
    """For pip out of its wheel, deaf to the machine's settings, and for the tools in the virtual environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    clean |= {"PYTHONPATH": str(pip), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_NO_INPUT": "1"}
    clean |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    clean["PATH"] = f"{venv / 'bin'}:{clean.get('PATH', os.defpath)}"
    return clean


def say(words: str) -> None:
    print(f"[{time.monotonic() - _BEGAN:5.1f} s] {words}", flush=True)


_BEGAN = time.monotonic()


def fail(words: str) -> NoReturn:
    sys.exit(f"build: {words}")


def build(wheels: Path, work: Path, root: Path) -> None:
    """All of it; exits with a sentence where it cannot go on."""
    manifest = read_manifest(wheels)
    version = ".".join(map(str, sys.version_info[:2]))
    if manifest["python"] != version:
        fail(f"the wheels in {wheels} are for Python {manifest['python']}, this is {version}: use another --python")
    work.mkdir(parents=True, exist_ok=True)
    copied, venv = work / "tree", work / "venv"
    say(f"{tree.copy(root, copied)} files copied to {copied}")
    shutil.rmtree(venv, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    pip_wheel = next(iter(sorted(wheels.glob("pip-*.whl"))), None)
    if pip_wheel is None:
        fail(f"no pip in {wheels}: pack it again")
    variables = environment(venv, pip_wheel)
    pip = [str(python), "-m", "pip", "install", "--progress-bar=off", "--no-deps"]
    packages = [str(wheels / name) for name in manifest["wheels"] if not name.startswith("pip-")]
    subprocess.run([*pip, "-q", "--no-compile", *packages], env=variables, check=True)
    say(f"{len(packages)} packages installed in {venv}")
    options = ["--no-build-isolation", f"-Cbuild-dir={work / 'meson'}", SETUP]
    shutil.rmtree(work / "meson", ignore_errors=True)
    built = subprocess.run([*pip, *options, "-e", str(copied)], env=variables, check=False)
    if built.returncode:
        say("it does not build here")
        take_compiled(wheels / manifest["compiled"] if manifest["compiled"] else None, manifest, copied, venv)
    clean = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    subprocess.run([str(python), "-c", CHECK], cwd=copied, env=clean, check=True)
    subprocess.run([str(python), "-m", "gpud.cli.main", "--version"], cwd=copied, env=clean, check=True)
    say("built from the tree" if not built.returncode else "the compiled parts that were carried along are used")


def read_manifest(wheels: Path) -> dict[str, Any]:
    """What `--pack` wrote there; exits with a sentence where that is not to be had."""
    try:
        manifest: dict[str, Any] = json.loads((wheels / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        fail(f"{wheels} holds no {MANIFEST}: make it with tools/on_gpu --pack {wheels}")
    missing = [name for name in manifest["wheels"] if not (wheels / name).is_file()]
    if missing:
        fail(f"{wheels} lacks {', '.join(missing)}: pack it again")
    return manifest


def take_compiled(wheel: Path | None, manifest: dict[str, Any], copied: Path, venv: Path) -> None:
    """Puts the compiled parts of a wheel beside the sources, as an editable installation has them."""
    if wheel is None or not wheel.is_file():
        fail("and no compiled parts were carried along")
    if manifest["native"] != tree.digest(copied, tree.NATIVE):
        fail(f"and {wheel.name} was made from other sources: pack it again")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("gpud/") and ("/_native/" in name or name.endswith((".so", "/tables.json"))):
                target = copied / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
                target.chmod(0o755)
    for packages in venv.glob("lib/python3*/site-packages"):
        (packages / "gpud-checkout.pth").write_text(f"{copied}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Builds gpud from the tree without a network.")
    parser.add_argument("--wheels", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tree", type=Path, default=tree.ROOT)
    options = parser.parse_args()
    try:
        build(options.wheels.resolve(), options.work.resolve(), options.tree.resolve())
    except subprocess.CalledProcessError as error:
        fail(f"{' '.join(map(str, error.cmd[:4]))} … ended with {error.returncode}")
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")


if __name__ == "__main__":
    main()
