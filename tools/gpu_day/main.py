"""The command `tools/on_gpu`."""

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gpu_day import tree
from gpu_day.day import Day
from gpu_day.model import Step
from gpu_day.pack import CannotPack, pack
from gpu_day.record import NotOurs
from gpu_day.steps import Places, steps

BUDGET_S = 530.0


class Usage(Exception):
    """The options do not fit. The text is a sentence."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="tools/on_gpu",
        description="A day with a GPU: builds gpud, runs the tests and benches that need one, and writes one JSON file "
        "and one Markdown file. Changes no setting of the card.",
    )
    made.add_argument("--pack", type=Path, metavar="DIR", help="fill DIR with the wheels to carry along, and end")
    made.add_argument("--wheels", type=Path, metavar="DIR", help="what --pack made: gpud is built from it, in a copy")
    made.add_argument("--sim", action="store_true", help="rehearse on the simulated GPU")
    made.add_argument("--out", type=Path, metavar="DIR", help="where the files go (default: $OUT, else build/on-gpu)")
    made.add_argument("--work", type=Path, metavar="DIR", help="where gpud is built (default: build/on-gpu-work)")
    made.add_argument("--python", metavar="FILE", help="builds gpud and runs the jobs (default: this one)")
    made.add_argument("--budget", type=float, default=BUDGET_S, metavar="S", help="for all (default: %(default)g)")
    made.add_argument("--only", action="append", metavar="STEP", help="this step and what it needs; may be repeated")
    made.add_argument("--skip", action="append", metavar="STEP", default=[], help="not this step; may be repeated")
    made.add_argument("--resume", action="store_true", help="go on: steps that passed before are not run again")
    made.add_argument("--list", action="store_true", help="the steps, and end")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every step passed, or was skipped with a reason; 1: one did not; 2: wrong usage, or it could not pack."""
    options = parser().parse_args(arguments)
    try:
        if options.pack:
            print(pack(options.pack.resolve(), python=options.python))
            return 0
        if not 0 < options.budget < 86400:
            raise Usage(f"--budget is in seconds, above 0: {options.budget:g} is not")
        places = places_of(options)
        wanted = chosen(steps(places), options.only, options.skip)
        if options.list:
            for step in wanted:
                print(f"{step.name:<22} ≤ {step.limit_s:3.0f} s  {step.words}{f' ({step.skip})' if step.skip else ''}")
            return 0
        out = options.out or (Path(os.environ["OUT"]) if os.environ.get("OUT") else tree.ROOT / "build" / "on-gpu")
        return Day(places=places, steps=wanted, out=out.resolve(), budget_s=options.budget).run(resume=options.resume)
    except (CannotPack, NotOurs, Usage) as error:
        print(f"on_gpu: {error}", file=sys.stderr)
        return 2


def places_of(options: argparse.Namespace) -> Places:
    """Where everything is. Raises Usage."""
    work = (options.work or tree.ROOT / "build" / "on-gpu-work").resolve()
    python = shutil.which(options.python or sys.executable)
    if python is None:
        raise Usage(f"there is no Python {options.python}")
    own = tree.ROOT / ".venv" / "bin" / "python"
    if not options.wheels and not own.exists():
        raise Usage("gpud is not built here: give --wheels (see --pack), or run `make build`")
    return Places(
        simulated=options.sim,
        builder=python,
        jobs_python=str(own) if options.sim and own.exists() else python,
        tree=work / "tree" if options.wheels else tree.ROOT,
        gpud_python=str(work / "venv" / "bin" / "python") if options.wheels else str(own),
        work=work,
        wheels=options.wheels.resolve() if options.wheels else None,
    )


def chosen(every: Sequence[Step], only: Sequence[str] | None, skip: Sequence[str]) -> list[Step]:
    """The steps asked for, with what they need. Raises Usage for a name that is none."""
    names = {step.name for step in every}
    for name in [*(only or []), *skip]:
        if name not in names:
            raise Usage(f"there is no step {name}; there are {', '.join(step.name for step in every)}")
    wanted = set(only) if only else set(names)
    for step in reversed(every):
        if step.name in wanted:
            wanted.update(step.needs)
    wanted.add(every[0].name)
    return [step for step in every if step.name in wanted - set(skip)]
