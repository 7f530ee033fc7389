"""The examples of turns, compiled and run on the simulated device as their texts say."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpud.native import sim_dir
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
END_S = 60.0
TURNS = """gpol 1
policy "p" {
  class job { match any }
  arbitrate exclusive { max_hold = 10s  min_hold = 0s  grace = 5s  idle_release = 20ms }
}
"""


def includes() -> list[str]:
    """Of gpud, and of the driver API, which comes with the demo's compiler."""
    spec = importlib.util.find_spec("nvidia")
    folders = (
        [Path(place) / "cu13" / "include" for place in (spec.submodule_search_locations or ()) if spec] if spec else []
    )
    found = [folder for folder in folders if (folder / "cuda.h").is_file()]
    if not found:
        pytest.skip("no cuda.h: the demo's packages are not installed")
    return [f"-I{ROOT / 'hooks-native' / 'include'}", f"-I{found[0]}"]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both programs, linked with the driver as usual."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "libcuda.so").symlink_to(sim_dir() / "libcuda.so.1")
    link = [f"-L{folder}", "-lcuda", "-ldl"]
    strict = ["-O1", "-Wall", "-Wextra", "-Werror", *includes()]
    for compiler, name, standard in (("cc", "turns.c", "-std=c11"), ("c++", "turns.cpp", "-std=c++17")):
        command = [compiler, standard, *strict, str(EXAMPLES / name), "-o", str(folder / Path(name).suffix[1:]), *link]
        subprocess.run(command, check=True, timeout=120)
    return folder


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.gpol").write_text(TURNS)
    with Node(
        profile="test-small", policy="p", policies=policies, environment={"GPUD_SIM_PYTHON": sys.executable}
    ) as node:
        yield node


def run(node: Node, *command: object, managed: bool = True) -> "subprocess.Popen[str]":
    return node.run([str(word) for word in command], managed=managed, stderr=subprocess.STDOUT)


def end(job: "subprocess.Popen[str]") -> tuple[int, str]:
    said = job.communicate(timeout=END_S)[0]
    return job.returncode, said


def test_c_and_cpp_take_turns_with_each_other(node: Node, build: Path) -> None:
    jobs = [run(node, build / "c", 20, 5), run(node, build / "cpp", 20), run(node, build / "c", 20, 5)]
    (code, said), (code_cpp, said_cpp), (code_two, _) = map(end, jobs)
    assert (code, code_cpp, code_two) == (0, 0, 0)
    assert said.splitlines() == [f"batch {number}: right, alone on the device" for number in range(1, 21)]
    assert "batch 20: right" in said_cpp
    assert "the third batch is a bad one; a turn is left over: no" in said_cpp


def test_c_and_cpp_say_what_to_do_without_gpud(node: Node, build: Path) -> None:
    for name in ("c", "cpp"):
        code, said = end(run(node, build / name, 1, managed=False))
        assert code == 1
        assert "start it with `gpud run`, or set GPUD_OPTIONAL=1" in said


def test_without_gpud_a_turn_may_be_optional(node: Node, build: Path) -> None:
    node.environment["GPUD_OPTIONAL"] = "1"
    code, said = end(run(node, build / "c", 1, managed=False))
    assert (code, said) == (0, "batch 1: right, no turns here\n")
    code, said = end(run(node, build / "cpp", 4, managed=False))
    assert (code, said.splitlines()[-1]) == (0, "batch 4: right")


@pytest.mark.parametrize("form", ["with", "decorator", "aio"])
def test_python_beside_another_job(node: Node, build: Path, form: str) -> None:
    pytest.importorskip("numba_cuda")
    beside = run(node, build / "c", 10_000, 1)

    def another_has_it() -> bool:
        with node.client() as client:
            return any(lock.state == "has" for job in client.ps() for lock in job.lock)

    until(another_has_it, 60, "another job has the device")
    code, said = end(run(node, sys.executable, EXAMPLES / "turns.py", "--form", form))
    assert code == 0, said
    assert said.splitlines()[-1] == "right"
    assert beside.poll() is None
