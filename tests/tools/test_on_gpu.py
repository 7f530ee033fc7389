"""The command, the packing and the building around the steps."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_day import build, main, pack, tree
from gpu_day.steps import Places, steps

from gpud.cli.demo.prerequisites import real_driver

ON_GPU = Path(__file__).parents[2] / "tools" / "on_gpu"


def on_gpu(*words: str | Path, cwd: Path | None = None, script: Path = ON_GPU) -> "subprocess.CompletedProcess[str]":
    clean = {name: value for name, value in os.environ.items() if name != "OUT"}
    return subprocess.run(
        [sys.executable, str(script), *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=clean,
        check=False,
    )


def places(tmp_path: Path, *, simulated: bool) -> Places:
    return Places(
        simulated=simulated,
        builder="python3.12",
        jobs_python="python3.12",
        tree=tmp_path,
        gpud_python="gpud-python",
        work=tmp_path,
        wheels=tmp_path,
    )


def test_steps_on_a_real_device_use_no_simulator(tmp_path: Path) -> None:
    for step in steps(places(tmp_path, simulated=False)):
        assert not step.skip
        assert not [word for word in step.command if "sim" in word.split("/")[-1]]
        assert step.name in ("machine", "build", "symbols") or "driver" in step.modules


def test_a_rehearsal_leaves_out_what_needs_the_runtime(tmp_path: Path) -> None:
    found = {step.name: step for step in steps(places(tmp_path, simulated=True))}
    assert "does not run on the simulated driver" in found["tests-eager"].skip
    assert not found["tests-driver"].skip
    assert not found["bench-isolation"].skip
    names = {step.name for step in steps(places(tmp_path, simulated=False))}
    assert names <= set(found)


def test_what_a_step_starts_is_in_the_tree(tmp_path: Path) -> None:
    """A step that names a test file or a bench that is not there would only fail on the day."""
    for step in steps(places(tmp_path, simulated=False)):
        for word in step.command:
            if word.startswith(("tests/", "tools/")):
                assert (tree.ROOT / word).is_file(), step.name
            if word.startswith("bench."):
                assert (tree.ROOT / (word.replace(".", "/") + ".py")).is_file(), step.name


def test_only_and_skip(tmp_path: Path) -> None:
    every = steps(places(tmp_path, simulated=True))
    assert [step.name for step in main.chosen(every, ["bench-cost"], [])] == ["machine", "build", "bench-cost"]
    assert "build" in [step.name for step in main.chosen(every, None, ["bench-cost"])]
    assert "bench-cost" not in [step.name for step in main.chosen(every, None, ["bench-cost"])]
    with pytest.raises(main.Usage, match="there is no step bench-costs; there are machine, "):
        main.chosen(every, ["bench-costs"], [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "nothing"], "there is no step nothing"),
        (["--budget", "0"], "--budget is in seconds, above 0"),
        (["--python", "no-such-python"], "there is no Python no-such-python"),
    ],
)
def test_wrong_usage(words: list[str], message: str) -> None:
    done = on_gpu("--sim", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_machine_is_recorded(tmp_path: Path) -> None:
    """From another directory, with all three files; gone on with, unless the tree is another or the file torn."""
    script = tmp_path / "checkout" / "tools" / "on_gpu"
    shutil.copytree(ON_GPU.parent, script.parent)
    words = ("--sim", "--only", "machine", "--out", tmp_path / "out", "--work", tmp_path / "work", "--wheels", tmp_path)
    done = on_gpu(*words, cwd=tmp_path, script=script)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["on-gpu.json", "on-gpu.log", "on-gpu.md"]
    found = json.loads((tmp_path / "out" / "on-gpu.json").read_text())
    assert found["simulated"] is True
    assert found["machine"]["cores"] == os.cpu_count()
    assert [(step["name"], step["state"]) for step in found["steps"]] == [("machine", "passed")]
    again = on_gpu(*words, "--resume", script=script)
    assert again.returncode == 0, again.stderr
    (script.parent / "new.py").touch()
    again = on_gpu(*words, "--resume", script=script)
    assert (again.returncode, "is of another state of the tree" in again.stderr) == (2, True)
    (tmp_path / "out" / "on-gpu.json").write_text("{")
    again = on_gpu(*words, "--resume", script=script)
    assert (again.returncode, "is no record of on_gpu" in again.stderr) == (2, True)


def test_without_a_gpu(tmp_path: Path) -> None:
    """A day without one is no success, and nothing that needs it is tried."""
    if real_driver():
        pytest.skip("there is a GPU")
    words = ("--only", "bench-cost", "--out", tmp_path / "out", "--work", tmp_path / "work")
    done = on_gpu(*words)
    assert done.returncode == 1, done.stderr
    found = {step["name"]: step for step in json.loads((tmp_path / "out" / "on-gpu.json").read_text())["steps"]}
    assert found["machine"]["state"] == "failed"
    assert found["build"]["state"] == "passed"
    assert found["bench-cost"]["why"].startswith("no GPU: ")


def test_without_wheels_that_are_any(tmp_path: Path) -> None:
    """The day is recorded, and says what to do."""
    words = ("--sim", "--only", "tests-driver", "--out", tmp_path / "out", "--work", tmp_path / "work")
    done = on_gpu(*words, "--wheels", tmp_path)
    assert done.returncode == 1
    found = {step["name"]: step for step in json.loads((tmp_path / "out" / "on-gpu.json").read_text())["steps"]}
    assert found["build"]["state"] == "failed"
    assert f"make it with tools/on_gpu --pack {tmp_path}" in found["build"]["tail"]
    assert found["tests-driver"]["why"] == "build, which it needs, failed"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small tree with products of it."""
    root = tmp_path / "checkout"
    for name in (
        "gpud/a.py",
        "gpud/_native/x.so",
        "gpud/hooks/_pages.so",
        ".venv/b",
        "hooks-native/src/h.c",
        "build/x",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


def test_a_copy_has_no_products(checkout: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    (target / "old").mkdir(parents=True)
    assert tree.copy(checkout, target) == 2
    assert sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()) == [
        "gpud/a.py",
        "hooks-native/src/h.c",
    ]
    assert tree.digest(target) == tree.digest(checkout)


def test_the_digest_is_of_names_and_contents(checkout: Path) -> None:
    before, native = tree.digest(checkout), tree.digest(checkout, tree.NATIVE)
    (checkout / "gpud/_native/x.so").write_text("another product")
    assert tree.digest(checkout) == before
    (checkout / "gpud/a.py").write_text("another")
    assert tree.digest(checkout) != before
    assert tree.digest(checkout, tree.NATIVE) == native
    (checkout / "hooks-native/src/h.c").write_text("another")
    assert tree.digest(checkout, tree.NATIVE) != native


@pytest.fixture
def manifest(tmp_path: Path) -> Callable[..., Path]:
    """manifest(**changes): a folder of wheels with that list."""

    def made(**changes: object) -> Path:
        wheels = tmp_path / "wheels"
        wheels.mkdir(exist_ok=True)
        (wheels / "pip-1-py3-none-any.whl").write_bytes(b"")
        text = {"python": "3.12", "wheels": ["pip-1-py3-none-any.whl"], "compiled": "", "native": "0" * 16} | changes
        (wheels / build.MANIFEST).write_text(json.dumps(text))
        return wheels

    return made


def test_wheels_for_another_python(manifest: Callable[..., Path], tmp_path: Path, checkout: Path) -> None:
    with pytest.raises(SystemExit, match=r"are for Python 2\.7, this is 3\."):
        build.build(manifest(python="2.7"), tmp_path / "work", checkout)


def test_wheels_that_are_lost(manifest: Callable[..., Path]) -> None:
    with pytest.raises(SystemExit, match=r"lacks gone\.whl: pack it again"):
        build.read_manifest(manifest(wheels=["gone.whl"]))


def test_compiled_parts_of_other_sources_are_refused(
    manifest: Callable[..., Path], checkout: Path, tmp_path: Path
) -> None:
    """A hook that does not fit its daemon would make all figures wrong."""
    wheel = tmp_path / "compiled-gpud.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("gpud/_native/libgpud_hook.so", "gpud/hooks/_pages.so", "gpud/a.py"):
            archive.writestr(name, "compiled")
    packages = tmp_path / "venv/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    with pytest.raises(SystemExit, match="made from other sources"):
        build.take_compiled(wheel, {"native": "0" * 16}, checkout, tmp_path / "venv")
    build.take_compiled(wheel, {"native": tree.digest(checkout, tree.NATIVE)}, checkout, tmp_path / "venv")
    assert (checkout / "gpud/_native/libgpud_hook.so").read_text() == "compiled"
    assert (checkout / "gpud/a.py").read_text() == "gpud/a.py"
    assert (packages / "gpud-checkout.pth").read_text() == f"{checkout}\n"
    with pytest.raises(SystemExit, match="no compiled parts were carried along"):
        build.take_compiled(None, {}, checkout, tmp_path / "venv")


def test_what_is_packed_is_what_the_project_says() -> None:
    wanted = pack.requirements(tree.ROOT)
    names = {need.split(">")[0].split("=")[0] for need in wanted}
    assert {"pip", "meson-python", "ninja", "cffi", "lark", "trio", "msgspec", "pytest", "pytest-trio"} <= names
    assert not names & {"numba-cuda", "cuda-toolkit", "nvitop", "mypy"}
