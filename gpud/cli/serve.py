"""`gpud serve`: the daemon, in the foreground."""

import os

import click

from gpud.cli.helped import Verb
from gpud.config import load_config

GONE = {"--resume-after": "quiet", "--max-inflight": "window", "--max-pause": "patience"}
"""Flags of before policies were files → the parameter of preempt-mix that says the same."""


def _gone(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        flag = parameter.opts[0]
        raise click.UsageError(
            f"{flag} is gone: what holds for jobs is in policies now; "
            f"write --policy 'preempt-mix({GONE[flag]} = {value})'"
        )


@click.command(
    "serve",
    cls=Verb,
    examples=[
        ("gpud serve", "this machine's GPUs, the usual policies"),
        ("gpud serve --sim", "a simulated GPU"),
        ("gpud serve --sim h200 --sim-devices 8", "eight others"),
        ("gpud serve --policies ./policies --log info", "policies of your own"),
        ("gpud serve --policy 'preempt-mix(quiet = 1ms), quotas'", "these on every GPU"),
    ],
)
@click.option(
    "--sim",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[PROFILE]",
    help="A simulated GPU: the name of a profile, or the path of a .toml file.",
)
@click.option("--sim-devices", metavar="N", help="How many simulated devices, 1 to 8.")
@click.option("--time-scale", metavar="X", help="Simulated GPU: wall time = model time × X.")
@click.option(
    "--runtime-dir", metavar="DIR", help="Where the sockets are; default $GPUD_RUNTIME_DIR and the usual places."
)
@click.option(
    "--policies", metavar="DIR", help="The directory of policies; default $GPUD_POLICIES and the usual places."
)
@click.option(
    "--policy",
    metavar="POLICY[(…)],…",
    help="What runs on every GPU, in place of the apply lines: 'preempt-mix(quiet = 1ms), quotas'.",
)
@click.option("--log", metavar="LEVEL", help="error, warning, info or debug; default warning.")
@click.option("--resume-after", hidden=True, callback=_gone, expose_value=False)
@click.option("--max-inflight", hidden=True, callback=_gone, expose_value=False)
@click.option("--max-pause", hidden=True, callback=_gone, expose_value=False)
def command(
    sim: str | None,
    sim_devices: str | None,
    time_scale: str | None,
    runtime_dir: str | None,
    policies: str | None,
    policy: str | None,
    log: str | None,
) -> int:
    """The daemon, in the foreground, until SIGTERM, Ctrl-C or gpud stop.

    It runs the policies of a directory, and loads them anew when a file there changes, on SIGHUP, and on gpud policy
    reload. By default these are the policies that came with gpud: preempt-mix on every GPU, where jobs with the label
    tier=online are high, all others low, and low launches nothing while high has work on the device.
    """
    chosen = {"GPUD_SIM_DEVICES": sim_devices, "GPUD_SIM_TIME_SCALE": time_scale}
    given = {name: value for name, value in chosen.items() if value is not None}
    if given and sim is None:
        raise click.UsageError("--sim-devices and --time-scale need --sim")
    config = load_config(
        os.environ | given, runtime_dir=runtime_dir, log=log, sim=sim, policies=policies, policy=policy, serving=True
    )
    from gpud.daemon import serve

    return serve(config)
