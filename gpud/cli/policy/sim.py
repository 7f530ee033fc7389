"""`gpud policy sim`: a policy through simulated time, as a picture."""

import shutil
import sys
from typing import Any

import click

from gpud.cli.failure import EXIT_USAGE, Failure
from gpud.cli.helped import Verb
from gpud.cli.policy import texts
from gpud.cli.policy.output import colour, write
from gpud.policies import ast
from gpud.policies.diagnostics import Diagnostic
from gpud.policies.library import Library
from gpud.policies.plugins.installed import InstalledPlugins
from gpud.policies.quantities import show_value
from gpud.policies.render import human, summary
from gpud.policies.simulate.series import Recording
from gpud.policies.site import quoted


@click.command(
    "sim",
    cls=Verb,
    epilog="Exit codes: 0 done, 1 an error, or the test failed, 2 wrong usage.",
    examples=[
        ("gpud policy sim preempt-mix --world 'contention(capacity = 3000/s)'", "draw it in a small world"),
        ("gpud policy sim tidal-mix --step 'at 5s high.active = true' --for 10s", "what one change does"),
        ("gpud policy sim preempt-mix trace.jsonl --svg out.svg", "a recording, as a picture"),
    ],
)
@click.argument("policy", metavar="POLICY")
@click.argument("trace", required=False, metavar="[TRACE]")
@click.option("--test", "test", metavar="NAME", help="Run this test of the policy; the beginning of its name will do.")
@click.option("--world", metavar="WORLD", help="Run in a small world: 'contention(capacity = 3000/s, …)'.")
@click.option("--step", "steps", multiple=True, metavar="LINE", help="A line as tests have it; may be repeated.")
@click.option(
    "--for", "duration", default="60s", metavar="DURATION", help="Of --world and --step: how long; default 60s."
)
@texts.policies_option
@click.option(
    "--only", "only", multiple=True, metavar="NAME", help="Draw only this knob, signal or let; may be repeated."
)
@click.option("--svg", metavar="FILE", help="Write the picture there.")
@click.option("--plot", is_flag=True, help="Draw in the terminal (without --svg and --json this is the default).")
@click.option("--json", "as_json", is_flag=True, help="All values as one JSON object.")
def command(
    policy: str,
    trace: str | None,
    test: str | None,
    world: str | None,
    steps: tuple[str, ...],
    duration: str,
    paths: tuple[str, ...],
    only: tuple[str, ...],
    svg: str | None,
    plot: bool,
    as_json: bool,
) -> int:
    """Runs a policy in simulated time and draws its knobs and signals.

    POLICY is a name, also with arguments: 'preempt-mix(quiet = 5ms)'. What happens comes from one of: TRACE, a
    recording (`-`: standard input); --test; --world and --step.
    """
    if sum((trace is not None, test is not None, world is not None or bool(steps))) != 1:
        raise Failure(
            "what is to happen?", "give one of TRACE, --test NAME, --world WORLD, --step LINE", code=EXIT_USAGE
        )
    library = texts.read(paths)
    if trace is not None:
        recording, found = _of_trace(policy, trace, library, only)
    else:
        recording, found = _of_plan(policy, test, world, steps, duration, library, only)
    if recording is not None:
        _show(recording, svg, plot, as_json)
    if found:
        click.echo(f"{human(found, colour=colour())}\n{summary(found)}", err=True)
    return int(bool(found))


Outcome = tuple[Recording | None, list[Diagnostic]]


