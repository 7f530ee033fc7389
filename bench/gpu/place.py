"""Where a bench of this package runs: a real device with jobs in PyTorch, or the simulated one with jobs in numba."""

import argparse
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from bench.report import Row, arguments, emit
from gpud.native import sim_dir
from gpud.testing.node import Node
from gpud.testing.talk import Talk

PROGRAMS = Path(__file__).parent / "programs"
PROFILE = "rehearsal"
BASE = "h200"
START_S = 120.0
"""How long a job may take to be there: imports, context, the framework's compilers."""
SLACK_S = 60.0
QUICK_S = 3.0


@frozen(kw_only=True)
class Place:
    """One device, and the Python that computes on it."""

    python: str
    profile: Path | None
    """None: a real device."""
    seconds: float
    """How long a segment is measured."""

    @property
    def simulated(self) -> bool:
        """Whether figures from here must say so."""
        return self.profile is not None

    @property
    def sharing(self) -> str:
        """How processes share the device when gpud does nothing: timeslice, or mps where a daemon of it runs."""
        pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
        return "mps" if not self.simulated and (pipe / "control").exists() else "timeslice"

    def node(self, policy: str) -> Node:
        """A daemon of one's own with one of the shipped policies."""
        return Node(profile=str(self.profile) if self.profile else None, policy=policy)

    def job(self, node: Node, name: str, labels: Mapping[str, str] | None = None, *, managed: bool = True) -> Talk:
        """A job that takes the orders of programs/jobs.py. It is not waited for: `all_ready` does."""
        program = PROGRAMS / ("numba_jobs.py" if self.simulated else "torch_jobs.py")
        job = Talk(node, [self.python, program], name=name, managed=managed, labels=labels)
        job.say("hello")
        return job


@contextmanager
def place(options: argparse.Namespace) -> Iterator[Place]:
    """As the options say. A rehearsal's profile lies beside its base for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as directory:
        profile = None
        if options.sim:
            shutil.copy(sim_dir() / "profiles" / f"{BASE}.toml", directory)
            profile = Path(shutil.copy(PROGRAMS / f"{PROFILE}.toml", directory))
        python = options.jobs_python or (sys.executable if options.sim else shutil.which("python3") or sys.executable)
        yield Place(python=python, profile=profile, seconds=options.seconds)


def options_of(description: str, seconds: float) -> argparse.Namespace:
    """The command line of a bench of this package."""
    parser = arguments(description, quick=True)
    parser.add_argument("--sim", action="store_true", help="rehearse on the simulated GPU, with numba-cuda")
    parser.add_argument("--jobs-python", metavar="FILE", help="the Python that has PyTorch (--sim: numba-cuda)")
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="how long a segment is measured (default %(default)g)"
    )
    options = parser.parse_args()
    if options.quick:
        options.seconds = min(options.seconds, QUICK_S)
    return options


def all_ready(jobs: Sequence[Talk]) -> str:
    """Waits until all jobs are there; what they compute on, for `emit`."""
    heard = [job.hear(START_S) for job in jobs]
    simulated = heard[0]["framework"] == "numba"
    version = heard[0].get("version", "")
    where = f"{heard[0]['device']}, {heard[0]['framework']} {version}".strip()
    return f"simulated, profile {PROFILE} ({BASE}), {where}: a rehearsal" if simulated else where


def together(asked: Sequence[tuple[Talk, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Gives each job its order, all at once, and waits for all answers. Raises ArithmeticError for a wrong result."""
    for job, order, words in asked:
        job.say(order, **words)
    longest = max(words.get("seconds", 0.0) for _, _, words in asked)
    answers = [job.hear(longest + SLACK_S) for job, _, _ in asked]
    for (job, order, _), answer in zip(asked, answers, strict=True):
        if answer.get("right") is False:
            raise ArithmeticError(f"{job.name} computed something wrong ({order})")
    return answers


def alone(job: Talk, order: str, **words: Any) -> dict[str, Any]:
    """The same for one job."""
    return together([(job, order, words)])[0]


def same(jobs: Sequence[Talk], kind: str, ms: float | None = None) -> float:
    """Makes the same kind of work in all jobs, as the first one, which must not be managed, finds it; ms of a step."""
    known = alone(jobs[0], "prepare", kind=kind, ms=ms)
    for job in jobs[1:]:
        alone(job, "prepare", kind=kind, ms=ms, known=known)
    return float(known["step_ms"])


class Parts:
    """The parts of a bench. One that fails is told on standard error, and costs only its own rows; what there is so far
    is printed after each, so that a bench that is ended keeps it."""

    def __init__(self, bench: str, options: argparse.Namespace) -> None:
        self.bench = bench
        self.device = "nothing was measured"
        self.rows: list[Row] = []
        self.failed: list[str] = []
        self._as_json = options.json
        self._shown = 0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Goes on after it, whatever happens in it."""
        try:
            yield
        except Exception:
            print(f"{name} failed:", file=sys.stderr)
            traceback.print_exc()
            self.failed.append(name)
        finally:
            if len(self.rows) > self._shown:
                self._shown = len(self.rows)
                emit(self.bench, self.device, self.rows, self._as_json)
                sys.stdout.flush()

    def end(self) -> None:
        """Exits with 1 when a part failed, or there are no rows."""
        if self.failed or not self.rows:
            sys.exit(f"{self.bench}: {', '.join(self.failed) or 'every part'} failed; what it said is above")
