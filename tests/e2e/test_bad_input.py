"""Bad input and a daemon that is not what it should be, through the real `gpud`, hook, daemon and simulated driver.

Each error says what, where and what to do; nothing is lost: who cannot be managed is not started, or computes on.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpud.native import native_dir, sim_dir
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

Result = subprocess.CompletedProcess[str]
HOOK = native_dir() / "libgpud_hook.so"
VERBS = (["run", "true"], ["ps"], ["status"], ["stop"], ["serve"])


def hooked(node: Node, program: Sequence[str]) -> Result:
    """The program with the hook in it, without `gpud run`."""
    environment = node.environment | {"LD_PRELOAD": str(HOOK), "LD_LIBRARY_PATH": str(sim_dir())}
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)


def computed(result: Result, rounds: int) -> bool:
    return result.returncode == 0 and result.stdout.splitlines() == [f"round {n + 1} ok" for n in range(rounds)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(profile="a100-40gb") as started:
        yield started


@pytest.fixture
def without_daemon() -> Iterator[Node]:
    """The directories and the environment of a node that is not started."""
    here = Node(profile="a100-40gb")
    yield here
    here.close()


@pytest.mark.parametrize("words", VERBS[:4], ids=lambda words: words[0])
def test_no_daemon(without_daemon: Node, words: list[str]) -> None:
    result = gpud(without_daemon.environment, *words)
    assert result.returncode == 75
    assert str(without_daemon.runtime_dir) in result.stderr
    assert "gpud serve" in result.stderr


def test_a_program_without_daemon_computes(without_daemon: Node, counter: list[str]) -> None:
    result = hooked(without_daemon, [*counter, "3", "2"])
    assert computed(result, 2), result
    assert result.stderr.count("\n") == 1
    assert f"no daemon at {without_daemon.runtime_dir}/hook.sock" in result.stderr
    assert "start `gpud serve`" in result.stderr


OTHER_VERSION = """
import sys
from gpud.hooks import wire
from gpud.control import wire as control
wire.VERSION_MIN = wire.VERSION_MAX = 9
control.VERSION = 9
from gpud.cli.main import main
sys.exit(main(["serve"]))
"""


def test_a_daemon_of_another_version(without_daemon: Node, counter: list[str]) -> None:
    node = without_daemon
    with subprocess.Popen([sys.executable, "-c", OTHER_VERSION], env=node.environment) as daemon:
        try:
            until((node.runtime_dir / "control.sock").exists, 60, "the daemon listens")
            result = gpud(node.environment, "run", "touch", node.directory / "ran")
            assert result.returncode == 125
            assert "another version" in result.stderr
            assert "gpud stop, then gpud serve" in result.stderr
            assert not (node.directory / "ran").exists()
            result = gpud(node.environment, "ps")
            assert result.returncode not in (0, 1)
            assert "version 9" in result.stderr
            result = hooked(node, [*counter, "3", "2"])
            assert computed(result, 2), result
            assert "version" in result.stderr
        finally:
            daemon.terminate()


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_socket_path_of_108_bytes(tmp_path: Path, words: list[str]) -> None:
    directory = str(tmp_path / "d").ljust(108 - len("/control.sock"), "d")
    result = gpud(os.environ | {"GPUD_RUNTIME_DIR": directory}, *words)
    assert result.returncode == 2
    assert f"{directory}/control.sock has 108 bytes" in result.stderr
    assert "107" in result.stderr
    assert "GPUD_RUNTIME_DIR to a shorter" in result.stderr
    assert not Path(directory).exists()


WITHOUT_XDG = """
mount -t tmpfs none /run || exit 1
"$@" serve --sim & daemon=$!
for try in $(seq 400); do "$@" status >/dev/null 2>&1 && break; done
"$@" run printenv GPUD_RUNTIME_DIR; echo "run $?"
"$@" stop; wait $daemon; echo "serve $?"
"""


def test_no_xdg_runtime_dir(without_daemon: Node) -> None:
    """Daemon and program find each other at the usual place; for root in a mount namespace with a /run of its own."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("needs root and mount namespaces: the usual place of others may hold a daemon of theirs")
    environment = dict(without_daemon.environment)
    del environment["GPUD_RUNTIME_DIR"]
    environment.pop("XDG_RUNTIME_DIR", None)
    command = ["unshare", "--mount", "sh", "-c", WITHOUT_XDG, "sh", sys.executable, "-m", "gpud.cli.main"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert result.stdout.splitlines()[0:2] == ["/run/gpud", "run 0"], result
    assert result.stdout.splitlines()[-1] == "serve 0"
    assert " at /run/gpud;" in result.stderr


GARBAGE = {
    "GPUD_DISABLE": "yes",
    "GPUD_LOG": "loud",
    "GPUD_RUNTIME_DIR": "here",
    "GPUD_SIM_DEVICES": "99",
    "GPUD_SIM_TIME_SCALE": "fast",
    "GPUD_SIM_NODE": "a b",
}


@pytest.mark.parametrize("words", [["run", "true"], ["serve", "--sim"]], ids=lambda words: words[0])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_in_a_variable(node: Node, name: str, words: list[str]) -> None:
    result = gpud(node.environment | {name: GARBAGE[name]}, *words)
    assert result.returncode == 2
    assert name in result.stderr
    assert repr(GARBAGE[name]) in result.stderr


def test_garbage_that_only_the_hook_sees(node: Node, counter: list[str]) -> None:
    result = hooked(node, ["env", "GPUD_LOG=loud", *counter, "3", "2"])
    assert computed(result, 2), result
    assert 'GPUD_LOG is "loud"' in result.stderr


@pytest.mark.parametrize(
    ("program", "code"), [("no-such-program", 127), ("./no-such-program", 127), ("/", 126), (__file__, 126)]
)
def test_a_program_that_is_not_there(node: Node, program: str, code: int) -> None:
    result = gpud(node.environment, "run", program)
    assert result.returncode == code
    assert program in result.stderr
    assert result.stderr.count("\n") == 2  # what, and what to do


BARE = "void _start(void) { for (;;) ; }"


@pytest.fixture(params=["setuid", "static", "32-bit"])
def unmanageable(request: pytest.FixtureRequest, tmp_path: Path, counter: list[str]) -> list[str]:
    """The command of a program that the loader would start without the hook."""
    copy = tmp_path / str(request.param)
    if request.param == "setuid":
        if os.geteuid() != 0:
            pytest.skip("only root can make a set-user-ID program of another user")
        shutil.copy(counter[0], copy)
        os.chown(copy, 65534, -1)
        copy.chmod(0o4755)
        return [str(copy), *counter[1:], "1", "1"]
    flags, code = (["-static"], "int main(void) { return 7; }") if request.param == "static" else (["-m32"], BARE)
    flags += ["-nostdlib", "-fno-pie", "-no-pie", "-static"] if request.param == "32-bit" else []
    build = subprocess.run(["cc", *flags, "-x", "c", "-", "-o", str(copy)], input=code, text=True, capture_output=True)
    if build.returncode != 0:
        pytest.skip(f"the compiler here makes no {request.param} programs: {build.stderr[:200]}")
    return [str(copy)]


def test_a_program_that_no_hook_can_be_loaded_into(node: Node, unmanageable: list[str]) -> None:
    result = gpud(node.environment, "run", *unmanageable)
    assert result.returncode == 125
    assert result.stdout == ""
    assert unmanageable[0] in result.stderr
    assert "gpud run --unmanaged" in result.stderr


def test_what_was_preloaded_before_is_kept(node: Node, counter: list[str], tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    code = '#include <stdio.h>\n__attribute__((constructor)) static void begin(void) { fputs("other\\n", stderr); }'
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(other)], input=code, text=True, check=True)
    environment = node.environment | {"LD_PRELOAD": str(other)}
    result = gpud(environment, "run", *counter, "3", "2")
    assert computed(result, 2), result
    assert "other\n" in result.stderr
    assert gpud(environment, "run", "printenv", "LD_PRELOAD").stdout == f"{HOOK}:{other}\n"


@pytest.mark.parametrize("label", ["online", "=online", "tier=a=b", "tier="])
def test_labels(node: Node, label: str) -> None:
    result = gpud(node.environment, "run", "--label", label, "echo", "ran")
    if label.startswith("tier="):
        assert (result.returncode, result.stdout) == (0, "ran\n")
    else:
        assert (result.returncode, result.stdout) == (2, "")
        assert f"--label {label!r}" in result.stderr
        assert "KEY=VALUE" in result.stderr


def test_an_unknown_class(node: Node) -> None:
    result = gpud(node.environment, "run", "--class", "gold", "echo", "ran")
    assert (result.returncode, result.stdout) == (77, "")
    assert "unknown class 'gold'" in result.stderr
    assert "high, low" in result.stderr


def test_a_second_daemon(node: Node) -> None:
    assert node.daemon is not None
    result = gpud(node.environment, "serve", "--sim")
    assert result.returncode == 125
    assert f"pid {node.daemon.pid}" in result.stderr
    assert str(node.runtime_dir) in result.stderr
    assert "gpud stop" in result.stderr
    assert gpud(node.environment, "run", "true").returncode == 0  # the first one has lost nothing
