"""`gpud ps`: jobs and their state."""

import os

import click

from gpud.cli.gpu_time import brief
from gpud.cli.helped import Verb
from gpud.cli.memory import brief as memory
from gpud.cli.screen import ago, client, console, escape, print_json, size, table
from gpud.cli.turns import brief as turn
from gpud.model.views import JobView, UnmanagedView


@click.command(
    "ps",
    cls=Verb,
    examples=[
        ("gpud ps", "who runs, who waits and for whom"),
        ("gpud ps --json", "for programs"),
    ],
)
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON list of jobs. (Unmanaged processes: gpud status --json.)"
)
def command(as_json: bool) -> None:
    """Jobs and their state, oldest first; then processes on a GPU that are no job's: no policy holds them."""
    with client() as daemon:
        jobs = sorted(daemon.ps(), key=lambda job: job.id)
        unmanaged = [] if as_json else daemon.unmanaged()
    if as_json:
        print_json(jobs)
        return
    columns = ("job", "name", "user", "class", "state", "gpu", "gpu time", "turn", "memory", "age", "pids", "why")
    shown = table(*columns, right=("job", "gpu time", "memory", "age"))
    for job in jobs:
        shown.add_row(
            str(job.id),
            escape(job.name),
            escape(job.user),
            _class(job),
            job.state,
            ",".join(map(str, job.devices)) or "–",
            ", ".join(map(brief, job.time)) or "–",
            escape("; ".join(filter(None, map(turn, job.lock)))) or "–",
            memory(job),
            ago(job.age_ns),
            ",".join(map(str, job.pids)) or "–",
            escape("; ".join([*([job.why.text] if job.why else []), *job.notes])),
        )
    for one in unmanaged:
        gpu = "–" if one.device is None else str(one.device)
        shown.add_row(
            "–", escape(_program(one)), escape(one.user), "–", "unmanaged", gpu, "–", "–", size(one.used_bytes), "–",
            str(one.pid), "it runs without gpud: no policy holds it",
        )  # fmt: skip
    console().print(shown if jobs or unmanaged else "no jobs; start one with: gpud run PROGRAM")


def _program(process: UnmanagedView) -> str:
    return os.path.basename(process.command.split(" ")[0]) or "?"


def _class(job: JobView) -> str:
    name = escape(job.job_class or "–")
    return f"{name} (pinned)" if job.pinned else name
