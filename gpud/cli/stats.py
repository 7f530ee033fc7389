"""`gpud stats`: what jobs have done since they attached."""

import click

from gpud.cli.completing import jobs as complete_jobs
from gpud.cli.helped import Verb
from gpud.cli.jobs import find_job
from gpud.cli.screen import ago, client, console, escape, print_json, size, table
from gpud.model.units import format_duration
from gpud.model.views import JobStats

_BAR = 40
_FIRST_US = 2
"""Bucket 0 of the histogram holds all below this."""


@click.command(
    "stats",
    cls=Verb,
    examples=[
        ("gpud stats", "all jobs, a line each"),
        ("gpud stats train", "one job, with how long its launches were held"),
        ("gpud stats --json", "for programs"),
    ],
)
@click.argument("job", required=False, metavar="[JOB]", shell_complete=complete_jobs)
@click.option("--json", "as_json", is_flag=True, help="One JSON list, also of one job.")
def command(job: str | None, as_json: bool) -> None:
    """What jobs have done since they attached: launches, how often and how long they were held, GPU time. With JOB, all
    of it, and a histogram of the holds."""
    with client() as daemon:
        found = daemon.stats(None if job is None else find_job(daemon, job))
    if as_json:
        print_json(found)
    elif job is not None:
        for one in found:
            _one(one)
    else:
        _all(found)


def _all(found: list[JobStats]) -> None:
    columns = ("job", "name", "class", "gpu time", "launches", "in flight", "held", "held for", "p50", "p99", "errors")
    shown = table(*columns, right=tuple(column for column in columns if column not in ("name", "class")))
    for one in found:
        shown.add_row(
            str(one.job.id),
            escape(one.job.name),
            escape(one.job.job_class or "–"),
            ago(one.spent_ns),
            f"{one.launches:,}",
            f"{one.inflight:,}",
            f"{one.held:,}",
            format_duration(one.held_ns, 1000),
            quantile_text(one.held_histogram, 0.5),
            quantile_text(one.held_histogram, 0.99),
            f"{one.launches_failed + one.hook_errors:,}",
        )
    console().print(shown if found else "no jobs; start one with: gpud run PROGRAM")


def _one(one: JobStats) -> None:
    job, out = one.job, console()
    rows = {
        "job": f"{job.id} ({job.name}) of {job.user}: {job.state}, class {job.job_class or 'none'}, "
        f"{ago(job.age_ns)} old",
        "launches": f"{one.launches:,}; the driver refused {one.launches_failed:,}; {one.unfinished:,} in the driver "
        f"now, {one.inflight:,} in flight",
        "held": f"{one.held:,} times, {format_duration(one.held_ns, 1000)} in sum; {one.waiting:,} threads now; "
        f"{one.passed:,} let through by the policy's patience",
        "gpu time": f"{format_duration(one.spent_ns, 1000)}{', estimated' if one.estimated else ''}; "
        f"{one.samples:,} launches measured, {one.clean:,} of them with nobody else on the device",
        "memory": f"{size(job.used_bytes)} in {one.allocations:,} allocations",
        "hook": f"{one.calls:,} driver calls of its own, {one.hook_errors:,} faults, attached again {one.attaches:,} "
        "times",
    }
    for name, text in rows.items():
        out.print(f"[bold]{name:<8}[/bold] {escape(text)}", soft_wrap=True)
    for line in histogram(one.held_histogram):
        out.print(line, soft_wrap=True)


def histogram(buckets: tuple[int, ...]) -> list[str]:
    """A line each, from the first to the last that counts something."""
    filled = [index for index, count in enumerate(buckets) if count]
    if not filled:
        return []
    most = max(buckets)
    lines = ["holds of a launch, finished ones"]
    for index in range(filled[0], filled[-1] + 1):
        count = buckets[index]
        bar = "█" * max(round(count / most * _BAR), 1 if count else 0)
        lines.append(f"  < {_upper(index):>6}  {bar:<{_BAR}} {count:,}".rstrip())
    return lines


def quantile_text(buckets: tuple[int, ...], part: float) -> str:
    """`< 4ms`: so long were that part of the holds at most; a dash where there were none."""
    total, passed = sum(buckets), 0
    for index, count in enumerate(buckets):
        passed += count
        if total and passed >= total * part:
            return f"< {_upper(index)}"
    return "–"


def _upper(index: int) -> str:
    """Of a bucket: 2^(index + 1) µs."""
    return format_duration(_FIRST_US * 1000 << index)
