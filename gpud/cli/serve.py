"""`gpud serve`: the daemon, in the foreground."""

import os

import click

from gpud.config import load_config


@click.command("serve")
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
    "--resume-after", metavar="DURATION", help="low goes on when high has been idle for this long; default 1ms."
)
@click.option("--max-inflight", metavar="N|unlimited", help="Launches of low submitted and unfinished; default 1.")
@click.option(
    "--max-pause", metavar="DURATION|unlimited", help="A held job gets a launch through after this; default 2s."
)
@click.option("--log", metavar="LEVEL", help="error, warning, info or debug; default warning.")
def command(
    sim: str | None,
    sim_devices: str | None,
    time_scale: str | None,
    runtime_dir: str | None,
    resume_after: str | None,
    max_inflight: str | None,
    max_pause: str | None,
    log: str | None,
) -> int:
    """The daemon, in the foreground, until SIGTERM, Ctrl-C or gpud stop.

    Policy: preempt-mix. Jobs with the label tier=online (or --class high) are high, all others low; low launches
    nothing while high has work on the device.
    """
    chosen = {"GPUD_SIM_DEVICES": sim_devices, "GPUD_SIM_TIME_SCALE": time_scale}
    given = {name: value for name, value in chosen.items() if value is not None}
    if given and sim is None:
        raise click.UsageError("--sim-devices and --time-scale need --sim")
    config = load_config(
        os.environ | given,
        runtime_dir=runtime_dir,
        log=log,
        sim=sim,
        resume_after=resume_after,
        max_inflight=max_inflight,
        max_pause=max_pause,
    )
    from gpud.daemon import serve

    return serve(config)
