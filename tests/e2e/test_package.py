"""`pip install .`: the wheel holds everything that a working gpud needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NEEDED = (
    "gpud/py.typed",
    "gpud/_native/libgpud_hook.so",
    "gpud/_native/sim/libcuda.so.1",
    "gpud/_native/sim/libnvidia-ml.so.1",
    "gpud/_native/sim/gpud-sim-device",
    "gpud/_native/sim/profiles/a100-40gb.toml",
    "gpud/_data/examples/serving.py",
    "gpud/_data/examples/training.py",
    "gpud/_data/include/gpud.h",
    "gpud/_data/errors/GP103.md",
    "gpud/_data/policies/preempt-mix.gpol",
    "gpud/_data/policies/tests/preempt-mix.gpol",
    "gpud/policies/syntax/tables.json",
)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, unpacked as an installation would be."""
    directory = tmp_path_factory.mktemp("wheel")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-Csetup-args=-Dbuildtype=plain",  # what it holds is the same, and half of the time is the optimiser's
        "-w",
        str(directory),
        str(ROOT),
    ]
    subprocess.run(build, check=True, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (wheel,) = directory.glob("gpud-*.whl")
    target = directory / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    for binary in (target / "gpud" / "_native").rglob("*"):
        binary.chmod(0o755)  # what pip does from the wheel's mode bits
    return target


def test_wheel_holds_all_parts(installed: Path) -> None:
    missing = [name for name in NEEDED if not (installed / name).exists()]
    assert not missing
    assert list((installed / "gpud" / "hooks").glob("_pages.*.so"))


def test_command_finds_its_package(installed: Path, tmp_path: Path) -> None:
    """`gpud run` goes without `site`, so the command must find the package beside its interpreter by itself."""
    (script,) = installed.glob("gpud-*.data/scripts/gpud")
    packages = tmp_path / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(installed)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    command = tmp_path / "bin" / "gpud"
    command.write_bytes(script.read_bytes())
    command.chmod(0o755)
    (tmp_path / "elsewhere").symlink_to(command)
    for path in (command, tmp_path / "elsewhere"):
        environment = {"PATH": os.environ["PATH"], "GPUD_RUNTIME_DIR": str(tmp_path / "none")}
        done = subprocess.run([path, "run", "true"], env=environment, cwd="/", capture_output=True, text=True)
        assert done.returncode == 75, done.stderr
        assert "no daemon" in done.stderr


def test_doctor_is_content_with_the_installed_parts(installed: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_")}
    environment |= {"PYTHONPATH": str(installed), "GPUD_RUNTIME_DIR": str(tmp_path / "run")}
    done = subprocess.run(
        [sys.executable, "-m", "gpud.cli.main", "doctor"], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(installed / "gpud" / "_native" / "libgpud_hook.so") in done.stdout


def test_policies_and_pages_are_found(installed: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("GPUD_", "XDG_"))}
    environment |= {"PYTHONPATH": str(installed), "HOME": str(tmp_path)}

    def policy(*arguments: str) -> str:
        command = [sys.executable, "-P", "-m", "gpud.cli.main", "policy", *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert policy("why", "GP103").startswith("# GP103")
    assert policy("check", "--strict").endswith("no findings\n")
    assert 'policy "preempt-mix"' in policy("explain", "preempt-mix")
    assert (installed / "gpud" / "cli" / "policy" / "check.py").is_file()


@pytest.mark.parametrize(("compiler", "name", "standard"), [("cc", "turns.c", "c11"), ("c++", "turns.cpp", "c++17")])
def test_an_example_is_compiled_as_the_documentation_says(
    installed: Path, tmp_path: Path, compiler: str, name: str, standard: str
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUD_")} | {"PYTHONPATH": str(installed)}
    include = subprocess.run(
        [sys.executable, "-P", "-m", "gpud.api.include"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert include == str(installed / "gpud" / "_data" / "include")
    cuda = [folder for folder in map(Path, sys.path) if (folder / "nvidia" / "cu13" / "include" / "cuda.h").is_file()]
    if not cuda:
        pytest.skip("no cuda.h: the demo's packages are not installed")
    (tmp_path / "libcuda.so").symlink_to(installed / "gpud" / "_native" / "sim" / "libcuda.so.1")
    source = installed / "gpud" / "_data" / "examples" / name
    folders = [f"-I{include}", f"-I{cuda[0] / 'nvidia' / 'cu13' / 'include'}"]
    strict = [f"-std={standard}", "-O1", "-Wall", "-Wextra", "-Werror"]
    command = [compiler, *strict, *folders, str(source), "-o", "turns", f"-L{tmp_path}", "-lcuda", "-ldl"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)


def test_a_program_of_ones_own_needs_nothing_but_the_header(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text(
        "#include <gpud.h>\n#include <stdio.h>\n"
        'int main(void) { puts(gpud_error_text(gpud_acquire_for(0, 0, "a try"))); return 0; }\n'
    )
    include = installed / "gpud" / "_data" / "include"
    subprocess.run(["cc", "-Wall", "-Werror", f"-I{include}", "own.c", "-o", "own", "-ldl"], cwd=tmp_path, check=True)
    environment = {k: v for k, v in os.environ.items() if k != "GPUD_OPTIONAL"}
    done = subprocess.run([tmp_path / "own"], env=environment, capture_output=True, text=True, check=True)
    assert "start it with `gpud run`" in done.stdout
