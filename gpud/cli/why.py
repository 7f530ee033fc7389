"""`gpud why`: why a job runs or does not."""

import click
from rich.console import Console

from gpud.cli.gpu_time import lines
from gpud.cli.helped import Verb
from gpud.cli.jobs import find_job, job_argument
from gpud.cli.memory import lines as memory_lines
from gpud.cli.screen import client, console, escape, print_json
from gpud.cli.turns import line as turn_line
from gpud.model.views import ExplainView, JobView, TimeView, WhyDevice


@click.command(
    "why",
    cls=Verb,
    examples=[
        ("gpud why train", "the job called train"),
        ("gpud why 7 --json", "job 7, for programs"),
        ("gpud why pid:4711", "the job of that process"),
    ],
)
@job_argument
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(job: str, as_json: bool) -> None:
    """Why a job runs or does not: what holds for it on each device, and for each knob the policy, the line, the rule
    and the inputs that set it."""
    with client() as daemon:
        why = daemon.why(find_job(daemon, job))
    if as_json:
        print_json(why)
        return
    out = console()
    _line(out, f"[bold]{escape(_job(why.job))}[/bold]")
    if why.hold is not None:
        _line(out, f"  {escape(why.hold.text)}")
        _line(out, f"      {escape(f'{why.hold.code}, {why.hold.by}' if why.hold.by else why.hold.code)}")
    for note in why.job.notes:
        _line(out, f"  [yellow]{escape(note)}[/yellow]")
    for one in why.job.classes:
        _line(out, f"  {escape(_class(one.policy, one.job_class, one.how))}")
    for device in why.devices:
        _device(out, device, [time for time in why.job.time if time.device == device.device])
        for turn in [one for one in why.job.lock if one.device == device.device]:
            _line(out, f"  {escape(turn_line(turn))}")
        for memory in [one for one in why.job.memory if one.device == device.device]:
            for text in memory_lines(memory):
                _line(out, f"  {escape(text)}")
    if not why.devices:
        _line(out, "  it has no device yet")


def _device(out: Console, device: WhyDevice, times: list[TimeView]) -> None:
    policies = ", ".join(device.policies) or "no policy"
    ranked = f", rank {device.rank} (0 is the highest)" if device.arbiter == "preempt" else ""
    _line(out, f"[bold]gpu {device.device}[/bold]  {escape(policies)}: arbitrate {device.arbiter}{ranked}")
    for note in device.notes:
        _line(out, f"  [yellow]{escape(note)}[/yellow]")
    for time in times:
        for text in lines(time):
            _line(out, f"  {escape(text)}")
    built_in = [knob for knob in device.knobs if not (knob.because.line or knob.because.by) and knob.in_force]
    for knob in device.knobs:
        if knob not in built_in:
            _knob(out, knob)
    if built_in:
        names = ", ".join(dict.fromkeys(knob.because.knob.rpartition(".")[2] for knob in built_in))
        _line(out, f"  as built in: {escape(names)}")


def _knob(out: Console, view: ExplainView) -> None:
    because = view.because
    beaten = "" if view.in_force else "   (something else is tighter)"
    place = f"{because.file}:{because.line}  " if because.line else ""
    _line(out, f"  {escape(f'{because.knob} = {because.value}{beaten}')}")
    _line(out, f"      {escape(f'set by {because.by}' if because.by else f'{place}{because.rule}'.rstrip())}")
    for around in because.inside:
        _line(out, f"      inside {escape(around)}")
    if because.because:
        _line(out, f"      because {escape(because.because)}")
    for name, value in because.inputs:
        _line(out, f"      {escape(f'{name} = {value}')}")


def _job(job: JobView) -> str:
    return f"job {job.id} ({job.name}) of {job.user}: {job.state}, class {job.job_class or 'none'}"


def _class(policy: str, job_class: str, how: str) -> str:
    if how == "none":
        return f"{policy}: no class of it takes this job"
    return f"{policy}: {job_class}, {'pinned by gpud set or --class' if how == 'pinned' else 'by its match'}"


def _line(out: Console, text: str) -> None:
    out.print(text, soft_wrap=True)