def _of_trace(policy: str, trace: str, library: Library, only: tuple[str, ...]) -> Outcome:
    from gpud.policies.simulate.run import record_trace
    from gpud.policies.simulate.trace import TraceError

    plugins = InstalledPlugins()
    chosen, found = texts.named(policy, library, plugins)
    if found:
        return None, found
    if len(chosen) != 1:
        raise Failure(f"{policy!r} is {len(chosen)} policies", "name one", code=EXIT_USAGE)
    try:
        if trace == "-":
            return record_trace(chosen[0].policy, plugins, sys.stdin, "<stdin>", only=only), []
        with open(trace, encoding="utf-8") as lines:
            return record_trace(chosen[0].policy, plugins, lines, trace, only=only), []
    except TraceError as error:
        raise Failure(str(error), code=1) from error
    except UnicodeDecodeError as error:
        raise Failure(f"{trace}: this is no recording: it is not UTF-8 text", code=1) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Failure(f"cannot read {trace}: {reason}", "give a recording", code=EXIT_USAGE) from error


def _of_plan(
    policy: str,
    test: str | None,
    world: str | None,
    steps: tuple[str, ...],
    duration: str,
    library: Library,
    only: tuple[str, ...],
) -> Outcome:
    from gpud.policies.simulate.resolve_test import resolve_test
    from gpud.policies.simulate.run import plan_of, record_test

    plugins = InstalledPlugins()
    if test is not None:
        block, file = _test(policy, test, library)
        plan, found = resolve_test(block, file, library, plugins)
        if plan is None:
            return None, found
        recording, result = record_test(plan, block.name.span, only=only)
        return recording, list(result.diagnostics)
    lines = [f"simulate {world}"] if world is not None else []
    plan, made, found = plan_of(quoted(policy), "\n  ".join([*lines, *steps]), duration, library, plugins)
    if plan is None or made is None:
        return None, found
    recording, result = record_test(plan, made.name.span, only=only)
    return recording, list(result.diagnostics)


def _test(policy: str, name: str, library: Library) -> tuple[ast.Test, ast.File]:
    """The one test of the policy whose name is so, or begins so."""
    of_policy = [
        (test, file)
        for test, file in library.tests
        if any(isinstance(step, ast.UsePolicy) and step.applied.policy.text == policy for step in test.steps)
    ]
    names = "".join(f"\n  {test.name.text}" for test, _ in of_policy)
    meant = [pair for pair in of_policy if pair[0].name.text == name]
    meant = meant or [pair for pair in of_policy if pair[0].name.text.startswith(name)]
    if len(meant) == 1:
        return meant[0]
    if not of_policy:
        raise Failure(f"there is no test of {policy!r} in these files", "give --policies PATH", code=EXIT_USAGE)
    what = f"{len(meant)} tests of {policy!r} begin" if meant else f"no test of {policy!r} begins"
    raise Failure(f"{what} with {name!r}", f"there are:{names}", code=EXIT_USAGE)


def _show(recording: Recording, svg: str | None, plot: bool, as_json: bool) -> None:
    if svg is not None:
        from gpud.policies.simulate.plot import draw_svg

        try:
            with open(svg, "w", encoding="utf-8") as file:
                file.write(draw_svg(recording))
        except OSError as error:
            raise Failure(f"cannot write {svg}: {(error.strerror or str(error)).lower()}", code=EXIT_USAGE) from error
        if not as_json:
            write(f"wrote {svg}\n")
    if as_json:
        import json

        write(json.dumps(_data(recording), indent=2, ensure_ascii=False) + "\n")
    elif plot or svg is None:
        from gpud.policies.simulate.terminal import draw

        width = max(60, shutil.get_terminal_size((100, 24)).columns)
        encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
        write(draw(recording, width=min(width, 200), unicode=encoding.startswith("utf")))


def _data(recording: Recording) -> dict[str, Any]:
    """Values as policies write them; times in seconds."""
    series = [
        {
            "name": one.name,
            "kind": one.kind,
            "type": one.type.value,
            "values": [
                {"t": t_ns / 1e9, "value": show_value(value, one.type)}
                for t_ns, value in zip(one.times, one.values, strict=True)
            ],
        }
        for one in recording.series
    ]
    return {"title": recording.title, "end": recording.end_ns / 1e9, "series": series, "notes": list(recording.notes)}
