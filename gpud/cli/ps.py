"""`gpud ps`: jobs and their state."""

import click

from gpud.cli.screen import ago, client, console, escape, print_json, size, table
from gpud.model.views import JobView


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="One JSON list of jobs.")
def command(as_json: bool) -> None:
    """Jobs and their state, oldest first."""
    with client() as daemon:
        jobs = sorted(daemon.ps(), key=lambda job: job.id)
    if as_json:
        print_json(jobs)
        return
    shown = table(
        "job", "name", "user", "class", "state", "gpu", "memory", "age", "pids", "why", right=("job", "memory", "age")
    )
    for job in jobs:
        shown.add_row(
            str(job.id),
            escape(job.name),
            escape(job.user),
            _class(job),
            job.state,
            ",".join(map(str, job.devices)) or "–",
            size(job.used_bytes),
            ago(job.age_ns),
            ",".join(map(str, job.pids)) or "–",
            escape(job.why.text) if job.why else "",
        )
    console().print(shown if jobs else "no jobs; start one with: gpud run PROGRAM")


def _class(job: JobView) -> str:
    name = escape(job.job_class or "–")
    return f"{name} (pinned)" if job.pinned else name
