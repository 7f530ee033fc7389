"""Starts a program as a child, passes signals on, and reaps what the job leaves. Standard library only.

gpud stays the program's parent and is a child subreaper, so that every process of the job has a chain of parents that
leads to it. All signals of interest are blocked and taken one by one by `sigwaitinfo`: no handler runs in between.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator

from gpud.cli.failure import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, Failure

PR_SET_CHILD_SUBREAPER = 36
SI_KERNEL = 0x80
SECOND_WITHIN_S = 3.0
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
WAITED = {*FORWARDED, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD, signal.SIGIO}


def supervise(
    path: str,
    command: list[str],
    environment: dict[str, str],
    connection: socket.socket,
    drain: Callable[[socket.socket], bool],
) -> int:
    """Runs `command` (the program at `path`) to its end; the result is its exit code, 128+n when signal n ended it.

    What the program leaves in the background is not waited for. `drain` reads `connection`, which says when something
    has come. Raises `Failure` (126, 127) when the program cannot be started.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise Failure("this kernel has no child subreapers (Linux 3.4 or newer is needed)")
    ignored = {number for number in WAITED if signal.getsignal(number) is signal.SIG_IGN}
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
    child = _start(path, command, environment, old_mask)
    _tell_by_signal(connection)
    interrupted_at = -SECOND_WITHIN_S
    ending = False
    listening = drain(connection)  # what came before the signal was armed
    while True:
        info = signal.sigwaitinfo(WAITED)
        number = info.si_signo
        if number == signal.SIGCHLD:
            status = _reap(child)
            if status is not None:
                connection.close()
                return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        elif number == signal.SIGIO:
            listening = listening and drain(connection)
        elif number == signal.SIGINT:
            if info.si_code != SI_KERNEL and signal.SIGINT not in ignored:
                _send(child, signal.SIGINT)  # not typed at the terminal, so the program did not get it
            now = time.monotonic()
            if ending or now - interrupted_at < SECOND_WITHIN_S:
                _end_job(signal.SIGKILL if ending else signal.SIGTERM)
                ending = True
            interrupted_at = now
        elif number in FORWARDED and number not in ignored:
            _send(child, number)


def _start(path: str, command: list[str], environment: dict[str, str], mask: set[int | signal.Signals]) -> int:
    """Forks and executes; the child's pid. Raises `Failure` with the reason when exec fails."""
    report, tell = os.pipe()  # both close on exec: end of file means that the program runs
    child = os.fork()
    if child == 0:
        try:
            for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two for itself
                signal.signal(ignored, signal.SIG_DFL)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _execute(path, command, environment)
        except OSError as error:
            os.write(tell, str(error.errno or 0).encode())
        finally:
            os._exit(EXIT_NOT_EXECUTABLE)
    os.close(tell)
    with os.fdopen(report, "rb") as file:
        said = file.read()
    if said:
        os.waitpid(child, 0)
        number = int(said)
        raise Failure(
            f"{path}: cannot be executed: {os.strerror(number).lower()}",
            "its loader or interpreter is missing" if number == errno.ENOENT else "check the file",
            code=EXIT_NOT_FOUND if number == errno.ENOENT else EXIT_NOT_EXECUTABLE,
        )
    return child


def _execute(path: str, command: list[str], environment: dict[str, str]) -> None:
    try:
        os.execve(path, command, environment)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
    os.execve("/bin/sh", ["sh", path, *command[1:]], environment)  # a script without `#!`, as every shell does


def _tell_by_signal(connection: socket.socket) -> None:
    """SIGIO when the daemon sends something or goes away."""
    connection.setblocking(False)  # a signal may come without anything to read
    descriptor = connection.fileno()
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC | os.O_NONBLOCK)


def _reap(child: int) -> int | None:
    """Collects everything that has ended; the wait status of `child` if it is among that."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _end_job(number: signal.Signals) -> None:
    """Sends `number` to every process of the job; a kill is repeated until nobody is left who could fork anew."""
    say = "ending the job; Ctrl-C once more kills it" if number == signal.SIGTERM else "killing the job"
    print(f"\ngpud run: interrupted twice: {say}", file=sys.stderr, flush=True)
    done: set[int] = set()
    while True:
        new = [pid for pid in descendants(os.getpid()) if pid not in done]
        for pid in new:
            _send(pid, number)
        done.update(new)
        if not new:
            return


def descendants(root: int) -> Iterator[int]:
    """The pids of all processes that descend from `root`, nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    after_name = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(after_name[1]), []).append(int(name))
    queue = list(children.get(root, ()))
    while queue:
        pid = queue.pop(0)
        yield pid
        queue += children.get(pid, ())
