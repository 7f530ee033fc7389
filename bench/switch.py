"""From one owner of the device to the next: how long, and what is moved, by the log of a simulated device.

Two programs take the device in turn, each with a kernel for each piece of its memory. Where both fit into the device
nothing moves; where they lack a tenth of it, only that moves, both ways. Time is the programs' own clock: from the
moment when one releases to the moment when the first launch of the one that waits has returned. Contrasts: the same
launch where nobody else wants the device; and what it would take to copy all of the memory out and in again, as one who
knows nothing of need would.
"""

import statistics
import sys
from collections.abc import Iterator

from attrs import frozen

from bench.holders import BASE, MIB, Holder, copies, device, moved, swapping, waits, whole_log
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import until

PIECE_MIB = 32
CAPACITY_MIB = 640
FITS_MIB = (320, 320)
LACKS_MIB = (352, 352)
"""Together a tenth more than there is."""
WAITS_S = 20.0


@frozen(kw_only=True)
class Switches:
    """What two programs have come to."""

    took_us: list[float]
    out: list[int]
    """Bytes that left the device at each."""
    into: list[int]
    wrong: int
    """Words that were lost."""
    own_us: list[float]
    """Acquire and first launch of one that has the device already."""
    whole_ms: float
    """A plain copy of all of one's memory, out and in."""


def measure(sizes_mib: tuple[int, int], count: int) -> Switches:
    """So many switches."""
    with device(CAPACITY_MIB, 2, swapping()) as (node, binary):
        holders = [Holder(node, binary, mib, PIECE_MIB, seed) for seed, mib in enumerate(sizes_mib, 1)]
        own, took, times = [], [], []
        holders[0].ask("enter", "entered")
        for number in range(count + 2):  # the first of each brings in what filling has pushed out
            has, comes = holders[number % 2], holders[1 - number % 2]
            comes.say("enter")
            until(lambda pid=comes.pid: waits(node, pid), WAITS_S, "the next one waits")  # type: ignore[misc]
            (released,) = has.ask("release", "released")
            _, _, first, end = comes.hear("entered")
            took.append((first - released) / 1000)
            times.append((released, end))
        last = holders[1 - (count + 1) % 2]
        for _ in range(count):
            last.ask("release", "released")
            asked, _, first, _ = last.ask("enter", "entered")
            own.append((first - asked) / 1000)
        last.ask("release", "released")
        wrong = sum(holder.ask("check", "checked")[0] for holder in holders)
        last.ask("acquire", "acquired")
        out_ns, in_ns, _ = last.ask(f"plain {last.mib}", "plain")
        log = whole_log(node)
    pids = [holder.pid for holder in holders]
    found = {way: [moved(copies(log, pids, *time, way)) for time in times[2:]] for way in ("out", "in")}
    return Switches(
        took_us=took[2:],
        out=found["out"],
        into=found["in"],
        wrong=wrong,
        own_us=own,
        whole_ms=(out_ns + in_ns) / 1e6,
    )


def rows_of(name: str, sizes_mib: tuple[int, int], count: int, runs: int, target_us: float | None) -> Iterator[Row]:
    found = [measure(sizes_mib, count) for _ in range(runs)]
    deficit = max(sum(sizes_mib) - CAPACITY_MIB, 0) * MIB
    yield row_of_runs(f"switch_{name}_us", [statistics.median(one.took_us) for one in found], "µs", target_us)
    yield row_of_runs(f"switch_{name}_worst_us", [max(one.took_us) for one in found], "µs")
    if not deficit:
        yield row_of_runs(f"switch_{name}_own_us", [statistics.median(one.own_us) for one in found], "µs")
    yield row_of_runs(f"switch_{name}_whole_copied_us", [1000 * one.whole_ms for one in found], "µs")
    for way, bytes_of in (
        ("out", [n for one in found for n in one.out]),
        ("in", [n for one in found for n in one.into]),
    ):
        off = max(abs(count - deficit) for count in bytes_of)
        yield Row(name=f"switch_{name}_{way}_mib", value=statistics.mean(bytes_of) / MIB, unit="MiB a switch")
        yield Row(name=f"switch_{name}_{way}_off_bytes", value=off, unit="bytes from the deficit, the worst", target=0)
    yield Row(name=f"switch_{name}_lost_words", value=sum(one.wrong for one in found), unit="words", target=0)


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    count, runs = (6, 1) if options.quick else (60, 3)
    rows = [
        *rows_of("fits", FITS_MIB, count, runs, 1000.0),
        *rows_of("lacks10", LACKS_MIB, max(count // 3, 4), runs, None),
    ]
    device_words = f"simulated, profile {BASE} with room for {CAPACITY_MIB} MiB, copies at 25 GB/s"
    emit("switch", device_words, rows, options.json, rehearsal=options.quick)
    sys.exit(0 if all(row.met is not False for row in rows if row.name.endswith("lost_words")) else 1)


if __name__ == "__main__":
    main()
