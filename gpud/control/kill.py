"""Sends a signal to all processes of a job, and to no other: each by a pidfd, once its start time is the one that was
seen."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping

from attrs import frozen

from gpud.hooks import identity

NAMES = ("TERM", "INT", "HUP", "KILL", "QUIT", "USR1", "USR2", "STOP", "CONT")
SIGNALS = {name: getattr(signal, f"SIG{name}") for name in NAMES}
WITHIN_S = 3.0
"""What was killed is waited for so long at most; then processes are looked for again, until there are no new ones: a
fork that was under way has made its child by then."""
Known = Mapping[tuple[int, int], int]
"""(pid, start time) of all attached processes and of all launchers → job."""


@frozen(kw_only=True)
class Sent:
    """What became of it."""

    reached: tuple[int, ...]
    """Pids."""
    others: tuple[int, ...]
    """Those that who asks has no right to."""


def send(
    job: int, known: Known, launcher: tuple[int, int] | None, name: str, uid: int | None, *, within_s: float = WITHIN_S
) -> Sent:
    """Reads /proc, which may hang: call it in a thread. `launcher`: `gpud run`, which ends with its program, and gets
    the signal only while it has none. `uid`: who asks, where that is no operator; processes of the job that run as
    somebody else are left alone, as kill(2) does."""
    latest = time.monotonic() + within_s
    done: set[tuple[int, int]] = set()
    reached: list[int] = []
    others: list[int] = []
    while True:
        there = set(processes_of(job, known))
        if launcher in there and len(there) + len(done) > 1:
            there.discard(launcher)
        new = there - done
        if not new:
            return Sent(reached=tuple(reached), others=tuple(others))
        with contextlib.ExitStack() as stack:
            dying: list[int] = []
            for pid, started in sorted(new):
                pidfd = identity.open_process(pid, started)
                if pidfd is None:
                    continue
                stack.callback(os.close, pidfd)
                outcome = _send_one(pidfd, pid, SIGNALS[name], uid)
                if outcome is not None:
                    (reached if outcome else others).append(pid)
                if outcome and name == "KILL":
                    dying.append(pidfd)
            _wait_for(dying, latest)
        done |= new
        if time.monotonic() > latest:
            return Sent(reached=tuple(reached), others=tuple(others))


def processes_of(job: int, known: Known) -> Iterator[tuple[int, int]]:
    """(pid, start time) of the processes of a job: those that are attached, and all that descend from its launcher and
    from no other's."""
    table = dict(_all_processes())
    for pid, (_, started) in table.items():
        seen: set[int] = set()
        at: int | None = pid
        while at is not None and at in table and at not in seen:
            seen.add(at)
            found = known.get((at, table[at][1]))
            if found is not None:
                if found == job:
                    yield pid, started
                break
            at = table[at][0]


def _all_processes() -> Iterator[tuple[int, tuple[int, int]]]:
    """pid → (parent, start time)."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            found = identity.parent_and_start(int(name))
            if found is not None:
                yield int(name), found


def _send_one(pidfd: int, pid: int, number: int, uid: int | None) -> bool | None:
    """None: it is gone; False: who asks has no right to it."""
    if uid is not None and uid not in identity.real_and_saved_users(pid):
        return False
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return None
    except PermissionError:
        return False
    return True


def _wait_for(pidfds: list[int], latest: float) -> None:
    """Until these have ended. One that hangs in the kernel forks no more, either."""
    for pidfd in pidfds:
        end = select.poll()
        end.register(pidfd, select.POLLIN)
        end.poll(max(latest - time.monotonic(), 0) * 1000)
