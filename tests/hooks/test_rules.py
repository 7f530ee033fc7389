"""What a hook writes into its pages is what a rule sees, and what a rule sets is what another hook reads: no fakes in
between."""

import struct
from pathlib import Path

import pytest

from gpud.engine.publish import GATE_PAUSED, GATE_WINDOW
from gpud.hooks import layout
from gpud.testing.fake_hook import FakeHook
from tests.hooks.conftest import Node, open_node, until

POLICY = """gpol 1
policy "preempt-mix" {{
  class high {{ match label("tier") == "online" }}
  class low  {{ match any }}
  arbitrate preempt {{ order = [high, low]  resume_after = 1ms }}
  {rules}
}}
"""


def gate(hook: FakeHook) -> int:
    return hook.gate(0).gate


def histogram(hook: FakeHook, bucket: int, count: int) -> None:
    assert hook.activity is not None
    offset = layout.activity_device_offset(0) + layout.ACTIVITY_DEVICE_HEAD.size + 8 * bucket
    struct.pack_into("<Q", hook.activity, offset, count)


async def pair(node: Node) -> tuple[FakeHook, FakeHook]:
    return await node.attach(online=True), await node.attach(online=False)


async def test_launches_that_wait_pause_another_job_and_let_it_go_again(tmp_path: Path) -> None:
    rules = 'when high.queued > 1 because "high waits" { low.pause = true }'
    async with open_node(tmp_path, policy=POLICY.format(rules=rules)) as node:
        high, low = await pair(node)
        assert not gate(low) & GATE_PAUSED
        high.set_slot(0, holding=1, hold_since_ns=1)
        high.set_slot(0, 1, holding=1, hold_since_ns=1)
        await until(lambda: gate(low) & GATE_PAUSED, "low is paused")
        assert not gate(high) & GATE_PAUSED
        high.set_slot(0, 1, holding=0)
        await until(lambda: not gate(low) & GATE_PAUSED, "low goes on")


@pytest.mark.parametrize(
    ("rule", "act"),
    [
        ("high.active", lambda hook: hook.set_active(0, True)),
        ("high.active", lambda hook: hook.set_active(0, True, tell=False)),
        ("high.launch_rate > 1000/s", lambda hook: hook.set_slot(0, entered=1_000_000, left=1_000_000)),
        ("high.wait_p99 > 10ms", lambda hook: (histogram(hook, 15, 100), hook.set_slot(0, entered=100, left=100))),
        ("high.idle_for < 10s", lambda hook: (hook.set_active(0, True), hook.set_active(0, False))),
    ],
)
async def test_each_signal_from_the_page_to_the_gate(tmp_path: Path, rule: str, act: object) -> None:
    rules = f"when {rule} {{ low.max_inflight = 3 }}"
    async with open_node(tmp_path, policy=POLICY.format(rules=rules)) as node:
        high, low = await pair(node)
        before = node.engine.ticks
        await until(lambda: node.engine.ticks > before + 4, "the policy has looked several times")
        assert not gate(low) & GATE_WINDOW
        assert callable(act)
        act(high)
        await until(lambda: gate(low) & GATE_WINDOW, f"the window of low, since {rule}")
        assert low.gate(0).max_inflight == 3
