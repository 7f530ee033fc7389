"""Runs the tests in policies before a set is put in force: in a child process of low priority, for two seconds at most.

A test that fails rejects the set. One that was not reached in time rejects nothing, and that is said.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import trio
from attrs import frozen

from gpud.engine.loading import PolicySet, Rejected
from gpud.policies import ast
from gpud.policies.library import Library

log = logging.getLogger("gpud.reload")

DEADLINE_S = 2.0
MOST_BYTES = 1 << 20
"""Of what a child may write."""


@frozen(kw_only=True)
class Trials:
    """What came of it."""

    passed: int
    failed: tuple[str, ...]
    """A text each: which test, where, and what it expected."""
    not_run: int

    def __str__(self) -> str:
        parts = [f"{self.passed} passed"]
        parts += [f"{len(self.failed)} failed"] if self.failed else []
        parts += [f"{self.not_run} not run within {DEADLINE_S:g} s"] if self.not_run else []
        return ", ".join(parts)


def wanted(before: Library | None, after: Library) -> tuple[int, ...]:
    """Which of `after.tests` are to be run: those of policies that are new or say something else than before, and tests
    that are new or changed themselves. Places and comments do not count."""
    old_policies = {name: policy for name, (policy, _) in before.policies.items()} if before is not None else {}
    changed = {name for name, (policy, _) in after.policies.items() if old_policies.get(name) != policy}
    old_tests = [test for test, _ in before.tests] if before is not None else []
    return tuple(
        number for number, (test, _) in enumerate(after.tests) if changed & _policies(test) or test not in old_tests
    )


def _policies(test: ast.Test) -> set[str]:
    return {step.applied.policy.text for step in test.steps if isinstance(step, ast.UsePolicy)}


async def try_out(running: Library | None, fresh: PolicySet, directory: Path) -> str:
    """How the tests went that a change of the running set is about, "" where there are none. Raises Rejected."""
    numbers = wanted(running, fresh.library)
    found = await run_trials(fresh.files, numbers, directory)
    if found.failed:
        raise Rejected(f"tests: {found}", details=found.failed)
    return str(found) if numbers else ""


async def run_trials(
    files: Mapping[str, str], tests: Sequence[int], directory: Path, deadline_s: float = DEADLINE_S
) -> Trials:
    """`tests`: which of the set, counted from 0; `directory`: where recordings that a test replays are, or a
    file beside them."""
    if not tests:
        return Trials(passed=0, failed=(), not_run=0)
    asked = json.dumps({"files": dict(files), "tests": list(tests)}).encode()
    said = bytearray()
    with trio.move_on_after(deadline_s):
        try:
            await _run(asked, directory if await trio.Path(directory).is_dir() else directory.parent, said)
        except OSError as error:
            log.warning("the tests in policies cannot be run: %s", error.strerror)
    results = [json.loads(line) for line in bytes(said).split(b"\n")[:-1]]  # a line that is not whole does not count
    for result in results:
        if result["ok"] is None:
            log.warning("a test in policies cannot be run: %s", result["text"])
    passed = sum(result["ok"] is True for result in results)
    failed = tuple(result["text"] for result in results if result["ok"] is False)
    return Trials(passed=passed, failed=failed, not_run=len(tests) - passed - len(failed))


async def _run(asked: bytes, directory: Path, said: bytearray) -> None:
    """Fills `said` while it goes on. Whatever happens, the child is gone afterwards."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-P", "-m", "gpud.engine.trial_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=directory,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, process.stdin, asked)
            while chunk := await process.stdout.receive_some(1 << 16):
                said += chunk
                if len(said) > MOST_BYTES:
                    break
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what a plugin's function may have started
            await process.wait()
            for stream in (process.stdin, process.stdout):
                await stream.aclose()


async def _send(stream: trio.abc.SendStream, asked: bytes) -> None:
    try:
        await stream.send_all(asked)
        await stream.aclose()
    except trio.BrokenResourceError:
        log.warning("the process for the tests in policies ended at once")
