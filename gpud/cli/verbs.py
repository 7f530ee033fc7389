"""All verbs but `run`, by click. Each verb's module is imported only when it is asked for."""

import sys

import click

from gpud.cli.failure import EXIT_FAILED, error_text, of_system
from gpud.cli.helped import Verb
from gpud.cli.lazy import LazyVerbs, load
from gpud.cli.run_options import EPILOG, EXAMPLES, OPTIONS, SUMMARY
from gpud.model.errors import GpudError

VERBS = {
    "serve": ("gpud.cli.serve", "the daemon, in the foreground"),
    "run": ("", SUMMARY),
    "ps": ("gpud.cli.ps", "jobs and their state"),
    "top": ("gpud.cli.top", "the live screen"),
    "why": ("gpud.cli.why", "why a job runs or does not, from knob to rule to line to inputs"),
    "stats": ("gpud.cli.stats", "what jobs have done: launches, holds, GPU time"),
    "set": ("gpud.cli.set", "change a running job: class, memory, GPU time"),
    "pause": ("gpud.cli.act:pause", "hold every launch of a job"),
    "resume": ("gpud.cli.act:resume", "let it go on"),
    "evict": ("gpud.cli.act:evict", "take the device from a job"),
    "kill": ("gpud.cli.act:kill", "send a signal to all processes of a job"),
    "status": ("gpud.cli.status", "what the daemon runs: policy, devices"),
    "stop": ("gpud.cli.stop", "end the daemon, opening every gate"),
    "policy": ("gpud.cli.policy.verb", "check, test and explain policies; load and roll back"),
    "sim": ("gpud.cli.sim.verb", "the simulated GPU: what ran on it"),
    "trace": ("gpud.cli.trace", "what happened, for Perfetto or a collector"),
    "doctor": ("gpud.cli.doctor", "look for what is missing or wrong on this machine"),
    "demo": ("gpud.cli.demo.verb", "two programs on one GPU: alone, shared, and shared under gpud"),
    "bench": ("gpud.cli.bench", "the measurements of a checkout"),
    "completion": ("gpud.cli.completion", "what makes a shell complete all this"),
    "man": ("gpud.cli.man", "write the manual pages"),
}
"""Verb → where its click command is (lazy.load), and one line for the list."""


def _find(verb: str) -> click.Command:
    return _run_for_help() if verb == "run" else load(VERBS[verb][0])


def _run_for_help() -> click.Command:
    """`run` as click shows and completes it; what runs is `gpud.cli.run`, which click never reaches."""
    from gpud.cli import completing

    parameters: list[click.Parameter] = [
        click.Option(
            [option.flag, option.flag.lstrip("-") + "_"],
            metavar=option.metavar or None,
            is_flag=not option.metavar,
            multiple=option.repeats,
            help=option.text,
            shell_complete=completing.classes if option.flag == "--class" else None,
        )
        for option in OPTIONS
        if option.flag != "--help"
    ]
    parameters.append(click.Argument(["command"], nargs=-1, required=True, type=click.Path()))
    return Verb(
        "run",
        params=parameters,
        help=SUMMARY,
        epilog=EPILOG,
        examples=EXAMPLES,
        context_settings={"allow_interspersed_args": False},
        callback=lambda **_: None,
    )


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        from gpud import __version__

        click.echo(f"gpud {__version__}")
        ctx.exit()


def group() -> click.Group:
    """The whole command line."""
    version = click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_version,
        help="Show the version and end.",
    )
    return LazyVerbs(
        "gpud",
        {name: text for name, (_, text) in VERBS.items()},
        _find,
        params=[version],
        help="Several jobs share one GPU, and the ones that matter stay fast.",
        epilog="JOB is a job's number, its name where only one has it, or a process of it: pid:4711.",
        examples=[
            ("gpud doctor", "what is missing on this machine"),
            ("gpud serve", "the daemon; without a GPU: gpud serve --sim"),
            ("gpud run --label tier=online python service.py", "a job that goes first"),
            ("gpud top", "what goes on"),
        ],
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def dispatch(arguments: list[str]) -> int:
    """Runs one verb; the result is the exit code. What a user can cause is told in words, never by a traceback."""
    verb = arguments[0] if arguments and arguments[0] in VERBS else ""
    try:
        result = group().main(arguments, prog_name="gpud", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except GpudError as error:
        print(error_text(error, verb), file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_FAILED
    except OSError as error:
        failure = of_system(error)
        print(error_text(failure, verb), file=sys.stderr)
        return failure.exit_code
    return result if isinstance(result, int) else 0
