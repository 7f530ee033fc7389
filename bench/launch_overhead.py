"""What the hook adds to a launch, attached to a live daemon, over an empty launch function.

Direct and hooked runs alternate, so that the machine's moods hit both. The activity page must have counted exactly the
launches made, else nothing was measured and the bench fails; so does a run in which a launch was held (a window that is
full looks at what is finished: that counts as held, and belongs to what is measured).
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bench.harness import NATIVE, PREEMPT, own_policies, policy_file, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from gpud.model.views import JobStats
from gpud.testing.node import Node, until

THREADS = (1, 2, 4)
BURST, SPIN_US_A_THREAD = 500, 6500
"""Where launches are charged, each costs 1 to 10 µs of GPU time by the stand-in's clock, and takes nanoseconds here."""


@frozen(kw_only=True)
class Variant:
    """One way in which the gate is set."""

    name: str
    files: Mapping[str, str]
    """Of the policy."""
    tier: str = "batch"
    higher: int = 0
    """Idle tenants ranked above."""
    charged: bool = False
    target_ns: tuple[float, ...]
    """For so many threads as THREADS says."""
    target_calls: float | None = None
    """Driver calls added to 1,000 launches."""


VARIANTS = (
    Variant(name="open", files=PREEMPT, tier="online", target_ns=(4.0, 5.0, 5.0)),
    Variant(
        name="budgeted",
        files=policy_file("arbitrate open {}\n  all.max_compute = 95%"),
        charged=True,
        target_ns=(8.0,) * 3,
    ),
    Variant(
        name="sampling",
        files=policy_file("arbitrate open {}\n  when all.busy > 99% for 1h { all.max_inflight = 1000 }"),
        charged=True,
        target_ns=(8.0,) * 3,
        target_calls=20.0,
    ),
    Variant(
        name="windowed",
        files=policy_file("arbitrate open {}\n  all.max_inflight = 16"),
        target_ns=(60.0,) * 3,
        target_calls=150.0,
    ),
    Variant(name="preempt4", files=PREEMPT, higher=4, target_ns=(8.0,) * 3),
    Variant(name="preempt16", files=PREEMPT, higher=16, target_ns=(12.0,) * 3),
)


@frozen(kw_only=True)
class Measured:
    """One process."""

    ns: float
    """CPU time of one call, the mean over its threads."""
    launches: int
    stats: JobStats | None
    """What the daemon knows of it; None: it ran without the hook."""


def measure(node: Node, binary: Path, variant: Variant, threads: int, launches: int, *, managed: bool) -> Measured:
    """Runs the loop once. Exits when the page tells another story than the program."""
    command = [str(binary), str(threads), str(launches)]
    if variant.charged:
        command += [str(BURST), str(SPIN_US_A_THREAD * threads)]
    job = node.run(command, managed=managed, labels={"tier": variant.tier}, stdin=subprocess.PIPE)
    assert job.stdout is not None
    result = json.loads(job.stdout.readline())
    stats = _stats(node, job.pid) if managed else None
    job.communicate("\n", timeout=20)
    if stats is not None and stats.launches != result["launches"]:
        sys.exit(
            f"launch_overhead: the activity page counts {stats.launches} launches, {result['launches']} were made: "
            "nothing was measured"
        )
    if stats is not None and stats.held and variant.name != "windowed":  # asking what is finished is part of a window
        sys.exit(f"launch_overhead: {variant.name}: {stats.held} launches were held: waiting was measured")
    return Measured(ns=statistics.mean(result["ns"]), launches=result["launches"], stats=stats)


def _stats(node: Node, pid: int) -> JobStats:
    with node.client() as client:
        return client.stats(client.job_of(pid).id)[0]


@contextmanager
def prepared(variant: Variant, binary: Path) -> Iterator[Node]:
    """A node with the variant's policy, and the tenants ranked above, which have launched something and are idle."""
    with own_policies(variant.files) as policies, standin_node("bench", policies) as node:
        above = [
            node.run([binary, "1", "1000"], labels={"tier": "online"}, stdin=subprocess.PIPE)
            for _ in range(variant.higher)
        ]
        for job in above:
            assert job.stdout is not None
            job.stdout.readline()
        with node.client() as client:
            until(lambda: all(job.state == "idle" for job in client.ps()), 10, "the higher tenants are idle")
        yield node


def rows_of(variant: Variant, binary: Path, threads: tuple[int, ...], runs: int, launches: int) -> Iterator[Row]:
    """Of one variant; those of the direct call come with the first one."""
    calls = []
    with prepared(variant, binary) as node:
        for count in threads:
            direct, added = [], []
            for _ in range(runs):
                direct.append(measure(node, binary, variant, count, launches, managed=False).ns)
                hooked = measure(node, binary, variant, count, launches, managed=True)
                added.append(hooked.ns - direct[-1])
                assert hooked.stats is not None
                calls.append(hooked.stats.calls / hooked.launches * 1000)
            if variant is VARIANTS[0]:
                yield row_of_runs(f"direct_{count}t_ns", direct, "ns")
            target = variant.target_ns[THREADS.index(count)]
            yield row_of_runs(f"{variant.name}_{count}t_added_ns", added, "ns", target)
    if variant.target_calls is not None:
        yield row_of_runs(f"{variant.name}_calls_per_1000", calls, "calls", variant.target_calls)


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    rows: list[Row] = []
    threads, runs = (THREADS[:2], 1) if options.quick else (THREADS, 5)
    with program(NATIVE / "launch_loop.c") as binary:
        for variant in VARIANTS:
            launches = 40_000 if variant.charged else 4_000_000
            rows += rows_of(variant, binary, threads, runs, launches)
    emit(
        "launch_overhead",
        "stand-in driver (an empty launch function), no GPU",
        rows,
        options.json,
        rehearsal=options.quick,
    )


if __name__ == "__main__":
    main()
