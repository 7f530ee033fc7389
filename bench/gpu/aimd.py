"""`aimd` on a device: how soon low has what high leaves, from a cold start, and whether high keeps its pace.

High asks, waits for the answer, pauses, and asks again; its pace alone is measured first. Low works back to back. What
is left for low is the part of the time in which high, alone, has nothing on the device.
"""

import itertools

from bench.gpu.place import Parts, Place, all_ready, alone, options_of, place, same, together
from bench.gpu.windows import done_by
from bench.report import Row

HIGH_MS, THINK_MS, LOW_MS = 5.0, 5.0, 1.0
ALONE_S = 4.0
STEADY = 3
"""Seconds in a row that must be good before low counts as settled."""
HIGH_LEAST, LOW_LEAST = 0.97, 0.90
TARGET_S = 8.0


def main() -> None:
    options = options_of(__doc__ or "", seconds=22.0)
    parts = Parts("aimd", options)
    with place(options) as here, parts.part("cold start"):
        parts.device, parts.rows = measure(here)
    parts.end()


def measure(here: Place) -> tuple[str, list[Row]]:
    """The device, and all rows."""
    with here.node("aimd") as node:
        high = here.job(node, "high", {"tier": "online"})
        low = here.job(node, "low", {"tier": "batch"})
        measuring = here.job(node, "measuring", managed=False)
        device = all_ready([high, low, measuring])
        step_ms = same([measuring, high], "k5", HIGH_MS)
        low_ms = same([measuring, low], "k1", LOW_MS)
        seconds = max(here.seconds, TARGET_S + STEADY)  # fewer could not tell "not settled" from "settled in time"
        before = alone(high, "closed", kind="k5", seconds=ALONE_S, think_ms=THINK_MS)
        pace = len(before["ends"]) / (before["ends"][-1] - before["start"])
        high_did, low_did = together(
            [
                (high, "closed", {"kind": "k5", "seconds": seconds, "think_ms": THINK_MS}),
                (low, "train", {"kind": "k1", "seconds": seconds}),
            ]
        )
    start = low_did["start"]
    left = max(1 - pace * step_ms / 1e3, 0.01)
    whole = range(int(seconds))
    high_part = [per_second(high_did["ends"], start, second) / pace for second in whole]
    low_part = [per_second(low_did["ends"], start, second) * low_ms / 1e3 / left for second in whole]
    settled = settled_after(high_part, low_part)
    worst = min(high_part[1:])
    return device, [
        Row(name="aimd_cold_settled_s", value=settled, unit="s", target=TARGET_S),
        Row(
            name="aimd_high_worst_percent",
            value=100 * worst,
            unit="% of alone, worst second",
            target=95,
            better="higher",
        ),
        Row(name="aimd_high_below95_s", value=longest_below(high_part, 0.95), unit="s in a row", target=1),
        Row(
            name="aimd_low_last_percent", value=100 * sum(low_part[-3:]) / 3, unit="% of what is left", better="higher"
        ),
    ]


def per_second(ends: list[float], start: float, second: int) -> float:
    """Steps of one second."""
    return done_by(ends, start, start + second + 1) - done_by(ends, start, start + second)


def settled_after(high: list[float], low: list[float]) -> float:
    """Seconds until both have what they should for STEADY seconds; all of them when that never comes."""
    good = [one >= HIGH_LEAST and two >= LOW_LEAST for one, two in zip(high, low, strict=True)]
    for second in range(len(good) - STEADY + 1):
        if all(good[second : second + STEADY]):
            return float(second)
    return float(len(good))


def longest_below(parts: list[float], least: float) -> float:
    """The longest run of seconds below `least`."""
    return float(
        max((len(list(run)) for below, run in itertools.groupby(parts, lambda part: part < least) if below), default=0)
    )


if __name__ == "__main__":
    main()
