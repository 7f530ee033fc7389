"""kill -9 at random instants: the other program goes on with right results, and nothing is left behind.

TEST_KILLS and TEST_SEED set how many and which; the seed is printed.
"""

import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest

from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

KILLS = int(os.environ.get("TEST_KILLS", "30"))
SEED = int(os.environ.get("TEST_SEED", str(random.SystemRandom().randrange(1 << 31))))
PATIENCE_S = 60
"""What is waited for comes in a moment, or never."""
CONTEXT_BYTES = 418 << 20
CLASSES = ({"tier": "online"}, {"tier": "batch"})


class Rounds:
    """Counts the `round N ok` lines of a counter; its pipe is always read, so that it never waits for us."""

    def __init__(self, job: "subprocess.Popen[str]") -> None:
        self.job = job
        self.count = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.job.stdout is not None
        for line in self.job.stdout:
            assert line.endswith("ok\n"), line
            self.count += 1

    def close(self) -> None:
        self.job.wait()
        self._thread.join(10)


def program_of(job: "subprocess.Popen[str]") -> psutil.Process | None:
    """The program below a `gpud run`, once it is there."""
    try:
        children = psutil.Process(job.pid).children()
    except psutil.NoSuchProcess:
        return None
    return children[0] if children else None


def shared_memory() -> set[str]:
    """Files of gpud's: others may come and go there meanwhile, and directories for temporary files lie there, too."""
    return {path.name for path in Path("/dev/shm").iterdir() if path.is_file() and "gpud" in path.name}


def goes_on(rounds: Rounds, what: str) -> None:
    """It computes at least two more rounds, and has not ended."""
    here = rounds.count
    until(lambda: rounds.count >= here + 2 or rounds.job.poll() is not None, PATIENCE_S, what)
    assert rounds.job.poll() is None, f"{what}: it ended with {rounds.job.returncode}"


def test_kill_of_either_program_leaves_the_other_and_nothing_behind(counter: list[str]) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    before = shared_memory()
    with Node(profile="a100-40gb") as node:
        nothing = _used_bytes(node)
        jobs = [Rounds(node.run([*counter, "3", "0", "500"], labels=labels)) for labels in CLASSES]
        for rounds in jobs:
            until(lambda rounds=rounds: rounds.count >= 1, PATIENCE_S, "the first round")
        # the daemon asks the driver again only now and then; a context alone takes 418 MiB in this profile
        used = until(
            lambda: _used_at_least(node, nothing + 2 * CONTEXT_BYTES), PATIENCE_S, "both programs' memory is in use"
        )
        for kill in range(KILLS):
            victim = dice.randrange(2)
            survivor = jobs[1 - victim]
            program = until(lambda job=jobs[victim].job: program_of(job), PATIENCE_S, "the program runs")
            threading.Event().wait(dice.random() * 0.08)  # a random instant of its life, also of its start
            whole = dice.random() < 0.5
            program.send_signal(signal.SIGKILL)
            if whole:
                jobs[victim].job.kill()
            jobs[victim].close()
            goes_on(survivor, f"kill {kill} of the {'high' if victim == 0 else 'low'} program (seed {SEED})")
            jobs[victim] = Rounds(node.run([*counter, "3", "0", "500"], labels=CLASSES[victim]))
        for rounds in jobs:
            goes_on(rounds, "both at the end")
        most = used + CONTEXT_BYTES // 2  # the driver may have been asked before the second one had all of its own
        until(lambda: 0 < _used_bytes(node) <= most, PATIENCE_S, f"device memory is what two programs need ({used})")
        with node.client() as client:
            assert client.status().clients == 2
        for rounds in jobs:
            rounds.job.terminate()
            rounds.close()
        until(lambda: _used_bytes(node) == nothing, PATIENCE_S, "no device memory is in use")
        name = node.name
    until(lambda: not _device_process(name), PATIENCE_S, "the device process ends with its last client")
    assert shared_memory() <= before


def test_kill_of_the_daemon_and_a_new_one_adopts(counter: list[str]) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    with Node(profile="a100-40gb") as node:
        jobs = [Rounds(node.run([*counter, "3", "0", "500"], labels=labels)) for labels in CLASSES]
        for rounds in jobs:
            until(lambda rounds=rounds: rounds.count >= 1, PATIENCE_S, "the first round")
        with node.client() as client:
            names = sorted((job.id, job.job_class) for job in client.ps())
        for kill in range(max(KILLS // 6, 3)):
            threading.Event().wait(dice.random() * 0.2)
            assert node.daemon is not None
            node.daemon.kill()
            node.daemon.wait()
            for rounds in jobs:
                goes_on(rounds, f"without a daemon, kill {kill} (seed {SEED})")
            node.start()
            until(lambda: _clients(node) == 2, PATIENCE_S, "the new daemon has adopted both")
            for rounds in jobs:
                goes_on(rounds, f"adopted, kill {kill} (seed {SEED})")
        with node.client() as client:
            assert sorted((job.id, job.job_class) for job in client.ps()) == names
        for rounds in jobs:
            rounds.job.terminate()
            rounds.close()


def _clients(node: Node) -> int:
    with node.client() as client:
        return client.status().clients


def _used_bytes(node: Node) -> int:
    """Device memory in use, by the (simulated) driver's account of all processes."""
    with node.client() as client:
        used = client.status().devices[0].used_bytes
    assert used is not None
    return used


def _used_at_least(node: Node, least: int) -> int | None:
    used = _used_bytes(node)
    return used if used >= least else None


def _device_process(name: str) -> bool:
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if command and "gpud-sim-device" in command[0] and name in command:
            return True
    return False
