"""How fast a change of the policies reaches the gates: a daemon with many attached clients, whose pages are looked at.

`gate_ms` is the promise: from the moment when all checks and tests of the new set have passed to the moment when the
last of the clients' pages says what it says. `save_to_gate_ms` is what an operator waits for after a save, with the
200 ms that the files must have been at rest and the check of the whole set.
"""

import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.report import Row, arguments, emit, row_of_runs
from gpud.config import load_config
from gpud.control.client import RELOAD_S, Client
from gpud.model.policy_views import ReloadView
from gpud.native import shipped_policies
from gpud.testing.fake_hook import FakeHook
from gpud.testing.node import Node

CLIENTS = 64
ROUNDS = 15
DEVICE = (bytes(range(16)), 40 << 30)
DEADLINE_S = 10.0


@contextmanager
def node(*, tests: bool) -> Iterator[tuple[Node, Path]]:
    """A daemon that runs a copy of the shipped policies, and the copy."""
    with tempfile.TemporaryDirectory(prefix="gpud-bench-") as scratch:
        directory = Path(scratch) / "policies"
        shutil.copytree(shipped_policies(), directory, ignore=None if tests else shutil.ignore_patterns("tests"))
        with Node(policies=directory, policy=None) as made:
            yield made, directory


def save(directory: Path, before: str, after: str) -> int:
    """Changes preempt-mix as an editor does; returns when, monotonic ns."""
    path = directory / "preempt-mix.gpol"
    text = path.read_text()
    if before not in text:
        sys.exit(f"policy_reload: preempt-mix has no {before!r} any more: nothing would be measured")
    fresh = path.with_name("fresh.tmp")
    fresh.write_text(text.replace(before, after))
    fresh.rename(path)
    return time.monotonic_ns()


def all_say(hooks: Sequence[FakeHook], quiet_ns: int) -> int:
    """Waits until every page says it; returns when the last one did, monotonic ns. 0: they never did."""
    deadline = time.monotonic() + DEADLINE_S
    left = list(hooks)
    while left and time.monotonic() < deadline:
        left = [hook for hook in left if hook.gate(0).resume_after_ns != quiet_ns]
        time.sleep(0.0002)  # the daemon's core is its own
    return 0 if left else time.monotonic_ns()


def asked(client: Client, hooks: Sequence[FakeHook], quiet_ns: int) -> tuple[ReloadView, int]:
    """`gpud policy reload`, and when the last page had changed. (The daemon may have taken the save by itself
    already.)"""
    seen: list[int] = []
    looking = threading.Thread(target=lambda: seen.append(all_say(hooks, quiet_ns)))
    looking.start()
    view = client.reload()
    looking.join()
    if view.result == "rejected" or not seen[0]:
        sys.exit(f"policy_reload: {view.text}; pages changed: {bool(seen[0])}")
    return view, seen[0]


def measure() -> list[Row]:
    """With clients; the set has no tests, which expect what is shipped."""
    gate: list[float] = []
    applied: list[float] = []
    checks: list[float] = []
    saves: list[float] = []
    with node(tests=False) as (made, directory), ExitStack() as stack:
        config = load_config(made.environment)
        client = stack.enter_context(Client(config, RELOAD_S))
        hooks = [stack.enter_context(FakeHook(config.hook_socket)) for _ in range(CLIENTS)]
        for hook in hooks:
            hook.attach()
            hook.report_devices([DEVICE])
        if not all_say(hooks, 3_000_000):
            sys.exit("policy_reload: the clients do not get the shipped policy")
        before = quiet = 3
        while len(gate) < ROUNDS:
            before, quiet = quiet, quiet + 1
            save(directory, f"quiet    = {before}ms", f"quiet    = {quiet}ms")
            view, seen = asked(client, hooks, quiet * 1_000_000)
            if view.result == "loaded":
                gate.append((seen - view.passed_ns) / 1e6)
                applied.append((view.applied_ns - view.passed_ns) / 1e6)
                checks.append(view.check_ns / 1e6)
        for _ in range(ROUNDS):
            before, quiet = quiet, quiet + 1
            saved = save(directory, f"quiet    = {before}ms", f"quiet    = {quiet}ms")
            seen = all_say(hooks, quiet * 1_000_000)
            if not seen:
                sys.exit("policy_reload: a save was not loaded")
            saves.append((seen - saved) / 1e6)
    return [
        row_of_runs("gate_ms", gate, "ms", 50.0),
        Row(name="gate_worst_ms", value=max(gate), unit="ms", target=50.0),
        row_of_runs("applied_ms", applied, "ms"),
        row_of_runs("check_ms", checks, "ms"),
        row_of_runs("save_to_gate_ms", saves, "ms"),
    ]


def measure_tests() -> Row:
    """The tests of one changed policy, in their process."""
    times: list[float] = []
    with node(tests=True) as (made, directory), Client(load_config(made.environment), RELOAD_S) as client:
        before = "one kernel at a time."
        while len(times) < 5:
            after = f"one kernel at a time ({time.monotonic_ns()})."
            save(directory, before, after)
            view = client.reload()
            if view.result == "rejected" or "not run" in view.tests:
                sys.exit(f"policy_reload: {view.text}; tests: {view.tests}")
            if view.tests:
                times.append(view.tests_ns / 1e6)
            before = after
    return row_of_runs("tests_ms", times, "ms", 2000.0)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    rows = [*measure(), measure_tests()]
    emit("policy_reload", f"no GPU; {CLIENTS} clients, the shipped policies", rows, options.json)


if __name__ == "__main__":
    main()
