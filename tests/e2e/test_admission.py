"""Who is let in, with real programs: `gpud run` waits or ends with 77 or 124, a program that attaches by itself waits
in cuInit or gets CUDA_ERROR_SYSTEM_NOT_READY. And processes without gpud are found."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpud.native import native_dir, sim_dir
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e
PROFILE = "test-small"
ENDLESS = "100000000"
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
ONE = """gpol 1
policy "one" {
  class all { match any  limit { tenants = 1 } }
  arbitrate open {}
  ADMIT
}
apply "one" to gpu *
"""
QUEUE = "admit { when_full = queue(max = 300s) }"
SOON = "admit { when_full = queue(max = 300ms) }"


def node_of(directory: Path, admit: str) -> Node:
    (directory / "p.gpol").write_text(ONE.replace("ADMIT", admit))
    return Node(profile=PROFILE, policies=directory, policy=None)


def by_itself(node: Node, counter: Sequence[str], *more: str) -> subprocess.Popen[str]:
    """A program under the hook that no `gpud run` has started."""
    environment = dict(node.environment) | {
        "LD_PRELOAD": str(native_dir() / "libgpud_hook.so"),
        "LD_LIBRARY_PATH": str(sim_dir()),
    }
    return subprocess.Popen(
        [*counter, *more], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def attached(node: Node, count: int) -> None:
    def found() -> bool:
        with node.client() as client:
            return sum(len(job.pids) for job in client.ps() if job.state != "queued") == count

    until(found, PATIENCE_S, f"{count} processes are attached")


def queued(node: Node, count: int) -> None:
    def found() -> bool:
        with node.client() as client:
            return sum(job.state == "queued" for job in client.ps()) == count

    until(found, PATIENCE_S, f"{count} jobs are in line")


def test_a_job_that_is_refused_ends_with_77(counter: list[str], tmp_path: Path) -> None:
    with node_of(tmp_path, "") as node:
        node.run([*counter, ENDLESS])
        attached(node, 1)
        second = node.run([*counter, "1", "1"], stderr=subprocess.PIPE)
        _, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 77
        assert "refused by the policy: the class all has 1 job on device 0, as many as it may" in said


def test_a_job_waits_in_line_and_comes_in(counter: list[str], tmp_path: Path) -> None:
    with node_of(tmp_path, QUEUE) as node:
        first = node.run([*counter, ENDLESS])
        attached(node, 1)
        second = node.run([*counter, "1", "3"], stderr=subprocess.PIPE)
        queued(node, 1)
        with node.client() as client:
            (waits,) = [job for job in client.ps() if job.state == "queued"]
            assert waits.why is not None
            why = client.why(waits.id)
            assert why.hold is not None
            assert (why.job.id, why.hold.code, why.hold.text) == (waits.id, "admission", waits.why.text)
            assert f"({why.hold.by})" in why.hold.text
        third = node.run([*counter, "1", "1"], options=("--timeout", "1s"), stderr=subprocess.PIPE)
        _, said = third.communicate(timeout=PATIENCE_S)
        assert third.returncode == 124
        assert "was not let in within 1 s: the class all has 1 job on device 0" in said
        first.send_signal(signal.SIGTERM)
        out, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0
        assert out.count("ok\n") == 3
        assert said.startswith("gpud run: waits in line, for 5 min at most: the class all has 1 job on device 0")


def test_a_job_that_has_waited_long_enough_is_refused(counter: list[str], tmp_path: Path) -> None:
    with node_of(tmp_path, SOON) as node:
        node.run([*counter, ENDLESS])
        attached(node, 1)
        second = node.run([*counter, "1", "1"], stderr=subprocess.PIPE)
        _, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 77
        assert "it has waited for 300ms: the class all has 1 job" in said


def test_a_program_of_its_own_is_refused_by_cuinit(counter: list[str], tmp_path: Path) -> None:
    with node_of(tmp_path, "") as node:
        first = by_itself(node, counter, ENDLESS)
        try:
            attached(node, 1)
            second = by_itself(node, counter, "1", "1")
            out, said = second.communicate(timeout=PATIENCE_S)
            assert second.returncode != 0
            assert "ok" not in out
            assert "802" in said + out
            assert "gpud: the daemon refuses this program: the class all has 1 job on device 0" in said
        finally:
            first.kill()
            first.communicate()


def test_a_program_of_its_own_waits_in_cuinit(counter: list[str], tmp_path: Path) -> None:
    with node_of(tmp_path, QUEUE) as node:
        first = by_itself(node, counter, ENDLESS)
        try:
            attached(node, 1)
            second = by_itself(node, counter, "1", "3")
            queued(node, 1)
            attached(node, 1)
        finally:
            first.kill()
            first.communicate()
        out, said = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0
        assert out.count("ok\n") == 3
        assert "gpud: this program waits in line for 300 s at most: the class all has 1 job" in said


def test_processes_without_gpud_are_found(counter: list[str]) -> None:
    with Node(profile=PROFILE) as node:
        managed = node.run([*counter, ENDLESS])
        attached(node, 1)
        wild = node.run([*counter, ENDLESS], managed=False)

        def pids() -> list[int]:
            with node.client() as client:
                return [one.pid for one in client.unmanaged()]

        until(lambda: pids() == [wild.pid], PATIENCE_S, "it is shown")
        with node.client() as client:
            (device,) = client.status().devices
            (one,) = client.unmanaged()
            assert device.unmanaged == (one,)
            assert (one.device, one.uuid) == (0, device.uuid)
            assert counter[0] in one.command
            assert one.used_bytes
        until(lambda: f"process {wild.pid} " in node.log.read_text(), PATIENCE_S, "the journal has it")
        wild.kill()
        wild.wait()
        until(lambda: pids() == [], PATIENCE_S, "it is gone")
        assert node.log.read_text().count(f"process {wild.pid} ") == 1
        managed.terminate()
