"""How memory leaves the device and comes back: what is moved, how many pieces are under way, what it costs in CPU time.

Two programs of 60 % of a simulated device each take it in turn. What must leave for the next one is what it lacks, not
a byte more: told by the device's log. The CPU time of all (the programs', in which the simulated copies are made, and
the daemon's) is compared with that of the same driver calls without gpud: memory is made, as many bytes are copied in,
copied out, and it is given back. (A plain copy in memory that is there already costs less: the simulated driver meets
each page of new memory for the first time. It is shown too.) How fast the copies are says nothing here: `tools/on_gpu`
measures that on a real device.
"""

import statistics
import sys
import time

from attrs import frozen

from bench.holders import BASE, MIB, Holder, copies, device, most_in_flight, moved, swapping, waits, whole_log
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import until

PIECE_MIB = 64
CAPACITY_MIB = 960
SIZE_MIB = 576
GIB = 1 << 30
WAITS_S = 20.0


@frozen(kw_only=True)
class Swaps:
    """One run."""

    out: list[int]
    """Bytes at each switch."""
    into: list[int]
    flight: dict[str, int]
    """The most pieces under way, each way."""
    both: int
    """Switches at which something went out and something came in at the same time."""
    cpu_s_per_gib: float
    driver_s_per_gib: float
    """The driver's calls alone."""
    plain_s_per_gib: float
    wrong: int


def cpu_ns(pid: int) -> int:
    """Of a whole process so far."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # CPUCLOCK_SCHED of a process, as clock_getcpuclockid makes it


def measure(count: int) -> Swaps:
    """So many switches."""
    with device(CAPACITY_MIB, 2, swapping()) as (node, binary):
        assert node.daemon is not None
        holders = [Holder(node, binary, SIZE_MIB, PIECE_MIB, seed) for seed in (1, 2)]
        pids = [holder.pid for holder in holders]
        everybody = [*pids, node.daemon.pid]
        times: list[tuple[int, int]] = []
        before = 0
        holders[0].ask("enter", "entered")
        for number in range(count + 2):
            if number == 2:  # what filling has pushed out is in, and the host tier is made
                before = sum(map(cpu_ns, everybody))
            has, comes = holders[number % 2], holders[1 - number % 2]
            comes.say("enter")
            until(lambda pid=comes.pid: waits(node, pid), WAITS_S, "the next one waits", 0.02)  # type: ignore[misc]
            (released,) = has.ask("release", "released")
            times.append((released, comes.hear("entered")[-1]))
        cpu = sum(map(cpu_ns, everybody)) - before
        holders[1 - (count + 1) % 2].ask("release", "released")
        wrong = sum(holder.ask("check", "checked")[0] for holder in holders)
        log = whole_log(node)
    found = {way: [copies(log, pids, *span, way) for span in times[2:]] for way in ("out", "in")}
    total = sum(moved(one) for ways in found.values() for one in ways)
    plain, driver = contrast_cpu_s(total // 2 // MIB)
    overlapping = [
        any(a.submit_ns < b.end_ns and b.submit_ns < a.end_ns for a in out for b in into)
        for out, into in zip(found["out"], found["in"], strict=True)
    ]
    return Swaps(
        out=[moved(one) for one in found["out"]],
        into=[moved(one) for one in found["in"]],
        flight={way: max(map(most_in_flight, ways), default=0) for way, ways in found.items()},
        both=sum(overlapping),
        cpu_s_per_gib=cpu / 1e9 / (total / GIB) if total else 0.0,
        driver_s_per_gib=driver / (total / GIB) if total else 0.0,
        plain_s_per_gib=plain / (total / GIB) if total else 0.0,
        wrong=wrong,
    )


def contrast_cpu_s(mib: int) -> tuple[float, float]:
    """CPU time without gpud, out and in: of a plain copy of so much, and with all that the driver has to do."""
    with device(CAPACITY_MIB, 1, None) as (node, binary):
        holder = Holder(node, binary, SIZE_MIB, PIECE_MIB, 1, managed=False)
        copied = holder.ask(f"plain {max(mib, 2 * PIECE_MIB)}", "plain")[2] / 1e9
        return copied, holder.ask(f"remap {max(mib, PIECE_MIB)}", "remapped")[0] / 1e9


def rows_of(found: list[Swaps]) -> list[Row]:
    deficit = (2 * SIZE_MIB - CAPACITY_MIB) * MIB
    rows = []
    for way, bytes_of in (
        ("out", [n for one in found for n in one.out]),
        ("in", [n for one in found for n in one.into]),
    ):
        off = max(abs(count - deficit) for count in bytes_of)
        flight = min(one.flight[way] for one in found)
        rows += [
            Row(name=f"swap_{way}_mib", value=statistics.mean(bytes_of) / MIB, unit="MiB a switch"),
            Row(name=f"swap_{way}_off_bytes", value=off, unit="bytes from the deficit, the worst", target=0),
            Row(name=f"swap_{way}_in_flight", value=flight, unit="pieces", target=2, better="higher"),
        ]
    switches = sum(len(one.out) for one in found)
    both = 100 * sum(one.both for one in found) / switches
    rows.append(Row(name="swap_both_ways_percent", value=both, unit="% of switches", better="higher"))
    rows.append(row_of_runs("swap_plain_cpu_s_per_gib", [one.plain_s_per_gib for one in found], "s of CPU"))
    rows.append(row_of_runs("swap_driver_cpu_s_per_gib", [one.driver_s_per_gib for one in found], "s of CPU"))
    rows.append(row_of_runs("swap_cpu_s_per_gib", [one.cpu_s_per_gib for one in found], "s of CPU"))
    beyond = [one.cpu_s_per_gib - one.driver_s_per_gib for one in found]
    rows.append(row_of_runs("swap_cpu_beyond_s_per_gib", beyond, "s of CPU", 0.3))
    rows.append(Row(name="swap_lost_words", value=sum(one.wrong for one in found), unit="words", target=0))
    return rows


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    found = [measure(4 if options.quick else 16) for _ in range(1 if options.quick else 3)]
    rows = rows_of(found)
    words = f"simulated, profile {BASE} with room for {CAPACITY_MIB} MiB, two programs of {SIZE_MIB} MiB"
    emit("swap", words, rows, options.json, rehearsal=options.quick)
    sys.exit(0 if rows[-1].value == 0 else 1)


if __name__ == "__main__":
    main()
