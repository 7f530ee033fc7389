"""Processes as the kernel names them: this machine's own."""

import os
import subprocess
import sys

from gpud.devices.processes import named, sees_all_processes
from gpud.hooks import identity


def test_a_process_is_named_as_the_kernel_does() -> None:
    code = "print('here', flush=True); input()"
    command = [sys.executable, "-c", code, "some", "words"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        try:
            (found,) = named([(child.pid, 5)])
            assert found.pid == child.pid
            assert found.started == identity.start_time(child.pid)
            assert found.command.endswith("input() some words")
            assert found.used_bytes == 5
            assert found.user
            assert named([(child.pid, None)])[0].used_bytes is None
        finally:
            child.communicate(b"\n")
    assert named([(child.pid, 5)]) == (), "it has ended"


def test_arguments_end_no_line() -> None:
    """A command line of several lines is one, whoever looks at it: else a job could write lines into the log."""
    forged = "x\n2026-01-01 00:00:00,000 gpud WARNING forged\r\x1b[31m\u2028"
    command = [sys.executable, "-c", "print('here', flush=True); input()", forged]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            (found,) = named([(child.pid, None)])
            for seen in (found.command, identity.command(child.pid)):
                assert seen.isprintable()
                assert "x\\n2026-01-01" in seen
                assert seen.endswith(r"forged\r\x1b[31m\u2028")
        finally:
            child.communicate(b"\n")


def test_this_process_is_not_among_them() -> None:
    assert named([(os.getpid(), 5)]) == ()


def test_a_process_on_two_instances_is_one() -> None:
    parent = os.getppid()
    assert [one.used_bytes for one in named([(parent, 5), (parent, 7), (parent, None)])] == [12]


def test_a_number_of_a_process_that_is_another_one_now() -> None:
    """What is remembered of a number holds only while the process began at the same time."""
    from gpud.devices import processes

    parent = os.getppid()
    (found,) = named([(parent, 1)])
    processes._known[parent] = processes._known[parent].__class__(
        pid=parent, started=found.started - 1, user="nobody", command="another", used_bytes=None
    )
    assert named([(parent, 1)]) == (found,)


def test_the_namespace_of_processes_is_known() -> None:
    assert isinstance(sees_all_processes(), bool)
