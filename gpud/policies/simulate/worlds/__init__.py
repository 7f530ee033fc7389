"""Worlds close the loop: they answer to what a policy decides, so that its effect on itself can be tested.

Noise-free and deterministic. `simulate name(…)` in a test begins one, `world.x = v` pokes it, `world.y` can be read.
"""

from gpud.policies.schema import UNLIMITED
from gpud.policies.simulate.worlds.kind import MOST, Setup, World, WorldKind, WorldParameter
from gpud.policies.types import Type

__all__ = ["WORLDS", "Setup", "World", "WorldKind", "WorldParameter", "begin_world"]

_CONTENTION = WorldKind(
    name="contention",
    doc="two classes launch on one device without a gate; above its capacity both get less, in proportion",
    parameters=(
        WorldParameter("capacity", Type.RATE, None, "launches a second that the device can do"),
        WorldParameter("high_demand", Type.RATE, None, "launches a second that `high` wants"),
        WorldParameter("low_demand", Type.RATE, None, "launches a second that `low` wants"),
        WorldParameter("blocks", Type.NUMBER, 1, "thread blocks of each launch"),
        WorldParameter("depth", Type.NUMBER, 1024, "launches that `low` submits ahead while no window holds it"),
        WorldParameter("misjudged", Type.NUMBER, 1, "how many times what gpud thinks each launch takes"),
        WorldParameter("high", Type.CLASS, "high", "the class that must not be hurt"),
        WorldParameter("low", Type.CLASS, "low", "the class that takes what is left"),
    ),
    of_member=None,
    of_member_most=0,
    of_member_doc="",
    readings=(),
    modes=frozenset({"open", ""}),
    heeds=frozenset({"pause", "max_launch_rate", "max_block_rate", "max_compute", "max_inflight", "max_inflight_time"}),
    measures=("launch_rate", "block_rate", "busy", "delay_p99", "active", "idle_for", "tenants"),
    measures_more=("gpu.busy",),
)
_MEMORY = WorldKind(
    name="memory",
    doc="classes that hold device memory, which comes free when their residency is not `device`",
    parameters=(
        WorldParameter("total", Type.BYTES, None, "device memory"),
        WorldParameter("host", Type.BYTES, 64 * 2**30, "free host memory while nobody is out"),
        WorldParameter("swap", Type.BANDWIDTH, UNLIMITED, "how fast memory moves out and in"),
    ),
    of_member=Type.BYTES,
    of_member_most=MOST,
    of_member_doc="memory that it wants",
    readings=(),
    modes=frozenset({"", "open", "preempt", "share", "exclusive"}),
    heeds=frozenset({"residency"}),
    measures=("memory_used",),
    measures_more=("gpu.memory_total", "gpu.memory_free", "host.memory_free"),
)
_SHARES = WorldKind(
    name="shares",
    doc="who gets how much GPU time of what he wants; `limit { compute }` holds",
    parameters=(),
    of_member=Type.RATIO,
    of_member_most=1,
    of_member_doc="GPU time that it wants",
    readings=(),
    modes=frozenset({"share", "open", ""}),
    heeds=frozenset({"pause", "share", "max_compute"}),
    measures=("busy", "active", "idle_for"),
    measures_more=("gpu.busy",),
)
_TURNS = WorldKind(
    name="turns",
    doc="jobs that want the device all the time and take turns with its lock",
    parameters=(WorldParameter("late", Type.DURATION, 0, "how long an owner still works once it is asked back"),),
    of_member=Type.NUMBER,
    of_member_most=1000,
    of_member_doc="jobs of it that want the device",
    readings=(
        ("turns", Type.NUMBER, "turns begun so far"),
        ("turn", Type.DURATION, "length of the present turn so far"),
        ("last_turn", Type.DURATION, "length of the turn before"),
        ("overrun", Type.DURATION, "how long the owner is late, after its grace"),
        ("ended", Type.NUMBER, "jobs ended for that so far"),
    ),
    modes=frozenset({"exclusive"}),
    heeds=frozenset({"pause", "max_hold", "max_overrun"}),
    measures=("waiters", "longest_wait", "active", "idle_for"),
    measures_more=("gpu.waiters",),
)

WORLDS = {kind.name: kind for kind in (_CONTENTION, _MEMORY, _SHARES, _TURNS)}
"""What they are called, and what they say of themselves."""


def begin_world(kind: WorldKind, setup: Setup) -> World:
    """A running one. Only here it is imported: `check` needs none."""
    if kind is _CONTENTION:
        from gpud.policies.simulate.worlds.contention import Contention

        return Contention.begin(setup)
    if kind is _MEMORY:
        from gpud.policies.simulate.worlds.memory import Memory

        return Memory.begin(setup)
    if kind is _SHARES:
        from gpud.policies.simulate.worlds.shares import Shares

        return Shares.begin(setup)
    from gpud.policies.simulate.worlds.turns import Turns

    return Turns.begin(setup)
