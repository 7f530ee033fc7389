"""What a turn on the device costs by itself: taken and given back while nobody waits, and handed over to one who does.

On the stand-in driver, with nothing on the device, so that neither draining nor memory is measured (`bench/switch.py`
has those). The first turn of a program, which the daemon grants, stands for itself; later ones find the device theirs.
Hand-over: from the moment when one of two programs releases to the moment when the other one, which waits, has it. The
contrasts run without gpud: a mutex in shared memory, and two programs that wake each other by semaphores.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bench.harness import NATIVE, in_memory, own_policies, policy_file, program, standin_node
from bench.report import Row, arguments, emit, row_of_runs
from gpud.testing.node import Node

POLICY = policy_file("arbitrate exclusive { max_hold = 30s  min_hold = 0s  grace = 1s  idle_release = 10s }")
IN_PYTHON = Path(__file__).parent / "programs" / "turns_loop.py"
HOLD_US, REST_US = 500, 400
"""A turn, and what follows it: long enough that the other one has it then, short enough that it is waited for."""


@frozen(kw_only=True)
class Turn:
    """Of one program. CLOCK_MONOTONIC nanoseconds."""

    who: int
    begin_ns: int
    end_ns: int


def hand_overs(turns: Iterable[Turn]) -> list[int]:
    """Nanoseconds from the end of a turn to the beginning of the next one, where that is another program's. Raises
    ValueError where two overlap: then nothing excluded them."""
    found, last = [], None
    for turn in sorted(turns, key=lambda turn: turn.begin_ns):
        if last is not None:
            if turn.begin_ns < last.end_ns:
                raise ValueError(f"two turns overlap, by {last.end_ns - turn.begin_ns} ns")
            if turn.who != last.who:
                found.append(turn.begin_ns - last.end_ns)
        last = turn
    return found


def uncontended(node: Node, command: Sequence[object], *, managed: bool) -> list[int]:
    """Nanoseconds of each acquire with its release."""
    job = node.run([str(word) for word in command], managed=managed)
    ready, *lines = job.communicate(timeout=120)[0].splitlines() or [""]
    if job.returncode or not ready.startswith("ready"):
        sys.exit(f"lock: {command[0]} ended with {job.returncode}; nothing was measured")
    return [int(line) for line in lines]


def handed_over(node: Node, binary: Path, count: int, rest_us: int, *, managed: bool) -> list[Turn]:
    """The turns of two programs that both want the device again and again."""
    with tempfile.NamedTemporaryFile() as file:
        jobs = []
        for index in range(2):
            words = ["hold", count, HOLD_US, rest_us] if managed else ["bare-hold", count, HOLD_US, 0, file.name, index]
            job = node.run([str(word) for word in [binary, *words]], managed=managed, stdin=subprocess.PIPE)
            jobs.append(job)
            assert job.stdout is not None
            if not job.stdout.readline().startswith("ready"):
                sys.exit("lock: a program ended before it was ready")
        for job in jobs:
            assert job.stdin is not None
            job.stdin.write("\n")
            job.stdin.flush()
        found = []
        for index, job in enumerate(jobs):
            lines = job.communicate(timeout=120)[0].splitlines()
            if job.returncode or len(lines) != count:
                sys.exit(f"lock: a program ended with {job.returncode}; nothing was measured")
            times = [tuple(map(int, line.split())) for line in lines]
            found += [Turn(who=index, begin_ns=begin, end_ns=end) for begin, end in times]
        return found


@contextmanager
def prepared() -> Iterator[tuple[Node, Path]]:
    """A node whose device goes by turns, and the program."""
    with (
        program(NATIVE / "turns.c") as binary,
        own_policies(POLICY) as policies,
        in_memory(),
        standin_node("bench", policies) as node,
    ):
        yield node, binary


def quantile(values: Sequence[float], part: float) -> float:
    """The smallest value that `part` of them do not exceed."""
    return sorted(values)[min(int(part * len(values)), len(values) - 1)]


def loop_rows(node: Node, binary: Path, count: int, runs: int) -> Iterator[Row]:
    """Of acquire and release while nobody waits, contrast first."""
    programs = {
        "bare": ([binary, "bare-loop", count], None),
        "c": ([binary, "loop", count], 100.0),
        "python": ([sys.executable, IN_PYTHON, count], 200.0),
    }
    first: dict[str, list[float]] = {}
    for name, (command, target) in programs.items():
        medians, worst = [], []
        for _ in range(runs):
            took = [ns / 1000 for ns in uncontended(node, command, managed=name != "bare")]
            first.setdefault(name, []).append(took.pop(0))
            medians.append(statistics.median(took))
            worst.append(quantile(took, 0.99))
        yield row_of_runs(f"lock_{name}_us", medians, "µs", target)
        yield row_of_runs(f"lock_{name}_p99_us", worst, "µs")
        if name != "bare":
            yield row_of_runs(f"lock_{name}_first_us", first[name], "µs")


def hand_over_rows(node: Node, binary: Path, count: int, runs: int) -> Iterator[Row]:
    """Of two programs, contrast first; then how often the one that waits is next when the other asks again at once."""
    for name, managed, target in (("bare_handover", False, None), ("handover", True, 500.0)):
        medians, worst = [], []
        for _ in range(runs):
            took = hand_overs(handed_over(node, binary, count, REST_US, managed=managed))
            if len(took) < count // 4:
                sys.exit(f"lock: of {2 * count} turns only {len(took)} were handed over: nothing was measured")
            medians.append(statistics.median(took) / 1000)
            worst.append(quantile(took, 0.99) / 1000)
        yield row_of_runs(f"lock_{name}_us", medians, "µs", target)
        yield row_of_runs(f"lock_{name}_p99_us", worst, "µs")
    turns = handed_over(node, binary, count, 0, managed=True)
    value = 100 * len(hand_overs(turns)) / (len(turns) - 1)
    yield Row(name="lock_handed_over_percent", value=value, unit="% of turns", target=90.0, better="higher")


def main() -> None:
    options = arguments(__doc__ or "", quick=True).parse_args()
    loops, turns, runs = (200, 50, 1) if options.quick else (2000, 500, 3)
    with prepared() as (node, binary):
        rows = [*loop_rows(node, binary, loops, runs), *hand_over_rows(node, binary, turns, runs)]
    emit("lock", "stand-in driver, no GPU", rows, options.json, rehearsal=options.quick)


if __name__ == "__main__":
    main()
