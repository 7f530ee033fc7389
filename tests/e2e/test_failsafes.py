"""The daemon is lost while high holds low: what low does then is what its policy says, whatever the dead have left in
their pages. On the simulated GPU."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpud.cli.sim.devicelog import DeviceLog, read_log
from gpud.model.views import JobView
from gpud.testing.measured import Bounds, measured
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

LEASE_S = 3.0
REFRESH_S = 1.0
"""It is renewed each second."""
AFTER_S = 0.6
PATIENCE_S = 60
"""What is waited for comes in seconds, or never."""
ENDLESS = "100000000"
FAILSAFES = ("daemon_lost = open", f"daemon_lost = hold  after = {AFTER_S * 1000:.0f}ms", "daemon_lost = closed")
"""By device."""
POLICY = """policy "p{device}" {{
  class high {{ match label("tier") == "online" }}
  class low  {{ match any }}
  arbitrate preempt {{ order = [high, low]  resume_after = 1ms  max_pause = unlimited }}
  failsafe {{ {failsafe} }}
}}
apply "p{device}" to gpu {device}
"""


class Low:
    """Counts rounds on one device, and is held by a high that never synchronises."""

    def __init__(self, node: Node, counter: Sequence[str], device: int) -> None:
        self._node, self._device = node, str(device)
        self._lines = node.directory / f"low-{device}.txt"
        with self._lines.open("w") as out:
            self._low = self._run([*counter, "1", "0"], "batch", out)
        until(lambda: self.rounds > 2, PATIENCE_S, "low computes")
        self.high = self._run([*counter, ENDLESS], "online")
        until(lambda: self.job("batch").state == "held", PATIENCE_S, "low is held")
        (self.pid,) = self.job("batch").pids
        self.held = self.rounds

    def _run(self, command: Sequence[str], tier: str, out: object = subprocess.DEVNULL) -> "subprocess.Popen[str]":
        options = ["--gpu", self._device]
        labels = {"tier": tier, "on": self._device}
        return self._node.run(command, labels=labels, options=options, stdout=out)  # type: ignore[arg-type]

    @property
    def rounds(self) -> int:
        assert self._low.poll() is None, "low has ended"
        return self._lines.read_text().count("ok\n")

    @property
    def runs(self) -> bool:
        return self.rounds > self.held

    def job(self, tier: str) -> JobView:
        with self._node.client() as client:
            jobs = client.ps()
        return next(job for job in jobs if job.labels == {"tier": tier, "on": self._device})


def three_devices(directory: Path) -> Node:
    rows = "".join(POLICY.format(device=device, failsafe=failsafe) for device, failsafe in enumerate(FAILSAFES))
    (directory / "p.gpol").write_text(f"gpol 1\n{rows}")
    environment = {"GPUD_SIM_DEVICES": str(len(FAILSAFES))}
    return Node(profile="test-small", policies=directory, policy=None, environment=environment)


def test_each_failsafe_and_a_high_that_dies_while_the_daemon_is_down(counter: list[str], tmp_path: Path) -> None:
    """What was set holds until the lease is over, and as long beyond it as the failsafe says: at once, for a while, for
    ever. The active word of a killed high stays set: a new daemon knows that it is dead."""

    def attempt(bounds: Bounds) -> None:
        with three_devices(tmp_path) as node:
            _lost(node, counter, bounds)

    measured(attempt)


def _lost(node: Node, counter: Sequence[str], bounds: Bounds) -> None:
    opens, holds, closed = (Low(node, counter, device) for device in range(len(FAILSAFES)))
    assert node.daemon is not None
    killed = time.monotonic_ns()
    node.daemon.kill()
    node.daemon.wait()
    os.killpg(closed.high.pid, signal.SIGKILL)
    closed.high.wait()
    until(lambda: opens.runs, PATIENCE_S, "the lease is over")
    until(lambda: holds.runs, PATIENCE_S, "its failsafe opens")
    here = opens.rounds
    until(lambda: opens.rounds > here + 20, PATIENCE_S, "it goes on as if there were no gate")
    assert not closed.runs
    node.start()
    until(lambda: closed.runs, PATIENCE_S, "the new daemon finds that high is dead")
    with node.client() as client:
        until(lambda: client.status().clients == 5, PATIENCE_S, "all who live are adopted")
        assert sum(job.job_class == "high" for job in client.ps()) == 2
    until(
        lambda: all(low.job("batch").state == "held" for low in (opens, holds)),
        PATIENCE_S,
        "high holds again where it lives",
    )
    held = [low.rounds for low in (opens, holds)]
    here = closed.rounds
    until(lambda: closed.rounds > here + 20, PATIENCE_S, "low is alone")
    assert [low.rounds for low in (opens, holds)] == held
    node.stop()
    until(lambda: read_log(node.device_log).complete, PATIENCE_S, "the device process ends")
    log = read_log(node.device_log)
    opened, later = (_next_s(log, killed, low.pid) for low in (opens, holds))
    bounds.least(opened, (LEASE_S - REFRESH_S) / 2, "s that what was set holds after the daemon's death")
    bounds.least(later - opened, AFTER_S / 2, "s that its failsafe holds, and no longer does the other's")


def _next_s(log: DeviceLog, since_ns: int, pid: int) -> float:
    """From then to what it submits next."""
    since = log.model_ns(since_ns)
    return (min(one.submit_ns for one in log.kernels if one.pid == pid and one.submit_ns > since) - since) / 1e9
