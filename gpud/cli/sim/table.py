"""The figures of a device log, as tables for a terminal."""

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gpud.cli.failure import printable
from gpud.cli.sim.summary import Summary

KERNEL_ROWS = 12


def show(console: Console, summary: Summary) -> None:
    """Prints all tables; what they are of stands above."""
    scale = f", time scale {summary.time_scale:g}" if summary.time_scale != 1 else ""
    where = f"simulated, profile {summary.profile}, {summary.mode}{scale}; times are model time"
    console.print(f"node {escape(summary.node or '?')}: [italic]{escape(where)}[/italic]")
    _devices(console, summary)
    _programs(console, summary)
    _kernels(console, summary)
    for fault in summary.faults:
        console.print(f"fault: {escape(printable(fault))}")
    if not summary.complete:
        console.print("the log has no end: its device process runs, or was killed")
    if not summary.valid:
        console.print("not valid as a measurement: computing was slower than the modelled time by more than 1 %")


def _table(*columns: str, left: int = 1) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right", no_wrap=True)
    return table


def _devices(console: Console, summary: Summary) -> None:
    table = _table("device", "span", "busy", "kernels", "copies", "switches", "switching", "overruns")
    for one in summary.devices:
        share = f" {one.busy_ns / one.span_ns:.0%}" if one.span_ns else ""
        table.add_row(
            f"{one.device}{'' if one.lost_ns is None else f' (lost at {duration(one.lost_ns)})'}",
            duration(one.span_ns),
            duration(one.busy_ns) + share,
            str(one.kernels),
            str(one.copies),
            str(one.switches),
            duration(one.switch_ns),
            duration(one.overrun_ns),
        )
    console.print(table)


def _programs(console: Console, summary: Summary) -> None:
    if not summary.programs:
        return
    table = _table(
        "process", "dev", "kernels", "on device", "wait p50", "max", "cuts", "to dev", "from dev", "end", left=1
    )
    for one in summary.programs:
        table.add_row(
            str(one.pid),
            str(one.device),
            str(one.kernels),
            duration(one.run_ns),
            duration(one.wait_p50_ns),
            duration(one.wait_max_ns),
            str(one.cuts),
            size(one.h2d_bytes),
            size(one.d2h_bytes),
            printable(one.end) + (f", {one.dropped} dropped" if one.dropped else ""),
        )
    console.print(table)


def _kernels(console: Console, summary: Summary) -> None:
    if not summary.kernels:
        return
    table = _table("kernel", "count", "p50", "total")
    for one in summary.kernels[:KERNEL_ROWS]:
        table.add_row(escape(printable(one.name)), str(one.count), duration(one.run_p50_ns), duration(one.run_ns))
    rest = summary.kernels[KERNEL_ROWS:]
    if rest:
        total = sum(one.run_ns for one in rest)
        table.add_row(f"{len(rest)} others", str(sum(one.count for one in rest)), "", duration(total))
    console.print(table)


def duration(ns: int) -> str:
    """`1.25 ms`."""
    for unit, length in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= length:
            return f"{ns / length:.3g} {unit}" if ns < 1000 * length else f"{ns / length:.0f} {unit}"
    return f"{ns} ns" if ns else "0"


def size(count: int) -> str:
    """`64 MiB`."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= length:
            return f"{count / length:.3g} {unit}"
    return f"{count} B" if count else "0"
