"""What an allocation costs: `cuMemAlloc` with its `cuMemFree`, by the driver alone and under the hook, in the same run.

Three kinds of tenants. `unlimited`, whose allocations go to the driver, and `limited`, whose quota is kept, stand
above the stand-in driver, whose own allocation costs nothing: what is left is the hook's. `swappable`, whose memory
comes from the pool of chunks so that it can leave the device, is measured on the simulated GPU against the simulated
driver's own `cuMemAlloc`; there both pay for a device process that is asked.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from attrs import frozen

from bench.harness import NATIVE, own_policies, policy_file, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

PROFILE = "test-small"
SIZES_MIB = (1, 64)
SWAP = policy_file("arbitrate exclusive { max_hold = 60s  grace = 1s }\n  swap { tiers = [host(max = 2GiB)] }")
TIMES = 2.0
"""What a swappable allocation may cost, × the driver's own."""


@frozen(kw_only=True)
class Tenant:
    """One kind."""

    name: str
    files: Mapping[str, str]
    """Of the policy."""
    target_ns: float


ADDED = (
    Tenant(name="unlimited", files=policy_file("arbitrate open {}"), target_ns=200.0),
    Tenant(
        name="limited",
        files=policy_file("arbitrate open {}", "class all { match any  limit { memory = 8GiB } }"),
        target_ns=200.0,
    ),
)


def pair_ns(node: Node, binary: Path, mib: int, batches: int, count: int, *, managed: bool) -> tuple[float, float]:
    """The median over batches, and the first pair of all. Exits where nothing was measured."""
    job = node.run([str(word) for word in (binary, mib, batches, count)], managed=managed, stderr=subprocess.PIPE)
    out, err = job.communicate(timeout=120)
    if job.returncode:
        sys.exit(f"alloc: the program ended with {job.returncode}: {err.strip()[-500:]}")
    first, *means = map(float, out.split())
    return statistics.median(means), first


def added_rows(tenant: Tenant, binary: Path, count: int, runs: int) -> Iterator[Row]:
    """What the hook adds, above the stand-in driver."""
    with own_policies(tenant.files) as policies, standin_node("bench", policies, {"GPUD_OPTIONAL": "1"}) as node:
        direct, added = [], []
        for _ in range(runs):
            direct.append(pair_ns(node, binary, 1, 20, count, managed=False)[0])
            added.append(pair_ns(node, binary, 1, 20, count, managed=True)[0] - direct[-1])
    if tenant is ADDED[0]:
        yield row_of_runs("alloc_direct_ns", direct, "ns")
    yield row_of_runs(f"alloc_{tenant.name}_added_ns", added, "ns", tenant.target_ns)


def swappable_rows(binary: Path, count: int, runs: int) -> Iterator[Row]:
    """Of memory that can leave the device, against the simulated driver's own."""
    variables = {"GPUD_OPTIONAL": "1", "GPUD_SIM_PYTHON": sys.executable}
    with (
        own_policies(SWAP) as policies,
        Node(profile=PROFILE, policy="bench", policies=policies, environment=variables) as node,
    ):
        for mib in SIZES_MIB:
            direct, hooked = [], []
            for _ in range(runs):
                direct.append(pair_ns(node, binary, mib, 10, count, managed=False))
                hooked.append(pair_ns(node, binary, mib, 10, count, managed=True))
            for index, first in ((0, ""), (1, "_first")):
                own, mine = ([pair[index] / 1000 for pair in pairs] for pairs in (direct, hooked))
                ratios = [a / b for a, b in zip(mine, own, strict=True)]
                yield row_of_runs(f"alloc_direct_{mib}mib{first}_us", own, "µs")
                yield row_of_runs(f"alloc_swappable_{mib}mib{first}_us", mine, "µs")
                yield row_of_runs(f"alloc_swappable_{mib}mib{first}_ratio", ratios, "× the driver's own", TIMES)


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    quick = options.quick
    with program(NATIVE / "alloc.c") as binary:
        rows = [row for one in ADDED for row in added_rows(one, binary, 200 if quick else 5000, 1 if quick else 5)]
        rows += swappable_rows(binary, 10 if quick else 50, 1 if quick else 5)
    device = f"stand-in driver, no GPU (direct, unlimited, limited); simulated, profile {PROFILE} (_MIB rows)"
    emit("alloc", device, rows, options.json, rehearsal=quick)


if __name__ == "__main__":
    main()
