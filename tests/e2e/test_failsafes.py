"""The daemon is lost while high holds low: what low does then is what its policy says, whatever the dead have left in
their pages. On the simulated GPU."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpud.model.views import JobView
from gpud.testing.command import gpud
from gpud.testing.node import Node, until

pytestmark = pytest.mark.e2e

LEASE_S = 3.0
REFRESH_S = 1.0
"""It is renewed each second."""
AFTER_S = 0.6
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
        until(lambda: self.rounds > 2, 30, "low computes")
        self.high = self._run([*counter, ENDLESS], "online")
        until(lambda: self.job("batch").state == "held", 30, "low is held")
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


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    rows = "".join(POLICY.format(device=device, failsafe=failsafe) for device, failsafe in enumerate(FAILSAFES))
    (tmp_path / "p.gpol").write_text(f"gpol 1\n{rows}")
    environment = {"GPUD_SIM_DEVICES": str(len(FAILSAFES))}
    with Node(profile="test-small", policies=tmp_path, policy=None, environment=environment) as running:
        yield running


def test_each_failsafe_and_a_high_that_dies_while_the_daemon_is_down(node: Node, counter: list[str]) -> None:
    """What was set holds until the lease is over, and as long beyond it as the failsafe says: at once, for a while, for
    ever. The active word of a killed high stays set: a new daemon knows that it is dead."""
    opens, holds, closed = (Low(node, counter, device) for device in range(len(FAILSAFES)))
    assert node.daemon is not None
    node.daemon.kill()
    node.daemon.wait()
    killed = time.monotonic()
    os.killpg(closed.high.pid, signal.SIGKILL)
    closed.high.wait()
    until(lambda: opens.runs, LEASE_S + 1, "the lease is over")
    opened = time.monotonic()
    assert not holds.runs
    until(lambda: holds.runs, AFTER_S + 1, "its failsafe opens")
    later = time.monotonic()
    assert LEASE_S - REFRESH_S - 0.1 < opened - killed < LEASE_S + 0.2
    assert AFTER_S - 0.05 < later - opened < AFTER_S + 0.2
    here = opens.rounds
    until(lambda: opens.rounds > here + 20, 10, "it goes on as if there were no gate")
    assert not closed.runs
    node.start()
    until(lambda: closed.runs, 10, "the new daemon finds that high is dead")
    with node.client() as client:
        until(lambda: client.status().clients == 5, 10, "all who live are adopted")
        assert sum(job.job_class == "high" for job in client.ps()) == 2
    until(
        lambda: all(low.job("batch").state == "held" for low in (opens, holds)), 10, "high holds again where it lives"
    )
    held = [low.rounds for low in (opens, holds)]
    here = closed.rounds
    until(lambda: closed.rounds > here + 20, 10, "low is alone")
    assert [low.rounds for low in (opens, holds)] == held


def test_the_end_of_gpud_opens_what_a_failsafe_would_hold(node: Node, counter: list[str]) -> None:
    """`daemon_lost = closed` is about daemons that are lost; who is asked to stop lets go of everybody."""
    closed = Low(node, counter, 2)
    result = gpud(node.environment, "stop")
    assert (result.returncode, result.stdout) == (0, "stopped; the gates of 2 processes were opened\n")
    until(lambda: closed.runs, 2, "low goes on")
