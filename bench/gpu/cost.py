"""GPU time that gpud charges against the truth, per kind of work.

Truth, alone: the profiler's (CUPTI's) sum over all kernels, copies and fills; for kinds that never leave the device
idle also the number of steps times what one takes without gpud, by two events. Beside another job a kernel's own
duration includes the other one's time slices, so there it is that alone.
"""

import time
from typing import Any

from bench.gpu.place import Parts, Place, all_ready, alone, options_of, place, same, together
from bench.report import Row
from gpud.testing.node import Node, until
from gpud.testing.talk import Talk, stats_of

KINDS = ("small", "long", "graph", "varied")
BUSY = ("long", "graph")
"""Kinds that never leave the device idle, so that two events around their steps, without gpud, say what they take."""
SIM_KINDS = ("small", "long")
WARM_STEPS = 60
"""Steps from which costs are learned before anything is compared."""
MOST_PROFILED = {"small": 100}
"""Steps under the profiler, whose trace has a line for each kernel."""
SETTLED_S = 0.1
TARGET_CLEAN, TARGET_SHARED = 5.0, 15.0


def main() -> None:
    options = options_of(__doc__ or "", seconds=2.0)
    parts = Parts("cost", options)
    with place(options) as here, parts.part("cost"), here.node("share-equal") as node:
        measure(here, node, parts)
    parts.end()


def measure(here: Place, node: Node, parts: Parts) -> None:
    """All rows."""
    job = here.job(node, "it", {"job": "it"})
    other = here.job(node, "other", {"job": "other"})
    measuring = here.job(node, "measuring", managed=False)
    parts.device = all_ready([job, other, measuring])
    step_ms = {}
    for kind in SIM_KINDS if here.simulated else KINDS:
        with parts.part(kind):
            step_ms[kind] = same([measuring, job], kind)
            count = max(20, round(here.seconds * 1e3 / max(step_ms[kind], 0.01)))
            alone(job, "steps", kind=kind, count=max(WARM_STEPS, count // 10))
            if kind in BUSY or here.simulated:
                charge, _ = charged(node, job, "steps", kind=kind, count=count)
                row = error_row(f"cost_{kind}_events_error_percent", charge, count * step_ms[kind], TARGET_CLEAN)
                parts.rows.append(row)
            if not here.simulated:
                parts.rows += profiled(node, job, kind, min(count, MOST_PROFILED.get(kind, 2000)))
            alone(job, "check", kind=kind)
    with parts.part("shared"):
        kind = "small" if here.simulated else "graph"
        same([measuring, other], "long")
        parts.rows.append(shared(here, node, job, other, kind, step_ms[kind]))


def charged(node: Node, job: Talk, order: str, **words: Any) -> tuple[float, dict[str, Any]]:
    """ms charged for an order, and its answer."""
    before = spent_ms(node, job)
    answer = alone(job, order, **words)
    return spent_ms(node, job) - before, answer


def spent_ms(node: Node, job: Talk) -> float:
    """What an idle job has been charged: once it stands still, since what was drawn and not used is given back."""
    seen, since = -1, 0.0

    def stands() -> bool:
        nonlocal seen, since
        now = stats_of(node, job.name).spent_ns
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > SETTLED_S

    until(stands, 10, f"{job.name}, idle, is charged nothing more", step=0.02)
    return seen / 1e6


def profiled(node: Node, job: Talk, kind: str, count: int) -> list[Row]:
    """The row against CUPTI; none where the profiler sees nothing, which is no fault of the charge."""
    charge, answer = charged(node, job, "profiled", kind=kind, count=count)
    if answer["device_ms"] <= 0:
        print(f"{kind}: the profiler saw nothing on the device")
        return []
    return [error_row(f"cost_{kind}_cupti_error_percent", charge, answer["device_ms"], TARGET_CLEAN)]


def shared(here: Place, node: Node, job: Talk, other: Talk, kind: str, step_ms: float) -> Row:
    """Two jobs at once."""
    before = spent_ms(node, job)
    orders = [(one, "train", {"kind": what, "seconds": here.seconds}) for one, what in ((job, kind), (other, "long"))]
    did = together(orders)[0]
    charge = spent_ms(node, job) - before
    return error_row("cost_shared_error_percent", charge, len(did["ends"]) * step_ms, TARGET_SHARED)


def error_row(name: str, charge_ms: float, truth_ms: float, target: float) -> Row:
    """|charged − truth| ÷ truth."""
    print(f"{name}: charged {charge_ms:.1f} ms of {truth_ms:.1f} ms")
    return Row(name=name, value=100 * abs(charge_ms - truth_ms) / truth_ms, unit="%", target=target)


if __name__ == "__main__":
    main()
