"""Processes as the driver numbers them, named by the kernel. May block as long as /proc does: call it in a thread."""

import os
from collections.abc import Iterable

from attrs import evolve

from gpud.hooks import identity
from gpud.model.events import Process

_INITIAL_PID_NAMESPACE = 4026531836
"""PROC_PID_INIT_INO of the kernel: the same on every machine."""
_LONGEST = 200
_known: dict[int, Process] = {}
"""By pid, of the last questions: command lines are read once. One thread at a time is here."""


def sees_all_processes() -> bool:
    """Are the driver's numbers, those of the whole machine, also ours? Not in a PID namespace of our own."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE
    except OSError:
        return True  # a kernel without namespaces


def named(found: Iterable[tuple[int, int | None]]) -> tuple[Process, ...]:
    """(pid, bytes of device memory) → processes in order of their numbers. Those that have ended by now are left out,
    and so is this one."""
    used: dict[int, int | None] = {}
    for pid, count in found:  # a process stands twice where it has contexts on two instances
        used[pid] = (used.get(pid) or 0) + count if count is not None else used.get(pid)
    used.pop(os.getpid(), None)
    processes = (_named(pid, used[pid]) for pid in sorted(used))
    return tuple(process for process in processes if process is not None)


def _named(pid: int, used: int | None) -> Process | None:
    try:
        started = identity.start_time(pid)
        if started is None:
            raise ProcessLookupError
        known = _known.get(pid)
        if known is None or known.started != started or not known.command:
            if len(_known) >= 4096:
                _known.clear()
            known = _known[pid] = Process(
                pid=pid,
                started=started,
                user=identity.user_name(os.stat(f"/proc/{pid}").st_uid),
                command=identity.command(pid)[:_LONGEST],
                used_bytes=None,
                ancestors=identity.ancestors(pid),
            )
    except OSError:
        _known.pop(pid, None)
        return None
    return evolve(known, used_bytes=used)
