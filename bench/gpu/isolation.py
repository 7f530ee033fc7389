"""A service's latency beside other work on the same device, as a multiple of its latency alone.

Without gpud (the driver's time slices, or MPS where a daemon of it runs) and under `preempt-mix`, each in the same
run. Requests arrive at random whether or not the one before is done; their latency counts from the arrival. What low
gets is compared with what high leaves: its own rate alone times the share of time in which no request is at work.
"""

import statistics
from typing import Any

from bench.gpu.place import Parts, Place, all_ready, alone, options_of, place, same, together
from bench.report import Row
from gpud.testing.node import Node

POLICY = "preempt-mix(quiet = 1ms, work = 500us, patience = unlimited)"
"""Low's window is 5 % of a request."""
GAP_MS = 30.0
CONTENDERS = {"smallkernel": "small", "longkernel": "long", "graph": "graph", "service": "service"}
BESIDE_GAP_MS = 25.0
"""Of the second service."""


def main() -> None:
    options = options_of(__doc__ or "", seconds=6.0)
    with place(options) as here, here.node(POLICY) as node:
        parts = Parts("isolation", options)
        measure(here, node, parts)
    parts.end()


def measure(here: Place, node: Node, parts: Parts) -> None:
    """All rows."""
    high = [here.job(node, "high", {"tier": "online"}, managed=managed) for managed in (False, True)]
    low = [here.job(node, "low", {"tier": "batch"}, managed=managed) for managed in (False, True)]
    parts.device = all_ready([*high, *low])
    contenders = {name: kind for name, kind in CONTENDERS.items() if not here.simulated or kind != "graph"}
    request_ms = same(high, "service")
    for kind in contenders.values():
        same(low, kind)
    serve = {"kind": "service", "seconds": here.seconds, "gap_ms": GAP_MS, "seed": 1}
    undisturbed = [latencies(alone(job, "serve", **serve)) for job in high]
    parts.rows = [
        Row(name="isolation_alone_p50_ms", value=undisturbed[0][0], unit="ms"),
        Row(name="isolation_alone_p99_ms", value=undisturbed[0][1], unit="ms"),
        Row(name="isolation_alone_hooked_p50_ratio", value=undisturbed[1][0] / undisturbed[0][0], unit="× alone"),
    ]
    for name, kind in contenders.items():
        with parts.part(name):
            whole = None if kind == "service" else rate(alone(low[0], "train", kind=kind, seconds=2.0))
            for managed, policy in ((False, here.sharing), (True, "preempt")):
                asked = [(high[managed], "serve", serve), (low[managed], *beside_order(kind, here.seconds))]
                served, worked = together(asked)
                parts.rows += high_rows(f"isolation_{name}_{policy}", kind, managed, latencies(served), undisturbed[0])
                if whole:
                    busy = len(served["latencies_ms"]) * request_ms / 1e3 / here.seconds
                    left = 100 * rate(worked) / (whole * max(1 - busy, 0.01))
                    parts.rows.append(low_row(f"isolation_{name}_{policy}", kind, managed, left))


def high_rows(name: str, kind: str, managed: bool, found: tuple[float, float], base: tuple[float, float]) -> list[Row]:
    """Of the service. A target only where low's kernels fit into its window."""
    target = 1.10 if managed and kind in ("small", "service") else None
    return [
        Row(name=f"{name}_{which}_ratio", value=value / of, unit="× alone", target=target)
        for which, value, of in zip(("p50", "p99"), found, base, strict=True)
    ]


def low_row(name: str, kind: str, managed: bool, percent: float) -> Row:
    """Of what works beside it."""
    target = 85.0 if managed and kind == "small" else None
    return Row(name=f"{name}_low_percent", value=percent, unit="% of what is idle", target=target, better="higher")


def beside_order(kind: str, seconds: float) -> tuple[str, dict[str, Any]]:
    """What low does meanwhile, a little longer than high."""
    if kind == "service":
        return "serve", {"kind": kind, "seconds": seconds + 0.5, "gap_ms": BESIDE_GAP_MS, "seed": 2}
    return "train", {"kind": kind, "seconds": seconds + 0.5}


def latencies(served: dict[str, Any]) -> tuple[float, float]:
    """Median and 99th percentile, ms."""
    values = served["latencies_ms"]
    return statistics.median(values), statistics.quantiles(values, n=100)[98]


def rate(worked: dict[str, Any]) -> float:
    """Steps a second."""
    ends = worked["ends"]
    return float(len(ends) / (ends[-1] - worked["start"]))


if __name__ == "__main__":
    main()
