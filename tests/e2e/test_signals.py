"""Signals of compute, measured of a real program on the simulated device: each moves a knob of its own."""

from pathlib import Path

import pytest

from gpud.testing.node import Node, until
from tests.e2e.test_enforced import slow

pytestmark = pytest.mark.e2e

RULES = {
    "a.busy > 20%": "max_inflight = 11",
    "a.block_rate > 500/s": "max_launch_rate = 11_000/s",
    "a.copy_rate > 100KiB/s": "max_block_rate = 11_000_000/s",
    "a.delay_p99 > 0ms": "max_inflight_time = 11ms",
    "gpu.busy > 20%": "max_compute = 91%",
    "gpu.power > 60 and gpu.temperature > 30": "max_copy_rate = 11GiB/s",
}
POLICY = """gpol 1
policy "p" {
  class a { match label("c") == "a" }
  class b { match any }
  arbitrate open {}
  RULES
}
apply "p" to gpu *
"""


def test_each_signal_of_compute_is_measured(counter: list[str], tmp_path: Path) -> None:
    rules = "\n".join(f"when {condition} for 50ms {{ b.{knob} }}" for condition, knob in RULES.items())
    (tmp_path / "p.gpol").write_text(POLICY.replace("RULES", rules))
    wanted = dict(knob.split(" = ") for knob in RULES.values())
    with Node(profile=slow(tmp_path), policies=tmp_path, policy=None) as node:
        node.run([*counter, "1", "0", "1000000000"], labels={"c": "b"})
        node.run([*counter, "8", "0"], labels={"c": "a"})

        def decided() -> dict[str, str]:
            with node.client() as client:
                jobs = [job for job in client.ps() if job.job_class == "b" and job.devices]
                devices = client.why(jobs[0].id).devices if jobs else ()
            return {knob.because.knob[2:]: knob.because.value for device in devices for knob in device.knobs}

        seen: dict[str, str] = {}

        def all_of_them() -> bool:
            seen.update({name: value for name, value in decided().items() if wanted.get(name) == value})
            return seen == wanted

        try:
            until(all_of_them, 60, "each rule holds")
        except TimeoutError:
            raise AssertionError(f"not measured: {sorted(set(wanted) - set(seen))}; {decided()}") from None

        def shown() -> bool:
            with node.client() as client:
                (job,) = [job for job in client.ps() if job.job_class == "a"]
            (time,) = job.time
            assert time.spent_ns > 0
            assert time.busy is not None
            return time.busy > 0.2

        until(shown, 60, "ps shows it, too")
