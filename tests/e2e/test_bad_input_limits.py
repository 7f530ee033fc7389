"""Limits that are reached: memory of the control group, open files, file sizes; a daemon that is stopped or cannot see
its clients. The real parts throughout; what a machine does not allow is skipped with the reason."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from gpud.model.errors import NoDaemon
from gpud.native import native_dir, sim_dir
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

Result = subprocess.CompletedProcess[str]
HOOK = native_dir() / "libgpud_hook.so"
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
ROUNDS_2 = "round 1 ok\nround 2 ok\n"
MEMORY_GROUPS = Path("/sys/fs/cgroup/memory")


class Counting:
    """A counter without end under `gpud run`, whose lines go to a file."""

    def __init__(self, node: Node, counter: Sequence[str], kernels: str = "3", tier: str = "batch") -> None:
        self.lines = node.directory / f"{tier}-{time.monotonic_ns()}.txt"
        with self.lines.open("w") as out:
            self.job = node.run([*counter, kernels, "0", "500"], labels={"tier": tier}, stdout=out)
        until(lambda: self.count > 0 or self.job.poll() is not None, PATIENCE_S, f"the first round of {tier}")
        assert self.job.poll() is None

    @property
    def count(self) -> int:
        return self.lines.read_text().count("ok\n")

    def goes_on(self, what: str) -> None:
        before = self.count
        until(lambda: self.count >= before + 2 or self.job.poll() is not None, PATIENCE_S, what)
        assert self.job.poll() is None, what


def hooked(node: Node, program: Sequence[str]) -> Result:
    """The program with the hook in it, without `gpud run`."""
    environment = node.environment | {"LD_PRELOAD": str(HOOK), "LD_LIBRARY_PATH": str(sim_dir())}
    return subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)


def daemon_pid(node: Node) -> int:
    assert node.daemon is not None
    return node.daemon.pid


@pytest.fixture
def node() -> Iterator[Node]:
    with Node(profile="a100-40gb") as started:
        yield started


@pytest.fixture
def memory_group() -> Iterator[Path]:
    """A control group whose memory can be limited."""
    group = MEMORY_GROUPS / f"gpud-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no memory control group (version 1) of our own can be made here: {error}")
    yield group
    until(lambda: not (group / "cgroup.procs").read_text(), PATIENCE_S, "the group is empty")
    group.rmdir()


def test_the_memory_of_the_daemons_group_is_full_at_attach(node: Node, counter: list[str], memory_group: Path) -> None:
    """No page can be had: the kernel may even kill the daemon. Who runs goes on; who comes is told what to do."""
    running = Counting(node, counter)
    (memory_group / "cgroup.procs").write_text(str(daemon_pid(node)))
    limit = memory_group / "memory.limit_in_bytes"
    limit.write_text("65536")
    result = gpud(node.environment, "run", *counter, "3", "2")
    if result.returncode == 0:
        assert result.stdout == ROUNDS_2
        assert result.stderr.startswith("gpud: the daemon at ")  # the job was taken, the pages could not be had
    else:
        assert result.returncode in (75, 125)
        assert "gpud serve" in result.stderr
        assert result.stdout == ""
    running.goes_on("the daemon's group has no memory")
    limit.write_text("-1")

    def managed_again() -> bool:
        if node.daemon is not None and node.daemon.poll() is not None:  # it may be dying still
            node.start()
        try:
            return _clients(node) == 1
        except NoDaemon:
            return False

    until(managed_again, PATIENCE_S, "the program is managed again")
    running.goes_on("managed again")
    assert gpud(node.environment, "run", *counter, "3", "2").stdout == ROUNDS_2


def test_the_daemon_has_no_descriptor_left(node: Node, counter: list[str]) -> None:
    pid = daemon_pid(node)
    running = Counting(node, counter)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    first_free = next(number for number in range(len(used) + 1) if number not in used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (first_free, before[1]))
    try:
        result = gpud(node.environment, "run", *counter, "3", "2")
        assert (result.returncode, result.stdout) == (125, "")
        assert "limit of open files" in result.stderr
        result = hooked(node, [*counter, "3", "2"])
        assert (result.returncode, result.stdout) == (0, ROUNDS_2)
        assert "open files" in result.stderr
        running.goes_on("the daemon has no descriptor left")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    assert gpud(node.environment, "run", *counter, "3", "2").stdout == ROUNDS_2


@pytest.mark.parametrize("files", ["6", "8", "12", "16", "24"])
def test_a_program_with_few_descriptors(node: Node, counter: list[str], files: str) -> None:
    """It computes without gpud, or the simulated driver answers an error: in either case in words."""
    gpud(node.environment, "run", *counter, "1", "1")
    result = hooked(node, ["prlimit", f"--nofile={files}", *counter, "3", "2"])
    if result.returncode == 0:
        assert result.stdout == ROUNDS_2
    else:
        assert (result.returncode, result.stdout) == (1, "")
    if result.returncode != 0 or result.stderr:
        assert "ulimit -n" in result.stderr
    if files == "24":
        assert (result.returncode, result.stderr) == (0, "")


def test_ulimit_f_0(node: Node, counter: list[str], tmp_path: Path) -> None:
    """A program that is compiled already runs and is managed; one that is not gets an error, and no signal."""
    limited = ["prlimit", "--fsize=0", *counter, "3", "2"]
    assert gpud(node.environment, "run", *counter, "3", "2").stdout == ROUNDS_2
    result = gpud(node.environment, "run", *limited)
    assert (result.returncode, result.stdout, result.stderr) == (0, ROUNDS_2, "")
    result = gpud(node.environment | {"GPUD_SIM_CACHE": str(tmp_path / "new")}, "run", *limited)
    assert (result.returncode, result.stdout) == (1, "")
    assert "ulimit -f" in result.stderr
    assert "cuModuleLoadData answered" in result.stderr
    here = Node()
    result = subprocess.run(
        ["prlimit", "--fsize=0", sys.executable, "-m", "gpud.cli.main", "serve"],
        env=here.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    here.close()
    assert result.returncode == 125
    assert "ulimit -f" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_daemon_in_a_pid_namespace_of_its_own(node: Node, counter: list[str]) -> None:
    inside = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("PID namespaces are not allowed here")
    daemon_process = psutil.Process(daemon_pid(node))
    daemon_process.terminate()
    assert node.daemon is not None
    node.daemon.wait(PATIENCE_S)
    command = [*inside, sys.executable, "-m", "gpud.cli.main", "serve"]
    with subprocess.Popen(command, env=node.environment, stderr=subprocess.DEVNULL) as daemon:
        try:
            until((node.runtime_dir / "control.sock").exists, PATIENCE_S, "the daemon listens")
            result = gpud(node.environment, "run", "echo", "ran")
            assert (result.returncode, result.stdout) == (125, "")
            assert "PID namespace of its own" in result.stderr
            assert "--pid=host" in result.stderr
            result = hooked(node, [*counter, "3", "2"])
            assert (result.returncode, result.stdout) == (0, ROUNDS_2)
            assert "--pid=host" in result.stderr
        finally:
            for child in psutil.Process(daemon.pid).children():
                child.terminate()
            daemon.wait(PATIENCE_S)


def test_a_daemon_that_does_not_read(node: Node, counter: list[str]) -> None:
    """Stopped past its lease: who runs goes on, who comes is told; once it goes on, all are managed."""
    jobs = [Counting(node, counter, tier=tier) for tier in ("online", "batch")]
    pid = daemon_pid(node)
    os.kill(pid, signal.SIGSTOP)
    stopped = time.monotonic()
    try:
        result = gpud(node.environment, "run", "--timeout", "300ms", "echo", "ran")
        assert (result.returncode, result.stdout) == (124, "")
        assert f"{node.runtime_dir}/hook.sock did not answer within 0.3 s" in result.stderr
        assert "gpud status" in result.stderr
        result = hooked(node, [*counter, "3", "2"])
        assert (result.returncode, result.stdout) == (0, ROUNDS_2)
        assert "does not answer" in result.stderr
        until(lambda: time.monotonic() > stopped + 4, PATIENCE_S, "the lease of 3 s is over")
        for job in jobs:
            job.goes_on("the daemon is stopped")
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: _clients(node) == 2, PATIENCE_S, "both are managed")
    for job in jobs:
        job.goes_on("the daemon goes on")
    assert gpud(node.environment, "run", "echo", "ran").stdout == "ran\n"


def _clients(node: Node) -> int:
    with node.client() as client:
        return client.status().clients
